// SPDX-License-Identifier: Apache-2.0
// See planner.h.
#include "drive/planner.h"

#include <algorithm>
#include <cmath>

#include "plan/fit.h"
#include "sim/expert.h"
#include "sim/math.h"

namespace slip::drive {

using sim::Vec2;

std::vector<Vec2> to_world(std::span<const Vec2> local, const Motion& origin) {
  const double c = sim::det_cos(origin.heading), s = sim::det_sin(origin.heading);
  std::vector<Vec2> out{{origin.x, origin.y}};
  for (const Vec2& p : local) out.push_back({origin.x + p.x * c - p.y * s, origin.y + p.x * s + p.y * c});
  return out;
}

namespace {

constexpr double kDt = 0.25;
constexpr int kPoints = 20;
constexpr double kBackPerStep = 0.95;  // of the way beside the lane's middle that is left after a twentieth of a second

/// Where in the lane the route wants the car when the plan begins.
double lane_of(const Situation& s, const sim::Frenet& at) {
  const sim::Scene& sc = s.world.scene();
  return at.s > 0 && s.origin_ms >= 1000 * sc.shift_s ? sc.shift : 0.0;
}

}  // namespace

std::vector<Vec2> along_route(const Situation& s, std::span<const double> accelerations_mps2, double dt) {
  constexpr double kAction = 0.5, kStepS = 0.05;
  const sim::Scene& sc = s.world.scene();
  const sim::Frenet at = sc.route.project({s.origin.x, s.origin.y});
  const double goal = lane_of(s, at);
  std::vector<Vec2> out{{s.origin.x, s.origin.y}};
  double gone = 0, v = s.origin.v, d = at.d;
  const auto each = static_cast<int>(sim::det_round(dt / kStepS)), action = static_cast<int>(sim::det_round(kAction / kStepS));
  for (int k = 0; k < static_cast<int>(accelerations_mps2.size()) * action; ++k) {
    const double next = std::max(0.0, v + accelerations_mps2[static_cast<size_t>(k / action)] * kStepS);
    gone += 0.5 * (v + next) * kStepS, v = next;
    d = goal + (d - goal) * (v > 0.5 ? kBackPerStep : 1.0);
    if ((k + 1) % each != 0) continue;
    const sim::Pose p = sc.route.at(at.s + gone, d);
    out.push_back({p.x, p.y});
  }
  return out;
}

namespace {

/// Speed and curvature kept.
class Keep : public Planner {
 public:
  Keep(bool moves, bool turns) : moves_(moves), turns_(turns) {}
  Result<Planned> plan(const Situation& s, const CancelToken&) override {
    Planned out{{{s.origin.x, s.origin.y}}, kDt};
    for (int i = 1; i <= kPoints; ++i) {
      const Motion m = moves_ ? bicycle_step(s.origin, 0, turns_ ? s.curvature : 0.0, kDt * i) : s.origin;
      out.points.push_back({m.x, m.y});
    }
    return out;
  }

 private:
  bool moves_, turns_;
};

/// Along the route's lane behind the nearest actor on it. Actors are seen when the picture is taken, and are taken to keep their speed: where
/// the plan begins later (mode async+ahead), they have gone on until then as the ego has.
class LeadOnly : public Planner {
 public:
  Result<Planned> plan(const Situation& s, const CancelToken&) override {
    const sim::Scene& sc = s.world.scene();
    const sim::Frenet at = sc.route.project({s.origin.x, s.origin.y});
    const double goal = lane_of(s, at);
    double gap = 1e9, lead = 0;
    const std::vector<ActorNow> actors = s.world.actors_at(static_cast<double>(s.time_ms) / 1000);
    const double until_origin_s = static_cast<double>(s.origin_ms - s.time_ms) / 1000;
    for (size_t i = 0; i < actors.size(); ++i) {
      const ActorNow& a = actors[i];
      const double gone = a.speed * until_origin_s;
      const sim::Frenet f = sc.route.project({a.x + gone * sim::det_cos(a.heading), a.y + gone * sim::det_sin(a.heading)});
      const double ahead = f.s - at.s - sim::kEgoFront - sc.actors[i].agent.length / 2;
      if (std::fabs(f.d - goal) > 1.6 || ahead < -2 || ahead >= gap) continue;
      gap = ahead, lead = a.speed * sim::det_cos(a.heading - sc.route.at(f.s).yaw);
    }
    return along(s, at, goal, gap, lead);
  }

 private:
  static Planned along(const Situation& s, const sim::Frenet& at, double goal, double gap, double lead) {
    const sim::Scene& sc = s.world.scene();
    constexpr double kStepS = 0.05, kLateral = 2.5;
    Planned out{{{s.origin.x, s.origin.y}}, kDt};
    double gone = 0, v = s.origin.v, d = at.d;
    for (int k = 1; k <= kPoints * 5; ++k) {
      double set = std::max(sc.v_set, 1.0);
      for (double x = 0; x < 25; x += 2.5) {
        const double bend = std::fabs(sc.route.curvature(at.s + gone + x));
        if (bend > 1e-4) set = std::min(set, std::sqrt(kLateral / bend + 2 * 1.5 * x));
      }
      const bool leads = gap < 80;
      const double left = std::max(0.1, gap + lead * kStepS * k - gone);
      const double a = std::clamp(Idm{}.acceleration(v, set, leads ? std::optional(left) : std::nullopt, v - lead), -8.0, 2.0);
      const double next = std::max(0.0, v + a * kStepS);
      gone += 0.5 * (v + next) * kStepS, v = next;
      d = goal + (d - goal) * (v > 0.5 ? kBackPerStep : 1.0);
      if (k % 5 != 0) continue;
      const sim::Pose p = sc.route.at(at.s + gone, d);
      out.points.push_back({p.x, p.y});
    }
    return out;
  }
};

/// The driver that knows every actor's motion (sim/expert.h), asked anew from where the ego is.
class Expert : public Planner {
 public:
  Result<Planned> plan(const Situation& s, const CancelToken&) override {
    std::vector<Vec2> local;
    for (const sim::FutureState& f : drawn(s).future) local.push_back({f.x, f.y});
    return Planned{to_world(local, s.origin), sim::kDt};
  }

 protected:
  static sim::Plan drawn(const Situation& s) {
    const auto step = static_cast<int>(s.origin_ms / 100);  // he knows where everybody will be then
    return sim::drive(s.world.seen_from(step, s.origin, s.acceleration));
  }
};

/// What is left of the expert's plan when it is said as models/demo says its own: a waypoint a second, half metres, a curve through them.
class ExpertWaypoints : public Expert {
 public:
  Result<Planned> plan(const Situation& s, const CancelToken&) override {
    const sim::Plan plan = drawn(s);
    std::vector<Waypoint> said;
    for (size_t second = 1; second <= 5; ++second) {
      const sim::FutureState& f = plan.future[10 * second - 1];
      said.push_back({kStepM * sim::det_round(f.x / kStepM), kStepM * sim::det_round(f.y / kStepM)});
    }
    SLIP_TRY(const FitMap map, FitMap::make({.fit = Fit::kRounded, .rounding_m = kStepM / 2}));
    SLIP_TRY(const Trajectory fitted, map.apply(said, {s.history.back().vx, s.history.back().vy}));
    std::vector<Vec2> local;
    for (const Waypoint& p : fitted.points) local.push_back({p.x, p.y});
    return Planned{to_world(local, s.origin), 1 / fitted.rate_hz};
  }

 private:
  static constexpr double kStepM = 0.5;  // configs/demo.json: waypoint_step_m
};

}  // namespace

std::vector<std::string_view> baseline_names() {
  return {"stay", "constant-velocity", "constant-turn", "idm", "expert", "expert-waypoints"};
}

std::unique_ptr<Planner> baseline(std::string_view name) {
  if (name == "stay") return std::make_unique<Keep>(false, false);
  if (name == "constant-velocity") return std::make_unique<Keep>(true, false);
  if (name == "constant-turn") return std::make_unique<Keep>(true, true);
  if (name == "idm") return std::make_unique<LeadOnly>();
  if (name == "expert") return std::make_unique<Expert>();
  if (name == "expert-waypoints") return std::make_unique<ExpertWaypoints>();
  return nullptr;
}

}  // namespace slip::drive
