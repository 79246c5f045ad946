// SPDX-License-Identifier: Apache-2.0
// See ensemble.h.
#include "drive/ensemble.h"

#include <algorithm>
#include <optional>

#include "sim/math.h"

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

constexpr double kLookAheadS = 2;

/// Metres along a plan between two of its times.
double way(std::span<const sim::Vec2> plan, double dt, double from_s, double to_s) {
  double sum = 0;
  std::optional<sim::Vec2> last;
  constexpr int kSteps = 20;
  for (int i = 0; i <= kSteps; ++i) {
    const auto p = point_at(plan, (from_s + (to_s - from_s) * i / kSteps) / dt);
    if (p && last) sum += sim::det_hypot(p->x - last->x, p->y - last->y);
    if (p) last = p;
  }
  return sum;
}

double length_s(std::span<const sim::Vec2> plan, double dt) { return static_cast<double>(plan.size() - 1) * dt; }

}  // namespace

double EnsemblePlanner::weight(const Kept& k, int64_t now_ms, const Kept& newest) const {
  const auto since_s = [&](const Kept& p) { return static_cast<double>(now_ms - p.origin_ms) / 1000; };
  const double since = since_s(k), w = 1 - std::max(0.0, since) / window_s_;
  const auto at = std::find_if(kept_.rbegin(), kept_.rend(), [&](const Kept& p) { return since_s(p) >= 0; });
  if (!careful_ || since < 0 || at == kept_.rend()) return w;
  // Over what all of them reach.
  const Kept& before = *at;
  const double span = std::min({kLookAheadS, length_s(k.points, k.dt) - since, length_s(newest.points, newest.dt),
                                length_s(before.points, before.dt) - since_s(before)});
  if (span <= 0) return w;
  const auto way_of = [&](const Kept& p) { return way(p.points, p.dt, since_s(p), since_s(p) + span); };
  const double ahead = way_of(k) - std::max(way_of(newest), way_of(before));
  return w * std::clamp(1.5 - ahead, 0.0, 1.0);
}

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
  std::vector<double> weights_of;
  for (const Kept& k : kept_) weights_of.push_back(weight(k, s.origin_ms, newest));
  for (size_t i = 0; i < now.points.size(); ++i) {
    sim::Vec2& p = now.points[i];
    double weights = 1;
    for (size_t j = 0; j < kept_.size(); ++j) {
      const Kept& k = kept_[j];
      const auto before = point_at(k.points, (since_s(k) + static_cast<double>(i) * now.dt) / k.dt);
      if (!before) continue;
      const double w = weights_of[j];
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
