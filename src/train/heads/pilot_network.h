// SPDX-License-Identifier: Apache-2.0
// Training BlockPilot [AMAP-ML, arXiv 2606.31315]: models/draft/block_pilot.h with gradients.
//   h = relu(W0 x + b0), dropped out; h = relu(W h + b) + h per further layer; z = W_out h + b_out; L = mean CE(z, label)
//   class c of radius r: block own - r + c; label: the class of most tokens per round, the lowest of equal ones
#pragma once
#include "train/heads/network.h"

namespace slip {

struct PilotShape {
  int32_t vocab = 0, width = 2048, depth = 2, classes = 5;
  double dropout = 0.2;  // behind the first layer, in training
};
enum class PilotInput : uint8_t { kRaw, kSoftmax, kNormalised };

/// raw logits; their softmax; (x - mean) / sqrt(variance + 1e-5).
std::vector<float> pilot_input(std::span<const float> logits_V, PilotInput input);
/// The lowest class of the largest number.
int32_t pilot_label(std::span<const double> tokens_per_round);

class PilotNetwork final : public HeadNetwork {
 public:
  PilotNetwork(const PilotShape& shape, Precision precision);
  /// Mean CE of `labels.size()` lines of inputs; with `scale` > 0 also adds scale times its gradient. `keep`: lines x width, empty
  /// without dropout. `out`: lines x classes.
  double loss(std::span<const float> inputs, std::span<const int32_t> labels, std::span<const uint8_t> keep, double scale,
              std::vector<double>* out = nullptr);
  const PilotShape& shape() const { return shape_; }

 private:
  PilotShape shape_;
};

}  // namespace slip
