// SPDX-License-Identifier: Apache-2.0
// See control.h.
#include "drive/control.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/math.h"

namespace slip::drive {

using sim::Vec2;

double Idm::desired_gap(double v, double dv) const { return s0 + std::max(0.0, v * T + v * dv / (2 * std::sqrt(a_max * b))); }

double Idm::acceleration(double v, double v0, std::optional<double> gap, double dv) const {
  const double r = v / v0, near = gap ? desired_gap(v, dv) / *gap : 0.0;
  return a_max * (1 - r * r * r * r - near * near);
}

Motion bicycle_step(const Motion& m, double a, double curvature, double dt) {
  const bool stops = a < 0 && m.v + a * dt < 0;
  const double t = stops ? -m.v / a : dt;
  const double s = m.v * t + 0.5 * a * t * t, turn = curvature * s;
  const double chord = std::fabs(turn) < 1e-6 ? s * (1 - turn * turn / 24) : 2 * sim::det_sin(0.5 * turn) / curvature;
  const double mid = m.heading + 0.5 * turn;
  return {m.x + chord * sim::det_cos(mid), m.y + chord * sim::det_sin(mid), m.heading + turn, stops ? 0.0 : m.v + a * t};
}

namespace {

constexpr double kMostCurvature = 0.2;

double squared(const Vec2& p) { return p.x * p.x + p.y * p.y; }

/// The path's nearest point to the origin: which segment, and how far along it.
struct OnPath {
  size_t segment = 0;
  double t = 0;
};
OnPath nearest(std::span<const Vec2> path) {
  OnPath best;
  double best_d2 = 1e300;
  for (size_t i = 0; i + 1 < path.size(); ++i) {
    const Vec2 &a = path[i], d{path[i + 1].x - a.x, path[i + 1].y - a.y};
    const double length2 = squared(d), t = length2 > 0 ? std::clamp(-(a.x * d.x + a.y * d.y) / length2, 0.0, 1.0) : 0.0;
    const double d2 = squared({a.x + t * d.x, a.y + t * d.y});
    if (d2 < best_d2) best_d2 = d2, best = {i, t};
  }
  return best;
}

/// The first place at or behind `from` on a segment where it leaves the circle.
std::optional<Vec2> crossing(const Vec2& a, const Vec2& b, double from, double radius) {
  const Vec2 d{b.x - a.x, b.y - a.y};
  const double qa = squared(d), qb = a.x * d.x + a.y * d.y, qc = squared(a) - radius * radius, disc = qb * qb - qa * qc;
  if (qa == 0 || disc < 0) return {};
  for (const double t : {(-qb - std::sqrt(disc)) / qa, (-qb + std::sqrt(disc)) / qa})
    if (t >= from && t <= 1) return Vec2{a.x + t * d.x, a.y + t * d.y};
  return {};
}

}  // namespace

Pursuit pursue(std::span<const Vec2> path, double v) {
  Pursuit out{std::max(3.0, 0.8 * v), {}, 0};
  if (path.empty()) return out;
  out.point = path.back();
  const OnPath start = nearest(path);
  for (size_t i = start.segment; i + 1 < path.size(); ++i) {
    const auto at = crossing(path[i], path[i + 1], i == start.segment ? start.t : 0.0, out.look_ahead);
    if (!at) continue;
    out.point = *at;
    break;
  }
  const double d2 = squared(out.point);
  out.curvature = d2 > 0 ? std::clamp(2 * out.point.y / d2, -kMostCurvature, kMostCurvature) : 0.0;
  return out;
}

double SpeedControl::acceleration(double target, double v, double dt) {
  const double e = target - v, next = integral + e * dt, wish = kp * e + ki * next, a = std::clamp(wish, low, high);
  if (a == wish || e * wish <= 0) integral = next;
  return a;
}

Pace pace_of(std::span<const Vec2> plan, double plan_dt, double offset_s) {
  const auto speed = [&](size_t j) { return sim::det_hypot(plan[j + 1].x - plan[j].x, plan[j + 1].y - plan[j].y) / plan_dt; };
  const size_t last = plan.size() - 2;
  const double at = offset_s / plan_dt - 0.5;  // in segments' middles
  if (last == 0 || at >= static_cast<double>(last)) return {speed(last), 0};
  const auto j = static_cast<size_t>(std::max<int64_t>(0, sim::det_floor(at)));
  const double v = speed(j), step = speed(j + 1) - v;
  return {std::max(0.0, v + (at - static_cast<double>(j)) * step), step / plan_dt};
}

Follower::Follower(double curvature, const SpeedControl& speed, bool feed_forward)
    : speed_(speed), feed_forward_(feed_forward), angle_(sim::det_atan2(kWheelbase * curvature, 1)) {}

Follower::Command Follower::hold() const { return {0, 0, sim::det_tan(angle_) / kWheelbase}; }

Follower::Command Follower::follow(std::span<const Vec2> plan, double plan_dt, double offset_s, const Motion& m) {
  Command out;
  if (feed_forward_) {
    const Pace pace = pace_of(plan, plan_dt, offset_s);
    out.target = pace.v;
    out.a = std::clamp(pace.a + speed_.acceleration(pace.v, m.v, kControlStep), speed_.low, speed_.high);
  } else {
    // A rounding error below a boundary of two segments must not keep the earlier one.
    const auto at = static_cast<size_t>(std::max<int64_t>(0, sim::det_floor(offset_s / plan_dt + 1e-9)));
    const size_t j = std::min(at, plan.size() - 2);
    out.target = sim::det_hypot(plan[j + 1].x - plan[j].x, plan[j + 1].y - plan[j].y) / plan_dt;
    out.a = speed_.acceleration(out.target, m.v, kControlStep);
  }
  const double c = sim::det_cos(m.heading), s = sim::det_sin(m.heading);
  std::vector<Vec2> path;
  for (const Vec2& p : plan) {
    const double dx = p.x - m.x, dy = p.y - m.y;
    path.push_back({dx * c + dy * s, -dx * s + dy * c});
  }
  const double wish = sim::det_atan2(kWheelbase * pursue(path, m.v).curvature, 1), most = kSteeringRate * kControlStep;
  angle_ += std::clamp(wish - angle_, -most, most);
  out.curvature = sim::det_tan(angle_) / kWheelbase;
  return out;
}

}  // namespace slip::drive
