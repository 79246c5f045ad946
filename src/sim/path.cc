// SPDX-License-Identifier: Apache-2.0
// Sampled curves: midpoint integration of the heading, projection by coarse search and one linear refinement.
#include "sim/path.h"

#include <algorithm>

#include "sim/math.h"

namespace slip::sim {

Path::Path(Pose origin, std::span<const Piece> pieces, double back_m, double k_back) {
  const auto n_back = static_cast<size_t>(det_round(back_m / kStep));
  double length = 0;
  for (const Piece& p : pieces) length += p.length;
  const auto n = static_cast<size_t>(det_round(length / kStep));
  points_.resize(n_back + n + 1);
  begin_ = -kStep * static_cast<double>(n_back);
  const auto put = [&](size_t i, double x, double y, double yaw, double k) {
    points_[i] = {x, y, yaw, k, det_cos(yaw), det_sin(yaw)};
  };
  const double k_first = pieces.empty() ? 0.0 : pieces.front().k0;
  put(n_back, origin.x, origin.y, origin.yaw, k_first);
  for (size_t i = n_back; i-- > 0;) {
    const Point& q = points_[i + 1];
    const double mid = q.yaw - 0.5 * kStep * k_back;
    put(i, q.x - kStep * det_cos(mid), q.y - kStep * det_sin(mid), q.yaw - kStep * k_back, k_back);
  }
  size_t piece = 0;
  double before = 0;
  for (size_t i = n_back + 1; i < points_.size(); ++i) {
    const double s = kStep * (static_cast<double>(i - n_back) - 0.5);
    while (piece + 1 < pieces.size() && s > before + pieces[piece].length) before += pieces[piece++].length;
    const Piece& p = pieces[piece];
    const double k = p.k0 + (p.k1 - p.k0) * std::clamp((s - before) / p.length, 0.0, 1.0);
    const Point& q = points_[i - 1];
    const double mid = q.yaw + 0.5 * kStep * k;
    put(i, q.x + kStep * det_cos(mid), q.y + kStep * det_sin(mid), q.yaw + kStep * k, k);
  }
}

Pose seen_from(const Pose& origin, const Pose& p) {
  const double c = det_cos(origin.yaw), n = det_sin(origin.yaw);
  const double dx = p.x - origin.x, dy = p.y - origin.y;
  return {dx * c + dy * n, -dx * n + dy * c, p.yaw - origin.yaw};
}

Path Path::seen_from(const Pose& origin, double s0) const {
  Path out = *this;
  out.begin_ -= s0;
  for (Point& q : out.points_) {
    const Pose p = sim::seen_from(origin, {q.x, q.y, q.yaw});
    q.x = p.x, q.y = p.y, q.yaw = p.yaw, q.c = det_cos(p.yaw), q.s = det_sin(p.yaw);
  }
  return out;
}

Pose Path::at(double s, double d) const {
  const double u = (s - begin_) / kStep;
  const auto last = static_cast<int64_t>(points_.size()) - 1;
  const int64_t i = std::clamp<int64_t>(det_floor(u), 0, last - 1);
  const double f = u - static_cast<double>(i);
  const Point& a = points_[static_cast<size_t>(i)];
  const Point& b = points_[static_cast<size_t>(i + 1)];
  const double g = std::clamp(f, 0.0, 1.0);
  double c = a.c + (b.c - a.c) * g;
  double n = a.s + (b.s - a.s) * g;
  double x = a.x + (b.x - a.x) * g;
  double y = a.y + (b.y - a.y) * g;
  const double beyond = (f - g) * kStep;
  x += beyond * c - d * n;
  y += beyond * n + d * c;
  return {x, y, a.yaw + (b.yaw - a.yaw) * g};
}

double Path::curvature(double s) const {
  const int64_t i = det_floor((s - begin_) / kStep);
  if (i < 0 || i >= static_cast<int64_t>(points_.size())) return 0.0;
  return points_[static_cast<size_t>(i)].k;
}

Frenet Path::refine(Vec2 p, size_t low, size_t high) const {
  size_t best = low;
  double best_d2 = 1e300;
  for (size_t i = low; i <= high; ++i) {
    const double dx = p.x - points_[i].x, dy = p.y - points_[i].y;
    const double d2 = dx * dx + dy * dy;
    if (d2 < best_d2) best_d2 = d2, best = i;
  }
  const Point& q = points_[best];
  const double dx = p.x - q.x, dy = p.y - q.y;
  const double along = dx * q.c + dy * q.s;
  const bool inside = best > 0 && best + 1 < points_.size();
  const double across = -dx * q.s + dy * q.c;
  return {begin_ + kStep * static_cast<double>(best) + (inside ? std::clamp(along, -kStep, kStep) : along), across};
}

Frenet Path::project(Vec2 p) const {
  size_t best = 0;
  double best_d2 = 1e300;
  for (size_t i = 0; i < points_.size(); i += 8) {
    const double dx = p.x - points_[i].x, dy = p.y - points_[i].y;
    const double d2 = dx * dx + dy * dy;
    if (d2 < best_d2) best_d2 = d2, best = i;
  }
  return refine(p, best < 8 ? 0 : best - 8, std::min(best + 8, points_.size() - 1));
}

Frenet Path::project_near(Vec2 p, double s) const {
  const auto last = static_cast<int64_t>(points_.size()) - 1;
  const int64_t i = std::clamp<int64_t>(det_floor((s - begin_) / kStep), 0, last);
  return refine(p, static_cast<size_t>(std::max<int64_t>(i - 12, 0)), static_cast<size_t>(std::min(i + 12, last)));
}

}  // namespace slip::sim
