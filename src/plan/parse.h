// SPDX-License-Identifier: Apache-2.0
// Waypoints from a model's text, as leniently as the papers' evaluation does it [Fast-dDrive's evaluate_waymo_metrics]: whatever
// precedes the first "trajectory" (any case) is dropped, `<|mdm_start|>` marks and backslashes before " [ ] , + are removed; then
// all bracketed pairs of numbers count, or, if there is none, all bare pairs. Differs: only ASCII digits and spaces are known, and
// a pair with a number too large for a double is left out.
#pragma once
#include <string_view>
#include <vector>

#include "plan/trajectory.h"

namespace slip {

std::vector<Waypoint> parse_waypoints(std::string_view text);
/// Exactly `count`: the first ones; fewer repeat the last; none at all stays none (the published fit then is all zeros).
std::vector<Waypoint> first_waypoints(std::vector<Waypoint> parsed, size_t count = 5);

}  // namespace slip
