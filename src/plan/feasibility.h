// SPDX-License-Identifier: Apache-2.0
// What a trajectory says about the driving: whether a car could follow it, and which behaviour it amounts to.
// Everything is by finite differences of the points, "now" at (0, 0) included.
#pragma once
#include <cstdint>
#include <string_view>

#include "plan/trajectory.h"

namespace slip {

/// Limits of the check: a car's tightest turn and the friction of a dry road.
struct KinematicLimits {
  double curvature_1pm = 0.2;  // 1 / m
  double acceleration_mps2 = 9.8;
};
struct Kinematics {
  double max_speed_mps = 0;
  double max_acceleration_mps2 = 0;  // length of the vector, braking and turning included
  double max_curvature_1pm = 0;      // only where the car moves: steps below 0.125 m have no direction
  double jerk_rms_mps3 = 0;
  bool finite = true;
  bool feasible(const KinematicLimits& l = {}) const {
    return finite && max_curvature_1pm <= l.curvature_1pm && max_acceleration_mps2 <= l.acceleration_mps2;
  }
};
Kinematics kinematics_of(const Trajectory& t);

enum class LongitudinalBehaviour : uint8_t { kKeepSpeed, kSpeedUp, kSlowDown, kComeToStop };
enum class LateralBehaviour : uint8_t { kGoStraight, kTurnLeft, kTurnRight, kChangeLeft, kChangeRight };
/// "keep speed", "speed up", "slow down", "come to stop"; "go straight", "turn left", ..., "change right".
std::string_view words(LongitudinalBehaviour b);
std::string_view words(LateralBehaviour b);

struct MetaBehaviour {
  LongitudinalBehaviour longitudinal{};
  LateralBehaviour lateral{};
  bool operator==(const MetaBehaviour&) const = default;
};
/// Speed over the last second: below 1 m/s stop, above 1.15 v0 faster, below 0.85 v0 slower. Heading at the end: more than 15
/// degrees is a turn; else more than 2 m to the side is a lane change (no map is consulted).
MetaBehaviour meta_behaviour(const Trajectory& t, double v0_mps);

}  // namespace slip
