// SPDX-License-Identifier: Apache-2.0
// Roads, junctions and motions. Every actor's motion is written out as a track at 10 Hz when it is added.
#include "sim/builder.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr double kBack = 100;

double ramp(double t) {  // smooth step
  const double c = std::clamp(t, 0.0, 1.0);
  return c * c * (3 - 2 * c);
}
double speed_at(const LaneMotion& m, double t) {
  if (t < m.t_change) return m.v;
  const double v = m.v + m.accel * (t - m.t_change);
  return m.accel < 0 ? std::max(v, m.v_end) : std::min(v, m.v_end);
}

// Length, width and height in metres; a colour where a kind has one.
struct Shape {
  AgentType type;
  double length, width, height;
  Rgb colour{};
};
constexpr Shape kShapes[] = {
    {AgentType::kCar, 4.5, 1.85, 1.5},
    {AgentType::kTruck, 8.0, 2.4, 3.2},
    {AgentType::kBus, 11.0, 2.5, 3.1},
    {AgentType::kSchoolBus, 9.5, 2.4, 3.0, {245, 180, 20}},
    {AgentType::kGarbageTruck, 8.0, 2.4, 3.2, {60, 140, 70}},
    {AgentType::kMotorcycle, 2.1, 0.8, 1.5},
    {AgentType::kCyclist, 1.8, 0.65, 1.75},
    {AgentType::kPedestrian, 0.5, 0.6, 1.75},
    {AgentType::kWorker, 0.5, 0.6, 1.8, {255, 120, 0}},
    {AgentType::kAnimal, 2.0, 0.7, 1.6, {130, 90, 50}},
    {AgentType::kAmbulance, 6.0, 2.1, 2.6, {240, 240, 240}},
    {AgentType::kFireTruck, 8.0, 2.4, 3.1, {200, 20, 20}},
    {AgentType::kPolice, 4.7, 1.9, 1.6, {30, 40, 90}},
    {AgentType::kCone, 0.5, 0.5, 1.0, {255, 110, 0}},
    {AgentType::kBarrier, 0.5, 2.0, 1.1, {240, 90, 20}},
    {AgentType::kDebris, 1.4, 1.7, 1.0, {110, 80, 50}},
    {AgentType::kTractor, 4.2, 2.2, 2.7, {40, 130, 40}},
};

}  // namespace

bool is_person(AgentType t) { return t == AgentType::kPedestrian || t == AgentType::kWorker; }

Agent shape_of(AgentType type, PhiloxStream& g) {
  const Shape& shape = *std::find_if(std::begin(kShapes), std::end(kShapes), [&](const Shape& s) { return s.type == type; });
  const double f = g.uniform(0.94, 1.06);
  Agent a;
  a.type = type;
  a.length = shape.length * f;
  a.width = shape.width * f;
  a.height = shape.height * f;
  a.looks.colour = shape.colour;
  return a;
}

Builder::Builder(Scene& scene, uint64_t stream)
    : g(scene.seed, stream << 32 | uint64_t{scene.family} << 8 | scene.attempt), sc(scene) {}

Rgb Builder::car_colour() {
  static constexpr Rgb kColours[] = {{200, 200, 205}, {40, 40, 45},    {120, 120, 125}, {160, 30, 30},
                                     {30, 60, 130},   {235, 235, 235}, {90, 70, 50}};
  return kColours[g.below(7)];
}
AgentType Builder::any_vehicle() {
  const double r = g.uniform();
  return r < 0.72 ? AgentType::kCar : r < 0.88 ? AgentType::kTruck : AgentType::kBus;
}

Actor& Builder::add(AgentType type, Class cls) {
  Actor& a = sc.actors.emplace_back();
  a.agent = shape_of(type, g);
  a.agent.id = static_cast<uint32_t>(sc.actors.size());
  a.later.resize(static_cast<size_t>(sc.later_steps));
  a.cls = cls;
  if (type == AgentType::kCar || type == AgentType::kTruck || type == AgentType::kBus || type == AgentType::kMotorcycle)
    a.agent.looks.colour = car_colour();
  if (type == AgentType::kPedestrian || type == AgentType::kCyclist) {
    static constexpr Rgb kClothes[] = {{180, 40, 40}, {40, 80, 170}, {220, 200, 60}, {60, 140, 80}, {50, 45, 60}, {230, 230, 230}};
    a.agent.looks.colour = kClothes[g.below(6)];
  }
  return a;
}

void Builder::bent_road(double lead_m, double k, double arc_m) {
  const Piece pieces[] = {{std::max(lead_m, 1.0), 0, 0}, {12, 0, k}, {std::max(arc_m, 1.0), k, k}, {12, k, 0}, {160, 0, 0}};
  sc.ref = Path({0, -sc.d0, 0}, pieces, kBack, 0);
  sc.route = sc.ref;
}
void Builder::curved_all_along(double k) {
  const Piece pieces[] = {{90, k, k}, {15, k, 0}, {120, 0, 0}};
  sc.ref = Path({0, -sc.d0, 0}, pieces, 60, k);
  sc.route = sc.ref;
}

void Builder::junction(double s, bool left, bool right, int turn) {
  straight_road();
  sc.junction = {true, left, right, s, kLane};
  if (turn == 0) return;
  const double radius = turn > 0 ? 11.0 : 7.0;
  const double k = turn / radius, ease = 4.0;
  const double arc = radius * kPi / 2 - ease;
  const Piece bend[] = {{ease, 0, k}, {arc, k, k}, {ease, k, 0}};
  const Path probe({0, 0, 0}, bend, 0, 0);
  // The target lane of the crossing road runs 1.75 m before (right turn) or behind (left turn) the junction's centre.
  const double target = s + (turn > 0 ? 0.5 : -0.5) * kLane;
  const double start = std::max(1.0, target - probe.at(probe.end()).x);
  const Piece pieces[] = {{start, 0, 0}, bend[0], bend[1], bend[2], {110, 0, 0}};
  sc.route = Path({0, -sc.d0, 0}, pieces, kBack, 0);
}

void Builder::light(StopKind state) {
  const double s = sc.junction.s;
  sc.stop = state;
  sc.stop_s = s - sc.junction.half_width - 4.5;
  sc.crosswalks.push_back(s - sc.junction.half_width - 2.0);
  const LightState lamp = state == StopKind::kRed      ? LightState::kRed
                          : state == StopKind::kYellow ? LightState::kYellow
                                                       : LightState::kGreen;
  const auto put = [&](double at_s, double d, double height) {
    const Pose p = sc.ref.at(at_s, d);
    sc.lights.push_back({{p.x, p.y, wrap_angle(p.yaw + kPi)}, height, lamp});
  };
  put(sc.stop_s + 0.5, sc.road.right_edge() - 0.7, 3.2);  // near side, on both kerbs
  put(sc.stop_s + 0.5, sc.road.left_edge() + 0.7, 3.2);
  put(s + sc.junction.half_width + 2.5, 0.0, 4.8);  // far side, over the lane
}
void Builder::stop_sign() {
  sc.stop = StopKind::kSign;
  sc.stop_s = sc.junction.s - sc.junction.half_width - 2.5;
  const Pose p = sc.ref.at(sc.stop_s + 0.3, sc.road.right_edge() - 0.8);
  sc.signs.push_back({SignKind::kStop, {p.x, p.y, wrap_angle(p.yaw + kPi)}, 2.2, 0});
}

void stand(Actor& a, const Pose& p) {
  for (int k = 0; k < kTrackSteps + static_cast<int>(a.later.size()); ++k) a.point(k) = {p.x, p.y, p.yaw, 0, 0, 0, 0, 0};
  a.agent.pose = p;
}

Actor& Builder::parked(AgentType type, double s, double d, double yaw, Class cls) {
  Actor& a = add(type, cls);
  const Pose p = sc.ref.at(s, d);
  stand(a, {p.x, p.y, p.yaw + yaw});
  return a;
}

Actor& Builder::on_path(AgentType type, const Path& path, const LaneMotion& m, Class cls) {
  Actor& a = add(type, cls);
  double s = m.s;
  double yaw_before = 0;
  for (int k = 0; k < kTrackSteps + sc.later_steps; ++k) {
    const double t = k * kDt;
    const double d = m.d + (m.d_end - m.d) * (m.t_side > 90 ? 0.0 : ramp((t - m.t_side) / m.side_duration));
    const double d_next = m.d + (m.d_end - m.d) * (m.t_side > 90 ? 0.0 : ramp((t + kDt - m.t_side) / m.side_duration));
    const double v = speed_at(m, t);
    const Pose p = path.at(s, d);
    const double drift = v > 0.5 ? det_atan2((d_next - d) / kDt, v * m.direction) : yaw_before;
    yaw_before = drift;
    const double yaw = v > 0.5 || m.t_side < 90 ? p.yaw + drift : p.yaw + (m.direction > 0 ? 0.0 : kPi);
    a.point(k) = {p.x, p.y, yaw, v, 0, 0, 0, 0};
    s += m.direction * kDt * 0.5 * (v + speed_at(m, t + kDt));
  }
  const TrackPoint& t0 = a.track[0];
  a.agent.pose = {t0.x, t0.y, t0.yaw};
  a.agent.speed_mps = t0.v;
  return a;
}
Actor& Builder::along(AgentType type, const LaneMotion& m, Class cls) { return on_path(type, sc.ref, m, cls); }

Actor& Builder::across(const Path& path, AgentType type, double s, double d, int dir, double v, double t_start, double distance_m,
                       Class cls) {
  Actor& a = add(type, cls);
  for (int k = 0; k < kTrackSteps + sc.later_steps; ++k) {
    const double gone = std::clamp(v * (k * kDt - t_start), 0.0, distance_m);
    const Pose p = path.at(s, d + dir * gone);
    const bool moving = k * kDt >= t_start && gone < distance_m;
    a.point(k) = {p.x, p.y, p.yaw + dir * kPi / 2, moving ? v : 0.0, 0, 0, 0, 0};
  }
  const TrackPoint& t0 = a.track[0];
  a.agent.pose = {t0.x, t0.y, t0.yaw};
  a.agent.speed_mps = t0.v;
  return a;
}

double Builder::brake_distance(double t_on, double decel) const { return kEgoFront + sc.v0 * t_on + sc.v0 * sc.v0 / (2 * decel); }

void finish_tracks(Scene& sc) {
  for (Actor& a : sc.actors) {
    const bool still = a.track[0].v == 0 && a.track[20].x == a.track[0].x && a.track[20].y == a.track[0].y &&
                       a.track[60].x == a.track[0].x && a.track[60].y == a.track[0].y && a.track[94].x == a.track[0].x;
    for (int k = 0; k < kTrackSteps + static_cast<int>(a.later.size()); ++k) {
      TrackPoint& p = a.point(k);
      if (k > 0 && still) {
        const double x = p.x, y = p.y;
        p = a.track[0];
        p.x = x, p.y = y;
        continue;
      }
      Frenet f = k == 0 ? sc.route.project({p.x, p.y}) : sc.route.project_near({p.x, p.y}, a.point(k - 1).s);
      if (k > 0 && std::abs(f.d) > 12) f = sc.route.project({p.x, p.y});
      const double rel = p.yaw - sc.route.at(f.s).yaw;
      const double c = std::abs(det_cos(rel)), n = std::abs(det_sin(rel));
      p.s = f.s;
      p.d = f.d;
      p.half_s = 0.5 * (a.agent.length * c + a.agent.width * n);
      p.half_d = 0.5 * (a.agent.length * n + a.agent.width * c);
    }
  }
}

}  // namespace slip::sim
