// SPDX-License-Identifier: Apache-2.0
// Edges and centres computed as numpy's linspace computes them, so that values on an edge fall on the same side.
#include "plan/action_bins.h"

#include <algorithm>
#include <cmath>

namespace slip {
namespace {

Status check(std::span<const double> action, const ActionStatistics& s) {
  if (s.q01.size() != action.size() || s.q99.size() != action.size() || s.mask.size() != action.size())
    return bad_input("action statistics: expected {} numbers each, got {}, {} and {}", action.size(), s.q01.size(), s.q99.size(),
                     s.mask.size());
  return {};
}

}  // namespace

double ActionBins::edge(int k) const {
  const double step = 2.0 / (bins_ - 1);
  return k == bins_ - 1 ? 1.0 : k * step - 1.0;
}

TokenId ActionBins::encode(double action) const {
  const double x = std::isnan(action) ? -1.0 : std::clamp(action, -1.0, 1.0);
  int digit = std::clamp(static_cast<int>((x + 1) * (bins_ - 1) / 2) + 1, 1, bins_);  // edges at or below x, up to rounding
  while (digit < bins_ && edge(digit) <= x) ++digit;
  while (digit > 1 && edge(digit - 1) > x) --digit;
  return {bound_ - digit};
}

ActionBins::Decoded ActionBins::decode(TokenId id) const {
  const auto k = static_cast<int>(std::clamp<int64_t>(int64_t{bound_} - id.value - 1, 0, bins_ - 2));
  return {(edge(k) + edge(k + 1)) / 2, id.value >= bound_ - bins_ && id.value < bound_};
}

Result<std::vector<double>> normalise(std::span<const double> action, const ActionStatistics& s) {
  SLIP_TRY_(check(action, s));
  std::vector<double> out(action.begin(), action.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (s.mask[i]) out[i] = std::clamp(2 * (out[i] - s.q01[i]) / (s.q99[i] - s.q01[i] + 1e-8) - 1, -1.0, 1.0);
  return out;
}

Result<std::vector<double>> unnormalise(std::span<const double> action, const ActionStatistics& s) {
  SLIP_TRY_(check(action, s));
  std::vector<double> out(action.begin(), action.end());
  for (size_t i = 0; i < out.size(); ++i)
    if (s.mask[i]) out[i] = 0.5 * (out[i] + 1) * (s.q99[i] - s.q01[i]) + s.q01[i];
  return out;
}

}  // namespace slip
