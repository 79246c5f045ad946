// SPDX-License-Identifier: Apache-2.0
// Miss rates: four definitions of "the plan does not end where the car went", each by its benchmark.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <vector>

#include "plan/trajectory.h"

namespace slip {

/// Waymo motion: outside 1.0 / 1.8 / 3.0 m across and twice that along the truth's heading, times f(v0), at 3 / 5 / 8 s, in all rollouts.
/// Argoverse: the end point of every rollout is over 2 m away. nuScenes: every rollout is over 2 m away somewhere. nuPlan: the first
/// rollout is over 6 / 8 / 16 m away at a whole second up to 3 / 5 / 8 s. Horizons behind the plan's end are left out.
struct Misses {
  bool argoverse = false, nuscenes = false;
  std::array<std::optional<bool>, 3> waymo, nuplan;  // at 3, 5, 8 s
};

/// `truth` and its headings (radians) at `rate_hz`, as many points as every rollout; at least one rollout and one point.
Misses misses_of(std::span<const std::vector<Waypoint>> rollouts, std::span<const Waypoint> truth, std::span<const double> headings,
                 double v0_mps, double rate_hz);

/// Headings of a line of points from the steps between them; a step below 1 cm keeps the heading before it, the first is 0.
std::vector<double> headings_of(std::span<const Waypoint> points);

}  // namespace slip
