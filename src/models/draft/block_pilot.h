// SPDX-License-Identifier: Apache-2.0
// BlockPilot's classifier as published [AMAP-ML, arXiv 2606.31315; lm/block_pilot.h]. Its public weights are Linear(V, 2048), ReLU;
// Linear(2048, 2048), ReLU, plus its input; Linear(2048, 5); class c means a block of B - 2 + c rows, B the drafter's own. Any V, width,
// depth and number of classes is read.
#pragma once
#include <filesystem>
#include <memory>

#include "base/json.h"
#include "base/result.h"
#include "lm/block_pilot.h"
#include "models/model.h"

namespace slip {

/// A .safetensors file or a folder with model.safetensors, tensors layers.{i}.weight, .bias and fc_out.weight, .bias (the public model.pt,
/// converted). The first matrix is read where it lies (622 MB in bf16 for 151936 ids). Errors name tensor and shape.
Result<std::unique_ptr<BlockPilot>> load_block_pilot(const std::filesystem::path& path);

/// What the trainer writes of the target into the folder's config.json: target_vocab_size, target_hidden_size, target_num_hidden_layers and,
/// of a target with a tokenizer, target_tokenizer, a mark of its tokens.
json::object block_pilot_marks(const Model& target);
/// kBadInput where the classifier is another target's: a mark in its folder's config.json differs, or it reads fewer logits than the target has
/// tokens. Of a file without marks the latter is all that can be told: it is taken, and a line of the log says so unless it lies in the target's folder.
Status check_block_pilot(const std::filesystem::path& path, const BlockPilot& pilot, const Model& target);

}  // namespace slip
