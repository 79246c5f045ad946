// SPDX-License-Identifier: Apache-2.0
// Finite differences and the thresholds of the behaviour labels.
#include "plan/feasibility.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace slip {
namespace {

constexpr double kShortestStep = 0.125;                                 // metres: 0.5 m/s at 4 Hz
constexpr double kTurn = 15 * std::numbers::pi / 180, kLaneChange = 2;  // rad, m
constexpr double kStopped = 1, kFaster = 1.15, kSlower = 0.85;

Waypoint minus(Waypoint a, Waypoint b) { return {a.x - b.x, a.y - b.y}; }
double length(Waypoint a) { return std::hypot(a.x, a.y); }

/// first differences of a list, times rate
std::vector<Waypoint> rates(const std::vector<Waypoint>& v, double rate_hz) {
  std::vector<Waypoint> out;
  for (size_t i = 1; i < v.size(); ++i) out.push_back({(v[i].x - v[i - 1].x) * rate_hz, (v[i].y - v[i - 1].y) * rate_hz});
  return out;
}

std::vector<Waypoint> with_now(const Trajectory& t) {
  std::vector<Waypoint> p{{0, 0}};
  p.insert(p.end(), t.points.begin(), t.points.end());
  return p;
}

/// Angle between two steps over the distance between their middles.
double curvature(Waypoint a, Waypoint b) {
  const double la = length(a), lb = length(b);
  if (la < kShortestStep || lb < kShortestStep) return 0;
  return std::abs(std::atan2(a.x * b.y - a.y * b.x, a.x * b.x + a.y * b.y)) / ((la + lb) / 2);
}

/// Direction of the last step that has one; 0 for a plan that stays.
double final_heading(const std::vector<Waypoint>& p) {
  for (size_t i = p.size(); i-- > 1;) {
    const Waypoint step = minus(p[i], p[i - 1]);
    if (length(step) >= kShortestStep) return std::atan2(step.y, step.x);
  }
  return 0;
}

}  // namespace

Kinematics kinematics_of(const Trajectory& t) {
  Kinematics k;
  const auto p = with_now(t);
  k.finite = std::all_of(p.begin(), p.end(), [](Waypoint w) { return std::isfinite(w.x) && std::isfinite(w.y); });
  if (!k.finite) return k;
  const auto v = rates(p, t.rate_hz), a = rates(v, t.rate_hz), j = rates(a, t.rate_hz);
  for (const Waypoint& w : v) k.max_speed_mps = std::max(k.max_speed_mps, length(w));
  for (const Waypoint& w : a) k.max_acceleration_mps2 = std::max(k.max_acceleration_mps2, length(w));
  for (size_t i = 2; i < p.size(); ++i)
    k.max_curvature_1pm = std::max(k.max_curvature_1pm, curvature(minus(p[i - 1], p[i - 2]), minus(p[i], p[i - 1])));
  double sum = 0;
  for (const Waypoint& w : j) sum += w.x * w.x + w.y * w.y;
  if (!j.empty()) k.jerk_rms_mps3 = std::sqrt(sum / static_cast<double>(j.size()));
  return k;
}

std::string_view words(LongitudinalBehaviour b) {
  static constexpr std::array<std::string_view, 4> kWords = {"keep speed", "speed up", "slow down", "come to stop"};
  return kWords[static_cast<size_t>(b)];
}
std::string_view words(LateralBehaviour b) {
  static constexpr std::array<std::string_view, 5> kWords = {"go straight", "turn left", "turn right", "change left",
                                                             "change right"};
  return kWords[static_cast<size_t>(b)];
}

MetaBehaviour meta_behaviour(const Trajectory& t, double v0) {
  const auto p = with_now(t);
  const size_t second = std::min(p.size() - 1, std::max<size_t>(1, static_cast<size_t>(std::lround(t.rate_hz))));
  MetaBehaviour m;
  const double seconds = static_cast<double>(second) / t.rate_hz;
  const double v = second > 0 ? distance_m(p.back(), p[p.size() - 1 - second]) / seconds : 0;
  if (v < kStopped)
    m.longitudinal = LongitudinalBehaviour::kComeToStop;
  else if (v > kFaster * v0)
    m.longitudinal = LongitudinalBehaviour::kSpeedUp;
  else if (v < kSlower * v0)
    m.longitudinal = LongitudinalBehaviour::kSlowDown;

  // Reversing straight back points the steps at 180 degrees; the car's heading is the opposite of them.
  double yaw = final_heading(p);
  if (p.back().x < 0 && std::abs(yaw) > std::numbers::pi / 2) yaw -= std::copysign(std::numbers::pi, yaw);
  if (std::abs(yaw) > kTurn)
    m.lateral = yaw > 0 ? LateralBehaviour::kTurnLeft : LateralBehaviour::kTurnRight;
  else if (std::abs(p.back().y) > kLaneChange)
    m.lateral = p.back().y > 0 ? LateralBehaviour::kChangeLeft : LateralBehaviour::kChangeRight;
  return m;
}

}  // namespace slip
