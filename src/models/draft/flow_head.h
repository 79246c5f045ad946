// SPDX-License-Identifier: Apache-2.0
// A flow-matching trajectory head [FastDriveCoT, section 3; the layout is the public Alpamayo expert's]: rows of (dx, dy, dyaw) that read the
// keys of the target's prompt and reasoning, layer by layer, and each other. Loaded from the folder that `slipstream train` writes.
//
//   u = [F(x_0), .., F(x_A-1), F(t)] per row, F(y) = sqrt(2) [sin(2 pi f y).., cos(2 pi f y)..], f from 1 to max_frequency
//   h = LN(trunk.6(RMS5(silu(trunk.3(RMS2(silu(trunk.0 u))))))), norms with eps 1e-5
//   v(x, t) = action_out_proj(norm(layers(h))): Qwen3's layers without biases; x += v(x, k / steps) / steps for k = 0 .. steps - 1
//   a row's action = x * action_deviation + action_mean; the path is the sum of the actions
//
// The layers are a DecoderLm whose inputs are feature rows and whose head is action_out_proj, so contract W holds here too: a row's numbers
// do not depend on threads or on where the keys lie.
#pragma once
#include <filesystem>
#include <memory>
#include <vector>

#include "base/cancel.h"
#include "lm/visibility.h"
#include "models/model.h"

namespace slip {

struct FlowHeadInfo {
  std::string name;
  int32_t rows = 64, action = 3, steps = 10;
  double row_s = 0.1;
  bool reads_answer = true;  // false: trained on the prompt's keys alone
  bool any_section = false;  // trained to read the answer up to any section's end
  std::string until;         // the section at which it stops to read; empty: none
  /// Whose keys it was trained on: a chain's, or those that a further field of a graph would see (lm/graph_visibility.h).
  Visibility visibility = Visibility::kChain;
};

class FlowHead {
 public:
  const FlowHeadInfo& info() const { return info_; }
  /// Copies what the target's cache holds in these slots, in this order; the head's rows will stand at positions `position`, `position` + 1, ...
  /// A cache of int8 is read as the numbers that its bytes stand for. kResource for slots that the target has not, or more than it has.
  Status read(std::span<const SlotSpan> slots, int32_t position);
  Status read(int32_t rows, int32_t position) {
    const SlotSpan all{0, rows};
    return read(std::span(&all, 1), position);
  }
  /// v(x, t) of normalised actions, rows x action.
  Status velocity(std::span<const float> x, double t, std::vector<float>& v);
  /// From noise (rows x action, standard normal) to actions in metres and radians. kCancelled between steps as the token says.
  Status sample(std::span<const float> noise, std::vector<float>& action, const CancelToken& cancel = {});
  /// The noise of a seed: Box and Muller over the stream (seed, 0), whatever the temperature.
  std::vector<float> noise_of(uint64_t seed) const;
  /// The passes of its own that a trajectory takes.
  int64_t passes() const { return info_.steps; }

 private:
  friend Result<std::unique_ptr<FlowHead>> load_flow_head(const std::filesystem::path&, Model&);
  struct Linear {
    std::vector<float> columns, bias;  // columns: in x out
  };
  FlowHead() = default;
  std::vector<float> encoded(std::span<const float> x, double t) const;
  FlowHeadInfo info_;
  Model* target_ = nullptr;
  std::unique_ptr<DecoderLm> lm_;
  Linear trunk0_, trunk3_, trunk6_;
  std::vector<float> norm2_, norm5_, norm_, norm_bias_, out_bias_;
  std::vector<double> frequencies_, mean_, deviation_;
  int32_t prefix_ = 0, position_ = 0;
  PassOutput out_;
};

/// The target must outlive the head. kBadInput where folder and target do not belong together, naming both.
Result<std::unique_ptr<FlowHead>> load_flow_head(const std::filesystem::path& folder, Model& target);

}  // namespace slip
