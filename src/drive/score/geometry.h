// SPDX-License-Identifier: Apache-2.0
// Boxes and polygons on the ground. Boxes that touch overlap; a point on a polygon's border is outside. Decisions on numbers that are
// sums of powers of two are exact; sines and cosines are sim/math.h's, the same bits on any machine.
#pragma once
#include <array>
#include <span>
#include <vector>

#include "sim/scene.h"

namespace slip::drive {

using Polygon = std::vector<sim::Vec2>;  // simple, either way round, not closed by a repeated point
using Corners = std::array<sim::Vec2, 4>;

/// A vehicle's body: `rear_to_centre` metres from the rear axle (where its pose is) forward to the box's centre.
struct Body {
  double length = 4.8, width = 1.9, rear_to_centre = 1.4;
};

/// Front left, rear left, rear right, front right of a box around `centre`.
Corners corners_of(const sim::Pose& centre, double length, double width);
/// The point `along` metres in front of a pose, with its heading.
sim::Pose ahead_of(const sim::Pose& pose, double along);

/// Do two convex shapes share a point?
bool touch(std::span<const sim::Vec2> a, std::span<const sim::Vec2> b);
/// Does a convex shape share a point with a polygon that need not be convex?
bool touches_polygon(std::span<const sim::Vec2> shape, std::span<const sim::Vec2> polygon);
/// Strictly inside, by crossings: what a polygon covers twice is outside.
bool contains(std::span<const sim::Vec2> polygon, const sim::Vec2& p);
bool contained_in_any(std::span<const Polygon> polygons, const sim::Vec2& p);

/// Arc length of the point of a polyline that is nearest to p, and how far away it is.
struct Nearest {
  double arc = 0, distance = 0;
};
Nearest nearest_on(std::span<const sim::Vec2> line, const sim::Vec2& p);

}  // namespace slip::drive
