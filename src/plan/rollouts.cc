// SPDX-License-Identifier: Apache-2.0
// See rollouts.h.
#include "plan/rollouts.h"

#include <algorithm>
#include <cmath>

#include "plan/metrics.h"

namespace slip {

Result<RolloutErrors> rollout_errors(std::span<const std::vector<Waypoint>> rollouts, std::span<const Waypoint> truth, size_t n) {
  if (rollouts.empty() || n == 0) return bad_input("rollouts: expected at least one of at least one point, got none");
  RolloutErrors out;
  for (const auto& r : rollouts) {
    SLIP_TRY(const double ade, average_displacement(r, truth, n));
    SLIP_TRY(const double fde, final_displacement(r, truth, n));
    out.ade.push_back(ade);
    out.fde.push_back(fde);
    out.min_ade.push_back(out.min_ade.empty() ? ade : std::min(out.min_ade.back(), ade));
    out.mean_ade += ade;
  }
  const auto m = static_cast<double>(rollouts.size());
  out.mean_ade /= m;
  std::vector<Waypoint> average(n);
  for (size_t i = 0; i < n; ++i) {
    for (const auto& r : rollouts) average[i].x += r[i].x, average[i].y += r[i].y;
    average[i].x /= m, average[i].y /= m;
    double squares = 0;
    for (const auto& r : rollouts) squares += std::pow(distance_m(r[i], average[i]), 2);
    out.spread_rms_final = std::sqrt(squares / m);
    out.spread_rms += out.spread_rms_final / static_cast<double>(n);
  }
  SLIP_TRY(out.ade_of_average, average_displacement(average, truth, n));
  SLIP_TRY(out.fde_of_average, final_displacement(average, truth, n));
  return out;
}

}  // namespace slip
