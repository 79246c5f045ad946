// SPDX-License-Identifier: Apache-2.0
// The draft adapter as parameters: low-rank additions to every layer's o_proj, out + alpha / rank B (A x), and PEFT's folder of
// it, which the engine reads (models/adapter.h). B starts at zero: the first draft is the model's own.
#pragma once
#include <filesystem>

#include "train/model/model_shape.h"
#include "train/model/weights.h"
#include "train/objective/lk.h"

namespace slip {

/// Training linear self-speculation [Nemotron-Labs-Diffusion, section 3.3; docs/notes/speculation.md#draft-adapter].
struct LoraRule {
  int32_t rank = 8;
  double alpha = 32;
  LkRule lk;
  bool by_blocks = true;  // mean over a block's positions, then over blocks; false: over all positions
  double sampled = 0;     // share of the blocks whose drafts are drawn from the drafter (T = 1), not taken greedily; the paper: 0.9
  int32_t width = 32;     // rows of a block of free text, the newest included; forms have their own blocks
  double scale() const { return alpha / rank; }
};

struct LoraTable {
  ParameterTable table;     // names as PEFT stores them
  std::vector<Group> a, b;  // by layer: rank x HK, D x rank
  static LoraTable of(const ModelShape& shape, int32_t rank);
};

/// The folder's name inside a checkpoint: what the engine looks for inside a model's folder.
inline constexpr std::string_view kLoraFolder = "linear_spec_lora";

/// adapter_config.json and adapter_model.safetensors. `base`: name of the model that it stands on.
Status save_lora(const std::filesystem::path& folder, const ParameterTable& table, std::span<const float> values,
                 const LoraRule& rule, const std::string& base, StoreAs type);

}  // namespace slip
