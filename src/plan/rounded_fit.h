// SPDX-License-Identifier: Apache-2.0
// The places that a rounded plan may have meant.
//
// Waypoints w_k said in steps of 2 r stand for any places q_k with |q_k - w_k| <= r along each axis. Of these the ones are chosen, for x
// and y by themselves, that
//
//     minimise  J(q, v0) + lambda * sum_k (q_k - w_k)^2     subject to  |q_k - w_k| <= r,
//
// J being the integral of the squared jerk over the curve through them (plan/spline.h), in m^2 / s^5. The second term decides between
// curves without jerk and holds a plan to what was said where that costs little: lambda = 20 / s^5.
#pragma once
#include <span>
#include <vector>

#include "plan/spline.h"

namespace slip {

/// `waypoints` finite, as many as spec.knots; r is spec.rounding_m. Knots that stand (`stops`) have one place together. The minimum is
/// unique, found to 1 nm by descending along one waypoint after the other.
std::vector<Waypoint> unrounded(const FitSpec& spec, const Stops& stops, std::span<const Waypoint> waypoints, Waypoint v0_mps);

}  // namespace slip
