// SPDX-License-Identifier: Apache-2.0
// See meta_actions.h.
#include "plan/meta_actions.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace slip {

namespace {

constexpr double kDt = 0.1, kStop = 0.5, kReverse = -0.3, kGentle = 0.5, kStrong = 2.0, kSteer = 0.05, kSharp = 0.3;
constexpr double kLeastStep = 0.02;  // metres in a tenth of a second: slower has no direction

Waypoint point_at(const Trajectory& t, double seconds) {
  const double u = seconds * t.rate_hz;
  const auto n = static_cast<double>(t.points.size());
  const auto at = [&](size_t k) { return k == 0 ? Waypoint{} : t.points[k - 1]; };
  const size_t i = std::min(static_cast<size_t>(std::max(0.0, std::floor(u))), t.points.size() - 1);
  const Waypoint a = at(i), b = at(i + 1);
  const double f = (u > n ? n : u) - static_cast<double>(i), beyond = std::max(0.0, u - n);
  return {a.x + (f + beyond) * (b.x - a.x), a.y + (f + beyond) * (b.y - a.y)};
}

std::vector<double> median_of_five(const std::vector<double>& v) {
  std::vector<double> out(v.size());
  for (size_t i = 0; i < v.size(); ++i) {
    std::array<double, 5> w{};
    for (size_t k = 0; k < 5; ++k) w[k] = v[std::min(i + k < 2 ? 0 : i + k - 2, v.size() - 1)];
    std::sort(w.begin(), w.end());
    out[i] = w[2];
  }
  return out;
}

std::string longitudinal(double v, double a) {
  if (v < kReverse) return "reverse";
  if (v < kStop) return "stop";
  if (std::fabs(a) < kGentle) return "maintain speed";
  return fmt::format("{} {}", std::fabs(a) >= kStrong ? "strong" : "gentle", a > 0 ? "accelerate" : "decelerate");
}

std::string lateral(double rate) {
  if (std::fabs(rate) < kSteer) return "go straight";
  return std::string(std::fabs(rate) >= kSharp ? "sharp " : "") + (rate > 0 ? "steer left" : "steer right");
}

}  // namespace

std::vector<std::vector<std::string>> meta_actions_of(const Trajectory& t, double v0_mps, size_t intervals) {
  std::vector<std::vector<std::string>> out;
  if (t.points.empty()) return out;
  std::vector<double> speeds, headings;
  double heading = 0;
  Waypoint before;
  for (size_t i = 0; i < intervals; ++i) {
    const Waypoint p = point_at(t, kDt * static_cast<double>(i + 1));
    const double dx = p.x - before.x, dy = p.y - before.y, step = std::hypot(dx, dy);
    const bool back = dx * std::cos(heading) + dy * std::sin(heading) < 0;
    if (step >= kLeastStep && !back) heading = std::atan2(dy, dx);
    speeds.push_back((back ? -step : step) / kDt);
    headings.push_back(heading);
    before = p;
  }
  const std::vector<double> v = median_of_five(speeds);
  for (size_t i = 0; i < intervals; ++i) {
    const double a = (v[i] - (i == 0 ? v0_mps : v[i - 1])) / kDt;
    const double turn = std::remainder(headings[i] - (i == 0 ? headings[0] : headings[i - 1]), 2 * 3.14159265358979323846) / kDt;
    out.push_back({longitudinal(v[i], a), lateral(turn)});
  }
  return out;
}

}  // namespace slip
