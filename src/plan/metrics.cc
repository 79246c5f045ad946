// SPDX-License-Identifier: Apache-2.0
// Displacement errors, nuScenes L2 in both conventions, meta-action overlap.
#include "plan/metrics.h"

#include <algorithm>
#include <cmath>
#include <set>

namespace slip {
namespace {

Status check_lengths(std::span<const Waypoint> prediction, std::span<const Waypoint> truth, size_t n) {
  if (n == 0 || prediction.size() < n || truth.size() < n)
    return bad_input("displacement: expected at least {} points on both sides, got {} and {}", std::max<size_t>(n, 1),
                     prediction.size(), truth.size());
  return {};
}

}  // namespace

Result<double> average_displacement(std::span<const Waypoint> prediction, std::span<const Waypoint> truth, size_t n) {
  SLIP_TRY_(check_lengths(prediction, truth, n));
  double sum = 0;
  for (size_t i = 0; i < n; ++i) sum += distance_m(prediction[i], truth[i]);
  return sum / static_cast<double>(n);
}

Result<double> final_displacement(std::span<const Waypoint> prediction, std::span<const Waypoint> truth, size_t n) {
  SLIP_TRY_(check_lengths(prediction, truth, n));
  return distance_m(prediction[n - 1], truth[n - 1]);
}

Result<Displacement> displacement(std::span<const std::vector<Waypoint>> predictions, std::span<const Waypoint> truth,
                                  double rate_hz) {
  if (predictions.empty()) return bad_input("displacement: expected at least one prediction, got none");
  if (!(rate_hz > 0 && rate_hz <= 1000)) return bad_input("displacement: expected a rate of up to 1000 Hz, got {}", rate_hz);
  const auto n3 = static_cast<size_t>(std::llround(3 * rate_hz)), n5 = static_cast<size_t>(std::llround(5 * rate_hz));
  Displacement d;
  for (const auto& p : predictions) {
    const bool first = &p == predictions.data();
    SLIP_TRY(const double ade, average_displacement(p, truth, n5));
    SLIP_TRY(const double fde, final_displacement(p, truth, n5));
    d.min_ade_5s = first ? ade : std::min(d.min_ade_5s, ade);
    d.min_fde_5s = first ? fde : std::min(d.min_fde_5s, fde);
    if (!first) continue;
    d.ade_5s = ade;
    d.fde_5s = fde;
    SLIP_TRY(d.ade_3s, average_displacement(p, truth, n3));
    SLIP_TRY(d.fde_3s, final_displacement(p, truth, n3));
  }
  return d;
}

NuscenesL2::Row NuscenesL2::add(const Six& prediction, const Six& truth, const std::array<bool, 6>& mask) {
  std::array<double, 6> e{};
  for (size_t i = 0; i < 6; ++i) e[i] = distance_m(prediction[i], truth[i]);
  Row row;
  for (size_t k = 0; k < 3; ++k) row.uniad[k] = mask[2 * k + 1] ? e[2 * k + 1] : 0;
  ++samples_;
  for (size_t k = 0; k < 3; ++k) uniad_[k] += row.uniad[k];
  if (std::find(mask.begin(), mask.end(), false) != mask.end()) return row;
  row.stp3 = {(e[0] + e[1]) / 2, (e[0] + e[1] + e[2] + e[3]) / 4, (e[0] + e[1] + e[2] + e[3] + e[4] + e[5]) / 6};
  ++whole_;
  for (size_t k = 0; k < 3; ++k) stp3_[k] += (*row.stp3)[k];
  return row;
}

NuscenesL2::Summary NuscenesL2::mean(const std::array<double, 3>& sums, int64_t n) {
  Summary s;
  s.samples = n;
  if (n == 0) return s;
  for (size_t k = 0; k < 3; ++k) s.at_1s_2s_3s[k] = sums[k] / static_cast<double>(n);
  s.average = (s.at_1s_2s_3s[0] + s.at_1s_2s_3s[1] + s.at_1s_2s_3s[2]) / 3;
  return s;
}

Result<double> meta_action_iou(std::span<const std::vector<std::string>> predicted,
                               std::span<const std::vector<std::string>> truth) {
  if (predicted.size() != truth.size() || truth.empty())
    return bad_input("meta-actions: expected the same number of intervals on both sides, got {} and {}", predicted.size(),
                     truth.size());
  double sum = 0;
  for (size_t i = 0; i < truth.size(); ++i) {
    const std::set<std::string_view> a(predicted[i].begin(), predicted[i].end()), b(truth[i].begin(), truth[i].end());
    const auto both = static_cast<size_t>(std::count_if(a.begin(), a.end(), [&](std::string_view s) { return b.contains(s); }));
    const size_t either = a.size() + b.size() - both;
    sum += either == 0 ? 1.0 : static_cast<double>(both) / static_cast<double>(either);
  }
  return sum / static_cast<double>(truth.size());
}

Result<std::vector<std::vector<std::string>>> action_sets(std::span<const std::vector<ActionRun>> kinds, size_t intervals) {
  std::vector<std::vector<std::string>> sets(intervals);
  for (const auto& runs : kinds) {
    size_t at = 0;
    for (const ActionRun& run : runs) {
      if (run.intervals < 0 || static_cast<size_t>(run.intervals) > intervals - at)
        return bad_input("meta-actions: expected runs that add up to {} intervals, got more", intervals);
      for (int64_t i = 0; i < run.intervals; ++i, ++at)
        if (!run.name.empty()) sets[at].push_back(run.name);
    }
    if (at != intervals) return bad_input("meta-actions: expected runs that add up to {} intervals, got {}", intervals, at);
  }
  return sets;
}

}  // namespace slip
