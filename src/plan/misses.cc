// SPDX-License-Identifier: Apache-2.0
// See misses.h. Facts: docs/notes/driving.md.
#include "plan/misses.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip {

namespace {

constexpr double kEndPoint = 2.0;
constexpr std::array<double, 3> kSeconds = {3, 5, 8}, kAcross = {1.0, 1.8, 3.0}, kNuplan = {6, 8, 16};

/// Waymo's scale of speed: half at 1.4 m/s, whole from 11 m/s on.
double speed_scale(double v0) { return std::clamp(0.5 + 0.5 * (v0 - 1.4) / (11 - 1.4), 0.5, 1.0); }

bool inside(const Waypoint& p, const Waypoint& truth, double heading, double across, double scale) {
  const double dx = p.x - truth.x, dy = p.y - truth.y, c = std::cos(heading), s = std::sin(heading);
  return std::fabs(dx * c + dy * s) <= 2 * across * scale && std::fabs(-dx * s + dy * c) <= across * scale;
}

double largest(std::span<const Waypoint> a, std::span<const Waypoint> b, size_t from, size_t step, size_t n) {
  double out = 0;
  for (size_t i = from; i < n; i += step) out = std::max(out, distance_m(a[i], b[i]));
  return out;
}

}  // namespace

Misses misses_of(std::span<const std::vector<Waypoint>> rollouts, std::span<const Waypoint> truth, std::span<const double> headings,
                 double v0_mps, double rate_hz) {
  SLIP_CHECK(!rollouts.empty() && !truth.empty() && headings.size() == truth.size(), "a plan has a truth to be missed");
  Misses out{true, true, {}, {}};
  const size_t n = truth.size();
  for (const auto& r : rollouts) {
    SLIP_CHECK(r.size() == n, "rollouts are as long as the truth");
    out.argoverse = out.argoverse && distance_m(r[n - 1], truth[n - 1]) > kEndPoint;
    out.nuscenes = out.nuscenes && largest(r, truth, 0, 1, n) > kEndPoint;
  }
  const auto second = static_cast<size_t>(std::lround(rate_hz));
  for (size_t h = 0; h < kSeconds.size(); ++h) {
    const auto end = static_cast<size_t>(std::lround(kSeconds[h] * rate_hz));
    if (end > n || second == 0) continue;
    const size_t at = end - 1;
    out.waymo[h] = std::none_of(rollouts.begin(), rollouts.end(), [&](const std::vector<Waypoint>& r) {
      return inside(r[at], truth[at], headings[at], kAcross[h], speed_scale(v0_mps));
    });
    out.nuplan[h] = largest(rollouts.front(), truth, second - 1, second, end) > kNuplan[h];
  }
  return out;
}

std::vector<double> headings_of(std::span<const Waypoint> points) {
  std::vector<double> out;
  Waypoint before;
  double heading = 0;
  for (const Waypoint& p : points) {
    if (distance_m(p, before) >= 0.01) heading = std::atan2(p.y - before.y, p.x - before.x);
    out.push_back(heading);
    before = p;
  }
  return out;
}

}  // namespace slip
