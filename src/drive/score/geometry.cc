// SPDX-License-Identifier: Apache-2.0
// Separating axes for convex shapes, crossings for the rest.
#include "drive/score/geometry.h"

#include <algorithm>

#include "sim/math.h"

namespace slip::drive {

using sim::Pose;
using sim::Vec2;

namespace {

double cross(const Vec2& o, const Vec2& a, const Vec2& b) { return (a.x - o.x) * (b.y - o.y) - (a.y - o.y) * (b.x - o.x); }

bool on_segment(const Vec2& a, const Vec2& b, const Vec2& p) {
  return cross(a, b, p) == 0 && p.x >= std::min(a.x, b.x) && p.x <= std::max(a.x, b.x) && p.y >= std::min(a.y, b.y) &&
         p.y <= std::max(a.y, b.y);
}

int side(double v) { return v > 0 ? 1 : v < 0 ? -1 : 0; }

bool segments_touch(const Vec2& a, const Vec2& b, const Vec2& c, const Vec2& d) {
  const int abc = side(cross(a, b, c)), abd = side(cross(a, b, d)), cda = side(cross(c, d, a)), cdb = side(cross(c, d, b));
  if (abc * abd < 0 && cda * cdb < 0) return true;
  return on_segment(a, b, c) || on_segment(a, b, d) || on_segment(c, d, a) || on_segment(c, d, b);
}

/// Is there an edge of `a` beyond which all of `b` lies?
bool separates(std::span<const Vec2> a, std::span<const Vec2> b) {
  for (size_t i = 0; i < a.size(); ++i) {
    const Vec2 &p = a[i], &q = a[(i + 1) % a.size()];
    const double nx = q.y - p.y, ny = p.x - q.x;
    const auto along = [&](const Vec2& v) { return (v.x - p.x) * nx + (v.y - p.y) * ny; };
    double a_low = 1e300, a_high = -1e300, b_low = 1e300, b_high = -1e300;
    for (const Vec2& v : a) a_low = std::min(a_low, along(v)), a_high = std::max(a_high, along(v));
    for (const Vec2& v : b) b_low = std::min(b_low, along(v)), b_high = std::max(b_high, along(v));
    if (a_high < b_low || b_high < a_low) return true;
  }
  return false;
}

}  // namespace

Corners corners_of(const Pose& centre, double length, double width) {
  const double c = sim::det_cos(centre.yaw), s = sim::det_sin(centre.yaw), l = length / 2, w = width / 2;
  const auto at = [&](double x, double y) { return Vec2{centre.x + x * c - y * s, centre.y + x * s + y * c}; };
  return {at(l, w), at(-l, w), at(-l, -w), at(l, -w)};
}

Pose ahead_of(const Pose& pose, double along) {
  return {pose.x + along * sim::det_cos(pose.yaw), pose.y + along * sim::det_sin(pose.yaw), pose.yaw};
}

bool touch(std::span<const Vec2> a, std::span<const Vec2> b) { return !separates(a, b) && !separates(b, a); }

bool touches_polygon(std::span<const Vec2> shape, std::span<const Vec2> polygon) {
  for (size_t i = 0; i < shape.size(); ++i)
    for (size_t j = 0; j < polygon.size(); ++j)
      if (segments_touch(shape[i], shape[(i + 1) % shape.size()], polygon[j], polygon[(j + 1) % polygon.size()])) return true;
  return contains(polygon, shape[0]) || contains(shape, polygon[0]);
}

bool contains(std::span<const Vec2> polygon, const Vec2& p) {
  bool inside = false;
  for (size_t i = 0; i < polygon.size(); ++i) {
    const Vec2 &a = polygon[i], &b = polygon[(i + 1) % polygon.size()];
    if (on_segment(a, b, p)) return false;
    if ((a.y > p.y) == (b.y > p.y)) continue;
    if ((b.y > a.y) == (cross(a, b, p) > 0)) inside = !inside;
  }
  return inside;
}

bool contained_in_any(std::span<const Polygon> polygons, const Vec2& p) {
  return std::any_of(polygons.begin(), polygons.end(), [&](const Polygon& polygon) { return contains(polygon, p); });
}

Nearest nearest_on(std::span<const Vec2> line, const Vec2& p) {
  Nearest best{0, 1e300};
  double gone = 0;
  for (size_t i = 0; i + 1 < line.size(); ++i) {
    const Vec2 &a = line[i], &b = line[i + 1];
    const double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy, length = sim::det_hypot(dx, dy);
    const double t = length2 > 0 ? std::clamp(((p.x - a.x) * dx + (p.y - a.y) * dy) / length2, 0.0, 1.0) : 0.0;
    const double distance = sim::det_hypot(p.x - (a.x + t * dx), p.y - (a.y + t * dy));
    if (distance < best.distance) best = {gone + t * length, distance};
    gone += length;
  }
  return best;
}

}  // namespace slip::drive
