// SPDX-License-Identifier: Apache-2.0
// Can the car follow its plan? What a person should read who would send it to one.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "plan/trajectory.h"

namespace slip {

/// Why a car could not follow `plan`, in words; empty where it could. The limits of plan/feasibility.h, which evaluations count by; and with
/// the car's velocity now (m/s), places within |p(t) - v t| <= a t^2 / 2 of where that leads, a being the same limit of acceleration.
std::vector<std::string> why_infeasible(const Trajectory& plan, std::optional<Waypoint> velocity_mps);

}  // namespace slip
