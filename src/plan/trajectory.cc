// SPDX-License-Identifier: Apache-2.0
// Frames and distances.
#include "plan/trajectory.h"

#include <cmath>

#include "base/check.h"

namespace slip {

double distance_m(Waypoint a, Waypoint b) { return std::hypot(a.x - b.x, a.y - b.y); }

Waypoint to_ego(Waypoint world, const Pose& ego) {
  const double c = std::cos(ego.yaw_rad), s = std::sin(ego.yaw_rad), dx = world.x - ego.x, dy = world.y - ego.y;
  return {c * dx + s * dy, c * dy - s * dx};
}

Waypoint to_world(Waypoint local, const Pose& ego) {
  const double c = std::cos(ego.yaw_rad), s = std::sin(ego.yaw_rad);
  return {ego.x + c * local.x - s * local.y, ego.y + s * local.x + c * local.y};
}

std::vector<Waypoint> every(std::span<const Waypoint> points, size_t step) {
  SLIP_CHECK(step > 0, "a step of zero never ends");
  std::vector<Waypoint> out;
  for (size_t i = step - 1; i < points.size(); i += step) out.push_back(points[i]);
  return out;
}

}  // namespace slip
