// SPDX-License-Identifier: Apache-2.0
// Plans that look at nothing but the ego's own motion. Every table of metrics shows them: on rated urban frames constant
// velocity scores 7.1 of 10 where the logged human scores 8.2, so a number without them says little.
#pragma once
#include "plan/trajectory.h"

namespace slip {

struct Horizon {
  size_t points = 20;
  double rate_hz = 4;
};
/// Stays where it is.
Trajectory stay(Horizon h = {});
/// Keeps the measured velocity (m/s, ego frame; its direction is the heading used).
Trajectory constant_velocity(Waypoint v_mps, Horizon h = {});
/// Keeps speed and yaw rate: an arc that starts in the direction of `v_mps`. Exact also for a yaw rate of zero.
Trajectory constant_turn(Waypoint v_mps, double yaw_rate_rps, Horizon h = {});

}  // namespace slip
