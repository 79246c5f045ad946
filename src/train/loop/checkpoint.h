// SPDX-License-Identifier: Apache-2.0
// OUT/step-N/: a Hugging Face folder (config.json, model.safetensors, the tokenizer's files) that the engine loads, or for a draft
// adapter PEFT's folder linear_spec_lora/, which the engine reads inside the model's; plus what the
// trainer needs to go on bit for bit: trainer.safetensors (raw weights, moments, average) and trainer.json (step, time,
// config, and the working folder that the config's relative paths start from).
// Written beside as step-N.partial and renamed.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <vector>

#include "train/loop/config.h"
#include "train/loop/loss_log.h"

namespace slip {

struct TrainState {
  int64_t step = 0;  // steps done
  double elapsed_s = 0;
  std::span<float> values, first, second, average;  // average: empty without EMA
};

/// Writes OUT/step-N with loss.jsonl so far, then removes all but the newest `keep` such folders.
Status save_checkpoint(const TrainConfig& config, const ParameterTable& table, const TrainState& state,
                       const std::string& loss_lines);
/// Fills the state's spans; sizes must match. `folder`: a step folder.
Status load_checkpoint(const std::filesystem::path& folder, TrainState& state);

/// `path` itself if it is a step folder, else its newest step-N.
Result<std::filesystem::path> newest_checkpoint(const std::filesystem::path& path);
/// Refuses a folder that holds step-N folders, unless `resume` is one of them: two runs would mix their checkpoints and logs.
Status check_out(const std::filesystem::path& out, const std::optional<std::filesystem::path>& resume);
/// The configuration that a checkpoint was trained with; `out` is the folder that the checkpoint lies in.
Result<TrainConfig> checkpoint_config(const std::filesystem::path& folder);
/// The folder that this configuration's relative paths start from; empty where the checkpoint does not say.
Result<std::filesystem::path> checkpoint_working_folder(const std::filesystem::path& folder);

}  // namespace slip
