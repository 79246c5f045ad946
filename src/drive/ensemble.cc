// SPDX-License-Identifier: Apache-2.0
// See ensemble.h.
#include "drive/ensemble.h"

#include <algorithm>
#include <optional>

namespace slip::drive {

namespace {

/// Where a plan is so many steps after its beginning; nothing behind its end.
std::optional<sim::Vec2> point_at(std::span<const sim::Vec2> plan, double steps) {
  if (steps < 0 || steps > static_cast<double>(plan.size()) - 1) return std::nullopt;
  const auto i = static_cast<size_t>(steps);
  if (i + 1 >= plan.size()) return plan.back();
  const double part = steps - static_cast<double>(i);
  const sim::Vec2 &a = plan[i], &b = plan[i + 1];
  return sim::Vec2{a.x + part * (b.x - a.x), a.y + part * (b.y - a.y)};
}

}  // namespace

Result<Planned> EnsemblePlanner::plan(const Situation& s, const CancelToken& cancel) {
  SLIP_TRY(Planned now, inner_.plan(s, cancel));
  if (s.world.seed() != seed_ || s.time_ms <= time_ms_) kept_.clear();  // another drive
  seed_ = s.world.seed();
  time_ms_ = s.time_ms;
  if (!now.valid) return now;
  // Where plans begin at a guess of when they will be ready, a quick answer's may begin before a slow one's.
  const auto since_s = [&](const Kept& k) { return static_cast<double>(s.origin_ms - k.origin_ms) / 1000; };
  const auto age_s = [&](const Kept& k) { return std::max(0.0, since_s(k)); };
  std::erase_if(kept_, [&](const Kept& k) { return age_s(k) >= window_s_; });
  Kept newest{s.origin_ms, now.points, now.dt};
  for (size_t i = 0; i < now.points.size(); ++i) {
    sim::Vec2& p = now.points[i];
    double weights = 1;
    for (const Kept& k : kept_) {
      const auto before = point_at(k.points, (since_s(k) + static_cast<double>(i) * now.dt) / k.dt);
      if (!before) continue;
      const double w = 1 - age_s(k) / window_s_;
      p.x += w * before->x;
      p.y += w * before->y;
      weights += w;
    }
    p.x /= weights;
    p.y /= weights;
  }
  kept_.push_back(std::move(newest));
  return now;
}

}  // namespace slip::drive
