// SPDX-License-Identifier: Apache-2.0
// Training a flow-matching trajectory head [FastDriveCoT, section 3; Alpamayo's expert is the public layout]: rows of (dx, dy, dyaw) that see
// the frozen target's keys and each other.
//
//   t = .999 - .999 beta, beta ~ Beta(1.5, 1)     x_t = t x + (1 - t) e     L = mean over samples of the mean of (v(x_t, t) - (x - e))^2
//   u = [F(x_0), .., F(x_A-1), F(t)] per row, F(y) = sqrt(2) [sin(2 pi f y).., cos(2 pi f y)..]
//   h = LN(trunk.6(RMS5(silu(trunk.3(RMS2(silu(trunk.0 u)))))))     v = action_out_proj(expert(h))
//   sampling: x = noise; x += v(x, k / steps) / steps
#pragma once
#include "train/heads/network.h"

namespace slip {

struct FlowShape {
  Qwen3Shape layers;
  int32_t rows = 64, action = 3, encoder = 0, features = 6;  // features: of one number, half sines, half cosines
  double max_frequency = 8;
  int32_t steps = 10;
};

/// Frequencies 1 to max_frequency, even in the logarithm.
std::vector<double> flow_frequencies(const FlowShape& shape);

/// What the rows read: keys and values of the target's layers, layers x P x kv heads x head_dim, keys rotated; the rows stand at
/// `position` + 0, 1, ...
struct FlowPrefix {
  std::vector<float> keys, values;
  int32_t rows = 0, position = 0;
};
struct FlowSample {
  FlowPrefix prefix;
  std::vector<float> action, noise;  // rows x action
  double t = 0;
};

class FlowNetwork final : public HeadNetwork {
 public:
  FlowNetwork(const FlowShape& shape, Precision precision);
  /// Mean square over rows and numbers of one sample; with `scale` > 0 also adds scale times its gradient.
  double loss(const FlowSample& s, double scale);
  /// v(x, t), rows x action.
  std::vector<double> velocity(const FlowPrefix& prefix, std::span<const double> x, double t);
  /// The Euler steps' ends, steps x rows x action.
  std::vector<double> sample(const FlowPrefix& prefix, std::span<const float> start);
  const FlowShape& shape() const { return shape_; }

 private:
  FlowShape shape_;
};

}  // namespace slip
