// SPDX-License-Identifier: Apache-2.0
// A smooth curve on the ground, sampled every half metre: straight, arc and clothoid pieces. Points beside it are named by
// (s, d): arc length along the curve, distance to its left. Beyond its ends the curve goes on straight.
#pragma once
#include <span>
#include <vector>

#include "sim/scene.h"

namespace slip::sim {

/// A pose in the coordinates of another; yaws are not wrapped, so that a curve's stay continuous.
Pose seen_from(const Pose& origin, const Pose& p);

/// Curvature goes linearly from k0 to k1 (1/m, left positive) over the length.
struct Piece {
  double length = 0, k0 = 0, k1 = 0;
};
struct Frenet {
  double s = 0, d = 0;
};

class Path {
 public:
  Path() = default;
  /// s = 0 is `origin`; `back_m` metres before it have the curvature `k_back`.
  Path(Pose origin, std::span<const Piece> pieces, double back_m, double k_back);

  /// The same curve in the coordinates of `origin`, with s = 0 where it had `s0`.
  Path seen_from(const Pose& origin, double s0) const;

  /// The pose at (s, d), looking along the curve.
  Pose at(double s, double d = 0) const;
  double curvature(double s) const;
  /// The nearest point of the curve: coarse search every 4 m, then refined.
  Frenet project(Vec2 p) const;
  /// The same near a known s (within 6 m): for whoever moves along the curve.
  Frenet project_near(Vec2 p, double s) const;
  double begin() const { return begin_; }
  double end() const { return begin_ + kStep * static_cast<double>(points_.size() - 1); }
  bool empty() const { return points_.empty(); }

 private:
  struct Point {
    double x, y, yaw, k, c, s;
  };
  Frenet refine(Vec2 p, size_t low, size_t high) const;
  static constexpr double kStep = 0.5;
  std::vector<Point> points_;
  double begin_ = 0;
};

}  // namespace slip::sim
