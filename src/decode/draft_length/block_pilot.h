// SPDX-License-Identifier: Apache-2.0
// BlockPilot [AMAP-ML, arXiv 2606.31315] as published: once per request a classifier reads the raw logits behind the prompt's last row
// and picks the block for the whole answer. Its public weights are Linear(V, 2048), ReLU; Linear(2048, 2048), ReLU, plus its input;
// Linear(2048, 5); class c means a block of B - 2 + c rows, B the drafter's own. Any V, width, depth and number of classes is read.
//
// It is here to compare with. The paper's gain of 4 % is what an oracle over the same five sizes gets, and what picking the best of
// five equal ones "gains" from noise is 2.5 to 3 %; the structure that is left is worth at most 1 %
// (docs/notes/speculation.md#blockpilot), and the logits cost a pass of their own where the prefill would have travelled with the
// first round. Prefer width measured.
#pragma once
#include <filesystem>
#include <span>
#include <vector>

#include "base/result.h"
#include "core/safetensors.h"

namespace slip {

class BlockPilot {
 public:
  /// A .safetensors file or a folder with model.safetensors, tensors layers.{i}.weight, .bias and fc_out.weight, .bias (the public
  /// model.pt, converted). The first matrix is read where it lies (622 MB in bf16 for 151936 ids). Errors name tensor and shape.
  static Result<BlockPilot> open(const std::filesystem::path& path);
  int32_t vocab() const { return vocab_; }
  int32_t classes() const { return classes_; }
  /// The class with the largest output, the first of equal ones. `logits_V` as long as vocab(), or longer (a padded head).
  int32_t pick(std::span<const float> logits_V) const;
  /// The block for a drafter whose own is `block`.
  int32_t block(std::span<const float> logits_V, int32_t own) const { return own - classes_ / 2 + pick(logits_V); }

 private:
  struct Linear {
    const TensorView* weight = nullptr;
    std::vector<float> bias;
  };
  std::vector<float> apply(const Linear& l, std::span<const float> x) const;
  Checkpoint files_;
  std::vector<Linear> layers_;
  Linear out_;
  int32_t vocab_ = 0, classes_ = 0;
};

}  // namespace slip
