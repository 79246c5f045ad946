// SPDX-License-Identifier: Apache-2.0
// See stop_margin.h.
#include "drive/stop_margin.h"

#include <algorithm>
#include <cmath>

namespace slip::drive {

namespace {

constexpr double kStandsM = 0.5;  // in the last second

}  // namespace

std::vector<sim::Vec2> with_stop_margin(std::vector<sim::Vec2> points, double dt, double margin_m) {
  if (points.size() < 2) return points;
  std::vector<double> way{0};  // along the plan
  for (size_t i = 1; i < points.size(); ++i)
    way.push_back(way.back() + std::hypot(points[i].x - points[i - 1].x, points[i].y - points[i - 1].y));
  const auto second = static_cast<size_t>(std::lround(1 / dt));
  const double whole = way.back(), late = whole - way[way.size() - 1 - std::min(second, way.size() - 1)];
  if (late >= kStandsM || whole <= 0) return points;
  const double part = std::max(0.0, whole - margin_m) / whole;
  const std::vector<sim::Vec2> path = points;
  size_t k = 0;
  for (size_t i = 1; i < points.size(); ++i) {
    const double at = part * way[i];
    while (k + 2 < path.size() && way[k + 1] < at) ++k;
    const double step = way[k + 1] - way[k], within = step > 0 ? std::clamp((at - way[k]) / step, 0.0, 1.0) : 0;
    points[i] = {path[k].x + within * (path[k + 1].x - path[k].x), path[k].y + within * (path[k + 1].y - path[k].y)};
  }
  return points;
}

Result<Planned> StopMarginPlanner::plan(const Situation& s, const CancelToken& cancel) {
  SLIP_TRY(Planned now, inner_.plan(s, cancel));
  if (now.valid) now.points = with_stop_margin(std::move(now.points), now.dt, margin_m_);
  return now;
}

}  // namespace slip::drive
