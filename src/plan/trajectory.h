// SPDX-License-Identifier: Apache-2.0
// What a plan is: points of the ego's future in the ego frame of "now", x forward, y left, metres, origin at the rear axle.
// World coordinates are converted where they enter and nowhere else.
#pragma once
#include <span>
#include <vector>

namespace slip {

struct Waypoint {
  double x = 0, y = 0;
  bool operator==(const Waypoint&) const = default;
};

/// Metres between two points.
double distance_m(Waypoint a, Waypoint b);

/// points[i] is at (i + 1) / rate_hz seconds: "now", (0, 0), is never stored.
struct Trajectory {
  double rate_hz = 4;
  std::vector<Waypoint> points;
  double time_s(size_t i) const { return static_cast<double>(i + 1) / rate_hz; }
};

struct Pose {
  double x = 0, y = 0, yaw_rad = 0;
};
/// Rotation and translation between the world and the frame of an ego that stands at `ego` in the world.
Waypoint to_ego(Waypoint world, const Pose& ego);
Waypoint to_world(Waypoint local, const Pose& ego);

/// The five 1 Hz waypoints of a 4 Hz future are its points 3, 7, 11, 15, 19: every `step`-th, starting at step - 1.
std::vector<Waypoint> every(std::span<const Waypoint> points, size_t step);

}  // namespace slip
