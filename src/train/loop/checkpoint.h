// SPDX-License-Identifier: Apache-2.0
// OUT/step-N/: a Hugging Face folder (config.json, model.safetensors, the tokenizer's files) that the engine loads, or for a draft
// adapter PEFT's folder linear_spec_lora/, which the engine reads inside the model's; plus what the
// trainer needs to go on bit for bit: trainer.safetensors (raw weights, moments, average) and trainer.json (step, time,
// config, marks of its inputs, and the working folder that the config's relative paths start from).
// Written beside as step-N.partial and renamed. Where there is a step-N it is renamed to step-N.replaced first and removed afterwards: whenever a kill
// comes one of them is whole, and the functions below find it.
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
  /// Early stopping: the best values so far, empty before the first validation; what they scored; how many validations have not beaten them.
  std::vector<float> best;
  double best_score = 0;
  int64_t worse = 0;
  bool score_due = false;  // interrupted before this step's validation had its score
  json::object inputs;     // marks of what the configuration names (inputs.h)
};

/// OUT/step-N.
std::filesystem::path step_folder(const std::filesystem::path& out, int64_t step);

/// kCheckFailed for a number that is none among what a checkpoint would hold, with the tensor that it is of.
Status check_finite(const ParameterTable& table, const TrainState& state);

class Learner;
/// Writes OUT/step-N with loss.jsonl so far, then removes all but the newest `keep` such folders. Published are the best values where there
/// are some, else the average, else the values.
Status save_checkpoint(const TrainConfig& config, const Learner& learner, const TrainState& state, const std::string& loss_lines);
/// A whole model's config.json, model.safetensors and the files that stand beside them. What "init" stores of plain ViTs without the trainer
/// reading it (OpenVLA's last blocks, their norm, SigLIP's pooling head) goes along as it is: others load the folder by all its names.
Status save_model(const TrainConfig& config, const ParameterTable& table, std::span<const float> values,
                  const std::filesystem::path& folder);
/// Is `folder` this run's own OUT/step-N, with this configuration in it? Then there is nothing to write before another step is trained.
bool is_stored(const TrainConfig& config, const std::filesystem::path& folder, int64_t step);
/// Finishes what killed runs were replacing, and removes what they left half written; nobody else may be writing there.
void remove_partial_checkpoints(const std::filesystem::path& out);
/// Fills the state's spans; sizes must match, and all numbers be finite. `folder`: a step folder.
Status load_checkpoint(const std::filesystem::path& folder, TrainState& state);

/// `path` itself if it is a step folder, else its newest step-N.
Result<std::filesystem::path> newest_checkpoint(const std::filesystem::path& path);
/// Refuses a folder that holds step-N folders, unless `resume` is the newest of them: two runs would mix their checkpoints and logs.
Status check_out(const std::filesystem::path& out, const std::optional<std::filesystem::path>& resume);
/// The configuration that a checkpoint was trained with; `out` is the folder that the checkpoint lies in.
Result<TrainConfig> checkpoint_config(const std::filesystem::path& folder);
/// The folder that this configuration's relative paths start from; empty where the checkpoint does not say.
Result<std::filesystem::path> checkpoint_working_folder(const std::filesystem::path& folder);

}  // namespace slip
