// SPDX-License-Identifier: Apache-2.0
// Scenes put together, and moments taken from them: the ground as convex polygons, actors at a time.
#include <algorithm>
#include <cmath>

#include "sim/builder.h"
#include "sim/math.h"
#include "sim/world.h"

namespace slip::sim {
namespace {

constexpr double kParkingWidth = 2.4, kShoulder = 0.5, kBikeWidth = 1.6, kPavement = 3.0;
constexpr double kSeen = 92;  // how far ahead ground is laid out

using Corners = std::vector<Vec2>;

class GroundMaker {
 public:
  GroundMaker(const Scene& sc, const Pose& ego, std::vector<GroundPatch>& out)
      : sc_(sc), ahead_(ego.x == 0 && ego.y == 0 ? 0.0 : std::max(0.0, sc.ref.project({ego.x, ego.y}).s)), out_(out) {
    if (!sc.junction.present || ahead_ == 0) return;
    const double aside = std::abs(sc.ref.project({ego.x, ego.y}).d);  // an ego that has turned sees farther along the arm
    if (aside > 20) arm_ = aside + kSeen;
  }

  void make() {
    const double left = sc_.road.left_edge(), right = sc_.road.right_edge();
    if (sc_.road.sidewalk) {
      strip(sc_.ref, Ground::kSidewalk, left, left + kPavement);
      strip(sc_.ref, Ground::kSidewalk, right - kPavement, right);
    }
    if (sc_.junction.present) arms(Ground::kSidewalk, kPavement);
    strip(sc_.ref, Ground::kAsphalt, right, left);
    if (sc_.road.parking_right) strip(sc_.ref, Ground::kParking, right, right + kParkingWidth);
    if (sc_.road.parking_left) strip(sc_.ref, Ground::kParking, left - kParkingWidth, left);
    if (sc_.junction.present) arms(Ground::kAsphalt, 0), corners();
    lines();
    for (const double s : sc_.crosswalks) crosswalk(sc_.ref, s, right, left);
    if (sc_.exit_crosswalk) crosswalk(sc_.route, *sc_.exit_crosswalk, -kLane / 2, 1.5 * kLane);
    if (sc_.stop != StopKind::kNone)
      box(sc_.ref, Ground::kStopLine, sc_.stop_s, sc_.stop_s + 0.45, -kLane / 2 - kLane * sc_.road.right_lanes, sc_.road.centre());
    for (const GroundPatch& p : sc_.extra_ground) out_.push_back(p);
  }

 private:
  void put(Ground kind, Corners c) { out_.push_back({kind, std::move(c)}); }
  void box(const Path& path, Ground kind, double s0, double s1, double d0, double d1) {
    const Pose a = path.at(s0, d0), b = path.at(s1, d0), c = path.at(s1, d1), d = path.at(s0, d1);
    put(kind, {{a.x, a.y}, {b.x, b.y}, {c.x, c.y}, {d.x, d.y}});
  }
  bool bent(double s0, double s1) const {
    for (double s = s0; s <= s1; s += 2)
      if (std::abs(sc_.ref.curvature(s)) > 1e-4) return true;
    return false;
  }
  void strip(const Path& path, Ground kind, double d0, double d1) {
    double s = -6;
    while (s < kSeen + ahead_) {
      const double step = bent(s, s + 16) ? 4.0 : 16.0;
      box(path, kind, s, s + step, d0, d1);
      s += step;
    }
  }
  void arms(Ground kind, double wider) {
    const Junction& j = sc_.junction;
    const double half = j.half_width + wider, middle = 0.5 * (sc_.road.left_edge() + sc_.road.right_edge());
    if (j.left) box(sc_.ref, kind, j.s - half, j.s + half, middle, arm_);
    if (j.right) box(sc_.ref, kind, j.s - half, j.s + half, -arm_, middle);
  }
  void corners() {
    const Junction& j = sc_.junction;
    constexpr double kRound = 5.0;
    for (const bool left : {false, true}) {
      if (!(left ? j.left : j.right)) continue;
      const double d = left ? sc_.road.left_edge() : sc_.road.right_edge();
      const double out = left ? 1 : -1;
      for (const double along : {-1.0, 1.0}) {
        const double s = j.s + along * j.half_width;
        const Pose a = sc_.ref.at(s, d), b = sc_.ref.at(s + along * kRound, d), c = sc_.ref.at(s, d + out * kRound);
        Corners t{{a.x, a.y}, {b.x, b.y}, {c.x, c.y}};
        if (along * out < 0) std::swap(t[1], t[2]);
        put(Ground::kAsphalt, t);
      }
    }
  }
  bool in_junction(double s0, double s1) const {
    const Junction& j = sc_.junction;
    return j.present && s1 > j.s - j.half_width - 3 && s0 < j.s + j.half_width + 3;
  }
  void line(Ground kind, double d, bool dashed) {
    const double on = 3, period = dashed ? 8 : 4;
    for (double s = -6; s < 75 + ahead_; s += period) {
      const double length = dashed ? on : period;
      if (!in_junction(s, s + length)) box(sc_.ref, kind, s, s + length, d - 0.09, d + 0.09);
    }
  }
  void lines() {
    const Road& r = sc_.road;
    for (int i = 0; i < r.left_lanes; ++i) line(Ground::kLaneLineWhite, kLane * (i + 0.5), true);
    for (int i = 0; i < r.right_lanes; ++i) line(Ground::kLaneLineWhite, -kLane * (i + 0.5), true);
    line(Ground::kLaneLineYellow, r.centre(), r.dashed_centre);
    line(Ground::kLaneLineWhite, -kLane * (r.right_lanes + 0.5), false);
    line(Ground::kLaneLineWhite, r.centre() + kLane * r.opposite_lanes, false);
  }
  void crosswalk(const Path& path, double s, double d0, double d1) {
    for (double d = d0 + 0.3; d + 0.5 < d1; d += 1.0) box(path, Ground::kCrosswalk, s - 1.5, s + 1.5, d, d + 0.5);
  }

  const Scene& sc_;
  double ahead_;     // how far the ego has come
  double arm_ = 70;  // how far a junction's arms reach
  std::vector<GroundPatch>& out_;
};

}  // namespace

double Road::left_edge() const { return centre() + kLane * opposite_lanes + kShoulder + (parking_left ? kParkingWidth : 0); }
double Road::right_edge() const {
  return -kLane * (right_lanes + 0.5) - (bike_lane ? kBikeWidth : 0) - (parking_right ? kParkingWidth - 0.0 : kShoulder);
}

double weather_speed(const Environment& env) {
  switch (env.weather) {
    case Weather::kRain:
      return 13.0;
    case Weather::kFog:
      return 9.0;
    case Weather::kSnow:
      return 8.0;
    default:
      return 30.0;
  }
}
bool adverse(const Environment& env) { return env.weather != Weather::kClear; }

Scene draw_scene(uint64_t seed, uint32_t family, uint32_t attempt, int later_steps) {
  Scene sc;
  sc.later_steps = later_steps;
  sc.seed = seed;
  sc.family = family;
  sc.attempt = attempt;
  sc.actors.reserve(40);
  draw_environment(sc);
  Builder b(sc, 0x10);
  sc.d0 = b.u(-0.2, 0.2);
  sc.road.parking_right = b.chance(0.12);
  draw_family(b);
  draw_surroundings(sc);
  finish_tracks(sc);
  return sc;
}

Moment moment_of(const Scene& sc, double t_s, Pose ego, double ego_speed_mps) {
  Moment m;
  m.ego = ego;
  m.ego_speed_mps = ego_speed_mps;
  m.env = sc.env;
  GroundMaker(sc, ego, m.ground).make();
  const double u = std::clamp(t_s / kDt, 0.0, kTrackSteps - 1.0);
  const auto k = static_cast<size_t>(det_floor(u));
  const size_t n = std::min<size_t>(k + 1, kTrackSteps - 1);
  const double f = u - static_cast<double>(k);
  for (const Actor& a : sc.actors) {
    Agent& o = m.agents.emplace_back(a.agent);
    const TrackPoint &p = a.track[k], &q = a.track[n];
    o.pose = {p.x + f * (q.x - p.x), p.y + f * (q.y - p.y), p.yaw + f * wrap_angle(q.yaw - p.yaw)};
    o.speed_mps = p.v + f * (q.v - p.v);
  }
  m.lights = sc.lights;
  m.signs = sc.signs;
  m.scenery = sc.scenery;
  return m;
}

}  // namespace slip::sim
