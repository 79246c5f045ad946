// SPDX-License-Identifier: Apache-2.0
// See plan_check.h.
#include "engine/plan_check.h"

#include <fmt/format.h>

#include <cmath>

#include "plan/feasibility.h"

namespace slip {

std::vector<std::string> why_infeasible(const Trajectory& plan, std::optional<Waypoint> v) {
  const KinematicLimits limits;
  const Kinematics k = kinematics_of(plan);
  std::vector<std::string> out;
  if (!k.finite) return {"places: expected numbers, got others"};
  if (k.max_acceleration_mps2 > limits.acceleration_mps2)
    out.push_back(
        fmt::format("acceleration: expected at most {} m/s^2, got {:.3g}", limits.acceleration_mps2, k.max_acceleration_mps2));
  if (k.max_curvature_1pm > limits.curvature_1pm)
    out.push_back(fmt::format("curvature: expected at most {} 1/m, got {:.3g}", limits.curvature_1pm, k.max_curvature_1pm));
  for (size_t i = 0; v && i < plan.points.size(); ++i) {
    // Half a metre is what the form's rounding and the fit may add.
    const double t = plan.time_s(i), reach = limits.acceleration_mps2 * t * t / 2 + 0.5;
    const double off = std::hypot(plan.points[i].x - v->x * t, plan.points[i].y - v->y * t);
    if (off <= reach) continue;
    out.push_back(fmt::format("reach: expected a place within {:.2g} m of where {:.3g} m/s lead in {:.3g} s, got one {:.3g} m away",
                              reach, std::hypot(v->x, v->y), t, off));
    break;
  }
  return out;
}

}  // namespace slip
