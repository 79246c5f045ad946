// SPDX-License-Identifier: Apache-2.0
// The simulator as a rater: three trajectories of a scene, driven exactly, scored as the closed loop scores.
#include <cmath>

#include "drive/world.h"
#include "eval/measures.h"
#include "plan/baselines.h"
#include "sim/math.h"
#include "sim/record/make.h"

namespace slip {

namespace {

constexpr int kSteps = 50;        // 5 s at 10 Hz
constexpr double kPace = 0.8;     // of the slower variant
constexpr double kMoves = 0.005;  // metres in a tenth of a second: below that a car has no direction

/// States of a car that is at `at(t)`.
template <class At>
std::vector<drive::State> states_of(const At& at, double v0) {
  std::vector<drive::State> out{{0, 0, 0, v0}};
  for (int k = 1; k <= kSteps; ++k) {
    const sim::Vec2 p = at(0.1 * k), q = at(0.1 * (k - 1));
    const double dx = p.x - q.x, dy = p.y - q.y, step = sim::det_hypot(dx, dy);
    drive::State s{p.x, p.y, step > kMoves ? sim::det_atan2(dy, dx) : out.back().heading, step / 0.1};
    s.a = (s.v - out.back().v) / 0.1;
    s.yaw_rate = sim::wrap_angle(s.heading - out.back().heading) / 0.1;
    s.yaw_acceleration = (s.yaw_rate - out.back().yaw_rate) / 0.1;
    out.push_back(s);
  }
  return out;
}

template <class At>
std::vector<Waypoint> points_of(const At& at) {
  std::vector<Waypoint> out;
  for (int i = 1; i <= 20; ++i) {
    const sim::Vec2 p = at(0.25 * i);
    out.push_back({p.x, p.y});
  }
  return out;
}

}  // namespace

std::optional<RatedFrame> rate_scene(const sim::Labels& labels) {
  if (labels.frame_s != 0) return {};
  const auto drawn = sim::draw_accepted(labels.seed, labels.family);
  // A record with other contents than its seed's scene was not made by this simulator.
  if (!drawn || drawn->labels.future.back().x != labels.future.back().x || drawn->labels.v0_mps != labels.v0_mps) return {};
  auto world = drive::World::make(labels.seed, labels.family, false);
  if (!world) return {};
  drive::Surroundings map = world->map();
  for (size_t i = 0; i < world->scene().actors.size(); ++i) {
    drive::Other o = world->other(i);
    for (int k = 0; k <= kSteps; ++k) {
      const sim::TrackPoint& p = world->scene().actors[i].at(k);
      o.poses.emplace_back(drive::OtherPose{p.x, p.y, p.yaw, p.v});
    }
    map.others.push_back(std::move(o));
  }
  const double v0 = labels.v0_mps;
  const Waypoint v{labels.history.back().vx, labels.history.back().vy};
  const auto expert = [&](double t) { return sim::future_at(labels, t); };
  const auto slower = [&](double t) { return sim::future_at(labels, kPace * t); };
  const auto constant = [&](double t) { return sim::Vec2{v.x * t, v.y * t}; };
  RatedFrame out;
  out.v0_mps = v0;
  out.raters = {points_of(expert), points_of(slower), points_of(constant)};
  const drive::TrackScore best = drive::score_track(states_of(expert, v0), map, drive::kEgoBody);
  for (const drive::TrackScore& s : {best, drive::score_track(states_of(slower, kPace * v0), map, drive::kEgoBody),
                                     drive::score_track(states_of(constant, v0), map, drive::kEgoBody)})
    out.labels.push_back(10 * drive::loop_score(s, best));
  return out;
}

}  // namespace slip
