// SPDX-License-Identifier: Apache-2.0
// Robot actions as tokens, OpenVLA's way: n edges from -1 to 1 (256 in published models), n - 1 centres between them, and the last n ids
// below a bound of the vocabulary in reverse, so that a larger action has a smaller id. Ids bound - n and bound - n + 1 mean the same
// value.
// Differs from the published decoder: an id that is no action is still clipped to the nearest bin, but the caller is told.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"

namespace slip {

class ActionBins {
 public:
  static constexpr int kBins = 256;
  /// `bound`: one past the largest action id. 32000 for OpenVLA, 151921 for MiniVLA. `bins`: at least 2.
  explicit ActionBins(int bound, int bins = kBins) : bound_(bound), bins_(bins) {}
  /// Clips to [-1, 1]; NaN counts as -1.
  TokenId encode(double action) const;
  struct Decoded {
    double action = 0;
    bool is_action = false;
  };
  Decoded decode(TokenId id) const;
  TokenId first() const { return {bound_ - bins_}; }
  TokenId last() const { return {bound_ - 1}; }

 private:
  double edge(int k) const;
  int bound_, bins_;
};

/// Per dimension of the action, over a training set (the 1st and 99th percentiles); where the mask is false nothing is scaled.
struct ActionStatistics {
  std::vector<double> q01, q99;
  std::vector<bool> mask;
};
/// clip(2 (a - q01) / (q99 - q01 + 1e-8) - 1, -1, 1), and back: 0.5 (x + 1) (q99 - q01) + q01. kBadInput for unequal lengths.
Result<std::vector<double>> normalise(std::span<const double> action, const ActionStatistics& s);
Result<std::vector<double>> unnormalise(std::span<const double> action, const ActionStatistics& s);

}  // namespace slip
