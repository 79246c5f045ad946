// SPDX-License-Identifier: Apache-2.0
// See world.h. Actors' ways and times; the map is map.cc.
#include "drive/world.h"

#include <algorithm>
#include <cmath>

#include "sim/labels.h"
#include "sim/math.h"
#include "sim/record/make.h"

namespace slip::drive {

using sim::Pose;
using sim::Vec2;

namespace {

constexpr int kLater = kDriveSteps + 70 - sim::kTrackSteps;  // the privileged driver looks 6.4 s ahead
constexpr double kLookAhead = 60, kCorridor = 0.3, kFloor = -8.0, kLeastGap = 0.1;
constexpr double kSameWay = 0.7;  // radians between headings of those that go the same way

bool may_react(sim::AgentType t) {
  using enum sim::AgentType;
  switch (t) {
    case kCyclist:
    case kPedestrian:
    case kAnimal:
    case kCone:
    case kBarrier:
    case kDebris:
    case kWorker:
      return false;
    default:
      return true;
  }
}

}  // namespace

Pose World::Line::at(double s) const {
  const size_t i = static_cast<size_t>(std::upper_bound(arc.begin(), arc.end(), s) - arc.begin());
  if (i == 0) return {points.front().x, points.front().y, yaw.front()};
  if (i >= arc.size()) return {points.back().x, points.back().y, yaw.back()};
  const double f = (s - arc[i - 1]) / (arc[i] - arc[i - 1]);
  const Vec2 &a = points[i - 1], &b = points[i];
  return {a.x + f * (b.x - a.x), a.y + f * (b.y - a.y), yaw[i - 1] + f * sim::wrap_angle(yaw[i] - yaw[i - 1])};
}

Result<World> World::make(uint64_t seed, uint32_t family, bool reactive) {
  SLIP_TRY(const sim::Drawn d, sim::draw_accepted(seed, family));
  World w;
  w.scene_ = sim::draw_scene(seed, family, d.scene.attempt, kLater);
  w.scene_.usual_v = w.scene_.v0;
  w.seed_ = seed;
  w.family_ = family;
  for (const sim::Actor& a : w.scene_.actors) {
    Line line;
    for (int k = 0; k < sim::kTrackSteps + kLater; ++k) {
      const sim::TrackPoint& p = a.at(k);
      const double gone =
          line.points.empty() ? 0.0 : line.arc.back() + sim::det_hypot(p.x - line.points.back().x, p.y - line.points.back().y);
      line.points.push_back({p.x, p.y});
      line.arc.push_back(gone);
      line.yaw.push_back(p.yaw);
    }
    w.live_.push_back({reactive && may_react(a.agent.type) && line.length() > 0.5, false, 0, a.at(0).v, line.arc[1], a.at(1).v});
    w.lines_.push_back(std::move(line));
  }
  return w;
}

/// If a box stands on actor i's way in front of it: how far from its front, and how fast it goes along that way.
std::optional<World::Leader> World::ahead_on(size_t i, const Pose& centre, double length, double width, double speed) const {
  const Live& me = live_[i];
  const sim::Agent& agent = scene_.actors[i].agent;
  const Line& line = lines_[i];
  const Pose here = line.at(me.s);
  const double near = kLookAhead + length + agent.length;
  if (sim::det_hypot(centre.x - here.x, centre.y - here.y) > near) return {};
  double first = 1e300;
  Corners box = corners_of(centre, length, width);
  for (const Vec2& corner : {box[0], box[1], box[2], box[3], Vec2{centre.x, centre.y}}) {
    for (size_t k = 0; k < line.arc.size(); ++k) {
      if (line.arc[k] <= me.s || (k > 0 && line.arc[k] == line.arc[k - 1])) continue;
      if (line.arc[k] > me.s + near) break;
      const double dx = corner.x - line.points[k].x, dy = corner.y - line.points[k].y;
      const double c = sim::det_cos(line.yaw[k]), n = sim::det_sin(line.yaw[k]);
      const double along = dx * c + dy * n, across = std::fabs(-dx * n + dy * c);
      if (std::fabs(along) <= 1.0 && across < agent.width / 2 + kCorridor) first = std::min(first, line.arc[k] + along);
    }
  }
  if (first > 1e299) return {};
  const Pose there = line.at(first);
  return Leader{std::max(first - me.s - agent.length / 2, kLeastGap), std::max(0.0, speed * sim::det_cos(centre.yaw - there.yaw))};
}

std::optional<World::Leader> World::leader_of(size_t i, const Motion& ego) const {
  std::optional<Leader> best =
      ahead_on(i, ahead_of({ego.x, ego.y, ego.heading}, kEgoBody.rear_to_centre), kEgoBody.length, kEgoBody.width, ego.v);
  const Pose here = lines_[i].at(live_[i].s);
  for (size_t j = 0; j < live_.size(); ++j) {
    if (j == i || !live_[j].reacts) continue;
    const ActorNow p = now(j, false);
    if (std::fabs(sim::wrap_angle(p.heading - here.yaw)) > kSameWay) continue;
    const auto leader = ahead_on(i, {p.x, p.y, p.heading}, scene_.actors[j].agent.length, scene_.actors[j].agent.width, p.speed);
    if (leader && (!best || leader->gap < best->gap)) best = leader;
  }
  return best;
}

void World::decide(int step, const Motion& ego) {
  step_ = step;
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& me = live_[i];
    if (step > 0) me.s = me.s_next, me.v = me.v_next;
  }
  const Idm idm;
  for (size_t i = 0; i < live_.size(); ++i) {
    Live& me = live_[i];
    const double wanted = scene_.actors[i].at(step + 1).v;
    me.s_next = lines_[i].arc[static_cast<size_t>(step) + 1];
    me.v_next = wanted;
    if (!me.reacts) continue;
    const std::optional<Leader> leader = leader_of(i, ego);
    if (!me.apart && !leader) continue;
    const double own = (wanted - me.v) / kStep;
    const double most = idm.acceleration(me.v, std::max({wanted, me.v, 1.0}), leader ? std::optional(leader->gap) : std::nullopt,
                                         leader ? me.v - leader->speed : 0.0);
    if (!me.apart && most >= own) continue;
    me.apart = true;
    const double a = std::max(std::min(own, most), kFloor);
    const double stop = a < 0 ? std::min(kStep, -me.v / a) : kStep;
    me.s_next = me.s + me.v * stop + 0.5 * a * stop * stop;
    me.v_next = std::max(0.0, me.v + a * stop);
  }
}

ActorNow World::now(size_t i, bool next) const {
  const Live& me = live_[i];
  if (!me.apart) {
    const sim::TrackPoint& p = scene_.actors[i].at(step_ + (next ? 1 : 0));
    return {p.x, p.y, p.yaw, p.v};
  }
  const Pose p = lines_[i].at(next ? me.s_next : me.s);
  return {p.x, p.y, p.yaw, next ? me.v_next : me.v};
}

std::vector<ActorNow> World::actors_at(double t_s) const {
  const double f = std::clamp(t_s / kStep - step_, 0.0, 1.0);
  std::vector<ActorNow> out;
  for (size_t i = 0; i < live_.size(); ++i) {
    const ActorNow a = now(i, false), b = now(i, true);
    out.push_back({a.x + f * (b.x - a.x), a.y + f * (b.y - a.y), a.heading + f * sim::wrap_angle(b.heading - a.heading),
                   a.speed + f * (b.speed - a.speed)});
  }
  return out;
}

sim::Moment World::moment(double t_s, const Motion& ego) const {
  sim::Moment m = sim::moment_of(scene_, 0, {ego.x, ego.y, ego.heading}, ego.v);
  const std::vector<ActorNow> actors = actors_at(t_s);
  for (size_t i = 0; i < actors.size(); ++i) {
    m.agents[i].pose = {actors[i].x, actors[i].y, actors[i].heading};
    m.agents[i].speed_mps = actors[i].speed;
  }
  return m;
}

sim::Scene World::seen_from(int step, const Motion& ego, double a) const {
  sim::Scene whole = scene_;
  for (size_t i = 0; i < live_.size(); ++i) {
    if (!live_[i].apart) continue;
    // Its script's speeds from where it is.
    sim::Actor& actor = whole.actors[i];
    double s = live_[i].s;
    for (int k = step_; k < step; ++k) s += scene_.actors[i].at(k).v * kStep;
    for (int k = step; k < sim::kTrackSteps + kLater; ++k) {
      const double v = k == step ? live_[i].v : scene_.actors[i].at(k).v;
      const Pose p = lines_[i].at(s);
      const sim::Frenet f = whole.route.project({p.x, p.y});
      const double rel = p.yaw - whole.route.at(f.s).yaw, c = std::fabs(sim::det_cos(rel)), n = std::fabs(sim::det_sin(rel));
      actor.point(k) = {p.x,
                        p.y,
                        p.yaw,
                        v,
                        f.s,
                        f.d,
                        0.5 * (actor.agent.length * c + actor.agent.width * n),
                        0.5 * (actor.agent.length * n + actor.agent.width * c)};
      s += v * kStep;
    }
  }
  const double offset = whole.route.project({ego.x, ego.y}).d;
  sim::Scene out = sim::seen_by(whole, {ego.x, ego.y, ego.heading}, ego.v, a, offset, step);
  return out;
}

void World::note_standing(const Motion& ego) {
  if (scene_.stop != sim::StopKind::kSign || ego.v >= 0.2) return;
  const double gap = scene_.stop_s - (scene_.route.project({ego.x, ego.y}).s + sim::kEgoFront);
  if (gap < 3.5 && gap > -1.5) ++scene_.stood;
}

sim::EgoState World::history(double t_s) const { return sim::ego_before(scene_, t_s); }

sim::Intent World::intent(const Motion& ego) const {
  if (scene_.intent == sim::Intent::kGoStraight) return scene_.intent;
  const sim::Frenet f = scene_.route.project({ego.x, ego.y});
  if (scene_.shift != 0) return std::fabs(f.d - scene_.shift) < 0.6 ? sim::Intent::kGoStraight : scene_.intent;
  for (double s = f.s; s < f.s + 60; s += 2)
    if (std::fabs(scene_.route.curvature(s)) > 0.02) return scene_.intent;
  return sim::Intent::kGoStraight;
}

}  // namespace slip::drive
