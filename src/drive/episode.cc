// SPDX-License-Identifier: Apache-2.0
// See episode.h. Control at 20 Hz, actors at 10 Hz, decisions when the last one is done.
#include "drive/episode.h"

#include <algorithm>
#include <cmath>

#include "sim/math.h"

namespace slip::drive {

namespace {

constexpr int64_t kControlMs = 50, kTenth = 100, kEnd = kDriveSteps * kTenth, kPeriod = 100, kHorizon = 5000;
constexpr double kEnough = 0.8;  // of the expert's way, for a success

class Drive {
 public:
  Drive(const EpisodeSettings& settings, World world, Planner& planner, const CancelToken& cancel)
      : settings_(settings),
        world_(std::move(world)),
        planner_(planner),
        cancel_(cancel),
        schedule_(settings.mode, kPeriod, kHorizon),
        follower_(world_.scene().route.curvature(0), kLoopGains, true) {
    ego_ = {0, 0, 0, world_.scene().v0};
    out_.v0 = ego_.v;
    for (size_t i = 0; i < world_.scene().actors.size(); ++i) map_.others.push_back(world_.other(i));
  }

  Result<Episode> run() {
    Surroundings map = world_.map();
    map.others = std::move(map_.others);
    map_ = std::move(map);
    for (int64_t u = 0; u < kEnd; u += kControlMs) {
      if (u % kTenth == 0) begin_tenth(u);
      SLIP_TRY_(decide(u, u));
      command_ = command(u);
      log_.push_back({u, ego_, command_.a, command_.curvature});
      if (u % kTenth == 0) record(u);
      SLIP_TRY_(decide(u + 1, u + kControlMs - 1));
      ego_ = bicycle_step(ego_, command_.a, command_.curvature, kControlStep);
    }
    begin_tenth(kEnd);
    record(kEnd);
    conclude();
    return std::move(out_);
  }

 private:
  struct Logged {
    int64_t time = 0;
    Motion ego;
    double a = 0, curvature = 0;
  };

  void begin_tenth(int64_t u) {
    world_.note_standing(ego_);
    world_.decide(static_cast<int>(u / kTenth), ego_);
  }

  /// Where the ego is at t, by the command of the step that t lies in.
  Logged at(int64_t t) const {
    if (log_.empty() || t >= log_.back().time + kControlMs) return {t, ego_, command_.a, command_.curvature};
    const Logged& l = log_[static_cast<size_t>(t / kControlMs)];
    return {t, bicycle_step(l.ego, l.a, l.curvature, static_cast<double>(t - l.time) / 1000), l.a, l.curvature};
  }

  /// Where the ego will be until `until` if it goes on by the plans that it has: every 50 ms from `here` on, the last at `until` itself.
  std::vector<Logged> ahead_of_now(const Logged& here, int64_t until) const {
    std::vector<Logged> out{here};
    Follower follower = follower_;
    while (out.back().time < until) {
      Logged& last = out.back();
      const auto followed = schedule_.at(last.time);
      const Follower::Command c = followed ? follower.follow(plans_[followed->call].points, plans_[followed->call].dt,
                                                             static_cast<double>(followed->offset) / 1000, last.ego)
                                           : follower.hold();
      last.a = c.a, last.curvature = c.curvature;
      const int64_t next = std::min(until, last.time + kControlMs);
      const Motion m = bicycle_step(last.ego, c.a, c.curvature, static_cast<double>(next - last.time) / 1000);
      out.push_back({next, m, c.a, c.curvature});
    }
    return out;
  }

  sim::EgoState state_at(int64_t t, const Motion& origin, std::span<const Logged> ahead) const {
    if (t < 0) {
      const sim::EgoState s = world_.history(static_cast<double>(t) / 1000);
      return turned(s, origin);
    }
    const Logged& here = ahead.front();
    Logged l = t < here.time ? at(t) : here;
    if (t > here.time) {
      const auto behind =
          std::upper_bound(ahead.begin(), ahead.end(), t, [](int64_t time, const Logged& x) { return time < x.time; });
      l = *(behind - 1);
      l.ego = bicycle_step(l.ego, l.a, l.curvature, static_cast<double>(t - l.time) / 1000);
    }
    const double c = sim::det_cos(l.ego.heading), n = sim::det_sin(l.ego.heading), v = l.ego.v;
    const double a = v > 0 || l.a > 0 ? l.a : 0.0, side = v * v * l.curvature;
    const sim::EgoState world{0,
                              static_cast<float>(l.ego.x),
                              static_cast<float>(l.ego.y),
                              static_cast<float>(v * c),
                              static_cast<float>(v * n),
                              static_cast<float>(a * c - side * n),
                              static_cast<float>(a * n + side * c)};
    return turned(world, origin);
  }
  static sim::EgoState turned(const sim::EgoState& s, const Motion& origin) {
    const double c = sim::det_cos(origin.heading), n = sim::det_sin(origin.heading), dx = s.x - origin.x, dy = s.y - origin.y;
    const auto turn = [&](double x, double y) {
      return std::pair{static_cast<float>(x * c + y * n), static_cast<float>(-x * n + y * c)};
    };
    const auto [x, y] = turn(dx, dy);
    const auto [vx, vy] = turn(s.vx, s.vy);
    const auto [ax, ay] = turn(s.ax, s.ay);
    return {0, x, y, vx, vy, ax, ay};
  }

  Situation situation(int64_t t) const {
    const Logged here = at(t);
    const int64_t origin = t + schedule_.guess();
    const std::vector<Logged> ahead = ahead_of_now(here, origin);
    const Logged& then = ahead.back();
    Situation s{world_, t, origin, here.ego, then.ego, then.a, then.curvature, {}, world_.intent(here.ego)};
    if (s.origin.v <= 0 && s.acceleration < 0) s.acceleration = 0;
    for (int i = 0; i < 16; ++i) {
      const int64_t back = 250 * (15 - i);
      sim::EgoState e = state_at(origin - back, s.origin, ahead);
      e.t_s = static_cast<float>(-0.25 * (15 - i));
      s.history[static_cast<size_t>(i)] = e;
    }
    return s;
  }

  /// Calls that start from `from` to `to`.
  Status decide(int64_t from, int64_t to) {
    while (schedule_.next_start() >= from && schedule_.next_start() <= to) {
      const int64_t t = schedule_.next_start();
      SLIP_TRY_(cancel_.check("drive", static_cast<int64_t>(plans_.size()), "decisions"));
      SLIP_TRY(Planned planned, planner_.plan(situation(t), cancel_));
      const int64_t latency = settings_.delay.latency(planned.counts), ready = settings_.delay.latency(planned.ready);
      const Call& call = schedule_.add(t, t, latency, std::min(ready, latency));
      out_.latency_sum_ms += call.free - call.start;
      out_.invalid += !planned.valid;
      out_.passes += planned.counts.passes, out_.rows += planned.counts.rows;
      out_.tested += planned.tested, out_.accepted += planned.accepted;
      plans_.push_back(std::move(planned));
    }
    return {};
  }

  Follower::Command command(int64_t u) {
    const auto followed = schedule_.at(u);
    if (!followed) return follower_.hold();
    out_.age_sum_ms += followed->age;
    ++out_.followed_steps;
    const Planned& p = plans_[followed->call];
    return follower_.follow(p.points, p.dt, static_cast<double>(followed->offset) / 1000, ego_);
  }

  void record(int64_t u) {
    const double a = ego_.v > 0 || command_.a > 0 ? command_.a : 0.0;
    states_.push_back({ego_.x, ego_.y, ego_.heading, ego_.v, a, ego_.v * command_.curvature, 0});
    if (states_.size() > 1)
      states_.back().yaw_acceleration = (states_.back().yaw_rate - states_[states_.size() - 2].yaw_rate) / kStep;
    const std::vector<ActorNow> actors = world_.actors_at(static_cast<double>(u) / 1000);
    for (size_t i = 0; i < actors.size(); ++i) map_.others[i].poses.emplace_back(actors[i]);
    if (!settings_.record) return;
    Snapshot s{u, ego_, actors, {}, 0, world_.moment(static_cast<double>(u) / 1000, ego_)};
    if (const auto followed = schedule_.at(u)) s.plan = plans_[followed->call].points, s.age_ms = followed->age;
    out_.snapshots.push_back(std::move(s));
  }

  void conclude() {
    out_.calls = static_cast<int64_t>(plans_.size());
    out_.track = score_track(states_, map_, kEgoBody);
    for (const ContactEvent& c : out_.track.contacts) {
      if (!c.at_fault) continue;
      const State& s = states_[static_cast<size_t>(c.step)];
      const OtherPose& p = *map_.others[c.other].poses[static_cast<size_t>(c.step)];
      out_.ncap = neuro_ncap(true, {s.v * sim::det_cos(s.heading), s.v * sim::det_sin(s.heading)},
                             {p.speed * sim::det_cos(p.heading), p.speed * sim::det_sin(p.heading)}, std::max(out_.v0, 1.0));
      break;
    }
  }

  const EpisodeSettings& settings_;
  World world_;
  Planner& planner_;
  const CancelToken& cancel_;
  Schedule schedule_;
  Follower follower_;
  Follower::Command command_;
  Motion ego_;
  std::vector<Logged> log_;
  std::vector<Planned> plans_;
  std::vector<State> states_;
  Surroundings map_;
  Episode out_;
};

}  // namespace

Result<Episode> drive_episode(const EpisodeSettings& settings, Planner& planner, const CancelToken& cancel) {
  SLIP_TRY(World world, World::make(settings.seed, settings.family, settings.reactive));
  return Drive(settings, std::move(world), planner, cancel).run();
}

EpisodeScore score_episode(const Episode& e, const Episode& expert) {
  EpisodeScore out;
  const TrackScore& t = e.track;
  out.score = loop_score(t, expert.track);
  out.ep = ego_progress_loop(t, expert.track);
  out.ttc = t.ttc_constant;
  out.comfort = t.comfort_loop.all() ? 1 : 0;
  out.nc = t.nc, out.dac = t.dac, out.tlc = t.tlc;
  out.ncap = e.ncap;
  out.age_ms = e.mean_age_ms();
  out.latency_ms = e.mean_latency_ms();
  const auto share = [](int64_t part, int64_t whole) {
    return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0.0;
  };
  out.passes = share(e.passes, e.calls), out.rows = share(e.rows, e.calls), out.acceptance = share(e.accepted, e.tested);
  out.success = t.nc == 1 && t.dac == 1 && t.tlc == 1 && out.ep >= kEnough;
  return out;
}

}  // namespace slip::drive
