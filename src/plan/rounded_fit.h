// SPDX-License-Identifier: Apache-2.0
// The places that a rounded plan may have meant.
//
// Waypoints w_k said in steps of 2 r stand for any places q_k with |q_k - w_k| <= r along each axis. Of these the ones are chosen, for x
// and y by themselves, that
//
//     minimise  J(q, v0) + lambda * sum_k (q_k - w_k)^2     subject to  |q_k - w_k| <= r,
//
// J being the integral of the squared jerk over the curve through them (plan/spline.h), in m^2 / s^5. The second term decides between
// curves without jerk and holds a plan to what was said where that costs little: lambda = 20 / s^5 (docs/lab/0017-closed-loop.md).
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "plan/spline.h"

namespace slip {

/// J as a matrix over the inputs: inputs^T * J * inputs.
Matrix jerk_form(const FitSpec& spec, size_t inputs, const Stops& stops);

/// The first of the last waypoints that are one place: the last one itself where the car does not stand there. At least one waypoint.
size_t last_place(std::span<const Waypoint> waypoints);

/// `jerk_II` is jerk_form's, over the waypoints and v0 where there is one. Waypoints from last_place() on have one place together.
/// The minimum is unique. It is found by descending along one waypoint after the other until none moves by a nanometre: for waypoints at
/// 1 Hz within a few nanometres of it, at 2 Hz within a tenth of a micrometre.
std::vector<Waypoint> unrounded(std::span<const double> jerk_II, double rounding_m, std::span<const Waypoint> waypoints,
                                std::optional<Waypoint> v0_mps);

}  // namespace slip
