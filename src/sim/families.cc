// SPDX-License-Identifier: Apache-2.0
// The families: what happens in a scene. Distances follow from the speed, so that the expert's reaction begins 0.4 to 1.5 s
// after t0, whereas the history shows a steady drive. Each class occurs with and without consequence; the latter mostly in
// surroundings.cc. Families behind kTrainingFamilies are held out: pairs that training never shows together.
#include <algorithm>
#include <cmath>

#include "sim/builder.h"
#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr double kNow = 0.4, kLate = 1.5;  // when the reaction may begin, seconds after t0

/// The reaction may already be under way at t0 (one scene in eight): then braking began up to a second ago.
double onset(Builder& b) {
  if (b.sc.v0 > 4 && b.chance(0.12)) {
    b.sc.a0 = -1.9;
    b.sc.brake_began_s = -b.u(0.3, 1.0);
    return 0.0;
  }
  return b.u(kNow, kLate);
}

AgentType special(Builder& b) {
  const double r = b.g.uniform();
  return r < 0.4 ? AgentType::kSchoolBus : r < 0.75 ? AgentType::kGarbageTruck : AgentType::kTractor;
}
AgentType emergency(Builder& b) {
  const double r = b.g.uniform();
  return r < 0.4 ? AgentType::kAmbulance : r < 0.7 ? AgentType::kFireTruck : AgentType::kPolice;
}
/// A leader: mostly a car or a truck, at times one of the classes that have their own name.
Actor& leader(Builder& b, const LaneMotion& m) {
  const double r = b.g.uniform();
  if (r < 0.18) return b.along(special(b), m, Class::kSpecial);
  if (r < 0.28) {
    Actor& a = b.along(emergency(b), m, Class::kEmergency);
    a.agent.looks.beacons = true;
    return a;
  }
  return b.along(b.any_vehicle(), m, Class::kNearby);
}
void lanes(Builder& b, double p_left, double p_right = 0.0) {
  b.sc.road.left_lanes = b.chance(p_left) ? 1 : 0;
  b.sc.road.right_lanes = b.chance(p_right) ? 1 : 0;
  b.sc.road.dashed_centre = false;
}
/// At most what the weather allows, so that a reaction to weather is the weather family's alone.
void speed(Builder& b, double low, double high) {
  high = std::min(high, weather_speed(b.sc.env) - 0.5);
  b.sc.v0 = b.sc.v_set = b.u(std::min(low, high - 1), high);
}

void free_flow(Builder& b) {
  lanes(b, 0.5, 0.2);
  if (b.chance(0.45)) {  // so slow on an open road: it will speed up
    b.sc.v0 = b.u(2.0, 4.5);
    b.sc.v_set = b.u(11, 13);
    b.sc.react_s = b.u(0.4, 0.8);
  } else {
    speed(b, 6, 20);
  }
  b.straight_road();
}
void curve(Builder& b) {
  lanes(b, 0.3);
  const double sign = b.chance(0.5) ? 1 : -1;
  const double radius = b.u(25, 90);
  if (b.chance(0.3)) {
    speed(b, 6, std::min(14.0, std::sqrt(2.3 * radius)));
    b.curved_all_along(sign / radius);
  } else {
    speed(b, 8, 17);
    const double lead = b.u(0.6, 1.6) * b.sc.v0;
    b.bent_road(lead, sign / radius, radius * b.u(0.7, 1.5));
  }
}
void lead_cruise(Builder& b) {
  lanes(b, 0.4, 0.2);
  speed(b, 6, 18);
  const double lead = b.u(5, 30), bend = b.u(-0.008, 0.008);
  if (b.chance(0.3))
    b.bent_road(lead, bend, 60);
  else
    b.straight_road();
  leader(b, {.s = kEgoFront + 6 + b.sc.v0 * b.u(1.25, 1.9), .v = b.sc.v0});
}
void lead_brake(Builder& b) {
  lanes(b, 0.25);
  b.sc.road.left_lanes = 0;
  speed(b, 7, 16);
  b.straight_road();
  const double end = b.chance(0.6) ? 0.0 : b.sc.v0 * b.u(0.3, 0.6);
  Actor& a = leader(b, {.s = kEgoFront + 6 + b.sc.v0 * b.u(1.2, 1.7),
                        .v = b.sc.v0,
                        .t_change = b.u(0.0, 0.7),
                        .accel = -b.u(2.4, 3.6),
                        .v_end = end});
  a.agent.looks.brake = true;
}
void lead_stopped(Builder& b) {
  lanes(b, 0.0);
  b.straight_road();
  speed(b, 5, 10.5);
  const double s = b.brake_distance(onset(b)) + 2.0;
  Actor& a = leader(b, {.s = 0, .v = 0});
  const Pose p = b.sc.ref.at(s + a.agent.length / 2, 0);
  stand(a, p);
  a.agent.looks.brake = a.agent.looks.hazard = true;
  if (b.chance(0.5)) b.parked(AgentType::kCar, s + a.agent.length + 5, 0, 0, Class::kNearby).agent.looks.brake = true;
}
void crossing_pedestrian(Builder& b, const Path& path, double s) {
  const int dir = b.chance(0.65) ? 1 : -1;
  const double start = dir > 0 ? -b.u(1.6, 2.8) : b.u(2.2, 4.4);
  const double v = b.u(0.8, 1.3), since = b.u(0.0, 0.5);
  b.across(path, AgentType::kPedestrian, s, start, dir, v, -since, 14, Class::kPedestrian);
  if (b.chance(0.3))
    b.across(path, AgentType::kPedestrian, s + 0.9, start - dir * 0.5, dir, b.u(0.8, 1.2), 0, 14, Class::kPedestrian);
}
void red_light(Builder& b) {
  lanes(b, 0.4, 0.2);
  speed(b, 5, 10);
  const double s_stop = b.brake_distance(onset(b)) + 1.0;
  b.junction(s_stop + kLane + 4.5, b.chance(0.85), true, 0);
  b.light(b.chance(0.85) ? StopKind::kRed : StopKind::kYellow);
  if (b.chance(0.4)) crossing_pedestrian(b, b.sc.ref, b.sc.crosswalks.front());
}
void light_start(Builder& b) {
  lanes(b, 0.4, 0.2);
  b.sc.v0 = 0;
  b.sc.v_set = b.u(9, 13);
  b.sc.react_s = b.u(0.2, 0.6);
  const double gap = b.u(1.0, 2.0);
  b.junction(kEgoFront + gap + kLane + 4.5, b.chance(0.85), true, 0);
  b.light(b.chance(0.65) ? StopKind::kGreen : StopKind::kRed);
  if (b.sc.stop == StopKind::kGreen && b.chance(0.25)) crossing_pedestrian(b, b.sc.ref, b.sc.crosswalks.front());
}
void green_light(Builder& b) {
  lanes(b, 0.4, 0.2);
  speed(b, 6, 13);
  const double s = b.u(25, 40);
  b.junction(s, b.chance(0.85), true, 0);
  b.light(StopKind::kGreen);
}
void stop_sign(Builder& b) {
  lanes(b, 0.0);
  speed(b, 4.8, 9);
  const double s_stop = b.brake_distance(onset(b)) + 1.0;
  b.junction(s_stop + kLane + 2.5, b.chance(0.7), true, 0);
  b.stop_sign();
}
void pedestrian_crosswalk(Builder& b) {
  lanes(b, 0.3);
  speed(b, 4.8, 8);
  b.straight_road();
  const double s = b.brake_distance(onset(b)) + 2.6;
  b.sc.crosswalks.push_back(s);
  const Pose p = b.sc.ref.at(s - 2, b.sc.road.right_edge() - 0.8);
  b.sc.signs.push_back({SignKind::kPedestrianCrossing, {p.x, p.y, wrap_angle(p.yaw + kPi)}, 2.2, 0});
  crossing_pedestrian(b, b.sc.ref, s);
}
void pedestrian_midblock(Builder& b) {
  lanes(b, 0.0);
  speed(b, 4.8, 8);
  b.straight_road();
  crossing_pedestrian(b, b.sc.ref, b.brake_distance(onset(b)) + 2.6);
}
void cyclist_ahead(Builder& b) {
  lanes(b, 0.2);
  speed(b, 6, 10.5);
  b.straight_road();
  const double v = b.u(2.5, 4.0);
  const double t = b.u(kNow, kLate);
  if (b.chance(0.75)) {
    const double gap = (b.sc.v0 * b.sc.v0 * 0.58) / 3.0 + 2 + t * (b.sc.v0 - v);
    b.along(AgentType::kCyclist, {.s = kEgoFront + gap * 0.8 + 1, .d = -b.u(1.2, 1.5), .v = v}, Class::kCyclist);
  } else {
    const double d = -b.u(2.5, 4.0), across = b.u(1.4, 2.0);
    b.across(b.sc.ref, AgentType::kCyclist, b.brake_distance(t) + 3, d, 1, across, 0.0, 16, Class::kCyclist);
  }
}
void construction(Builder& b) {
  lanes(b, 0.55);
  speed(b, 5.5, 9.5);
  b.straight_road();
  const bool full = b.chance(0.6);
  const double s = kEgoFront + b.sc.v0 * b.u(1.3, 2.1) + 5;
  const double inner = full ? 0.6 : -1.15;
  const int n = 5 + static_cast<int>(b.g.below(4));
  for (int i = 0; i < n; ++i) {
    const double f = std::min(1.0, i / 3.0);
    b.parked(AgentType::kCone, s + 2.6 * i, -1.8 + (inner + 1.8) * f, 0, Class::kConstruction);
  }
  const double barrier_d = full ? -0.5 : -2.6;
  b.parked(AgentType::kBarrier, s + 10, barrier_d, 0, Class::kConstruction);
  if (b.chance(0.6)) b.parked(AgentType::kWorker, s + 13, barrier_d - 0.3, kPi / 2, Class::kConstruction);
  if (b.chance(0.4)) b.parked(AgentType::kTruck, s + 20, -1.9, 0, Class::kConstruction).agent.looks.colour = {250, 150, 20};
  const Pose p = b.sc.ref.at(s - 7, b.sc.road.right_edge() - 0.8);
  b.sc.signs.push_back({SignKind::kRoadWork, {p.x, p.y, wrap_angle(p.yaw + kPi)}, 2.0, 0});
}
void debris(Builder& b) {
  lanes(b, 0.3);
  speed(b, 4.8, 8);
  b.straight_road();
  const bool centre = b.chance(0.5);
  const double s = centre ? b.brake_distance(b.u(kNow, kLate)) + 3 : kEgoFront + b.sc.v0 * b.u(1.4, 2.2) + 4;
  const double d = centre ? b.u(-0.3, 0.3) : b.u(-1.25, -0.95);
  Actor& a = b.parked(AgentType::kDebris, s, d, b.u(-0.5, 0.5), Class::kHazard);
  if (b.chance(0.4)) b.parked(AgentType::kDebris, s + b.u(1, 2), a.track[0].y + b.sc.d0 - 0.4, 0.3, Class::kHazard);
}
void emergency_vehicle(Builder& b) {
  lanes(b, 0.35);
  speed(b, 6, 12);
  if (b.chance(0.35)) {
    const double s = b.brake_distance(b.u(kNow, 1.3)) + 5;
    b.junction(s, true, true, 0);
    const bool from_left = b.chance(0.5);
    const double v = b.u(5.0, 7.0);
    const double lane_x = from_left ? -kLane / 2 : kLane / 2;
    const double d = from_left ? b.u(12, 17) : -b.u(11, 15);
    Actor& a = b.across(b.sc.ref, emergency(b), s + lane_x, d, from_left ? -1 : 1, v, 0, 80, Class::kEmergency);
    a.agent.looks.beacons = true;
    return;
  }
  b.straight_road();
  const double s = b.brake_distance(b.u(kNow, kLate)) + 5;
  const double d = b.chance(0.5) ? b.u(-0.3, 0.3) : -b.u(1.6, 1.9);
  Actor& a = b.parked(emergency(b), s, d, 0, Class::kEmergency);
  a.agent.looks.beacons = true;
}
void animal(Builder& b) {
  lanes(b, 0.1);
  speed(b, 4.8, 8);
  b.straight_road();
  const double s = b.brake_distance(onset(b)) + 2.8;
  if (b.chance(0.35)) {
    b.parked(AgentType::kAnimal, s, b.u(-0.4, 0.4), kPi / 2, Class::kAnimal);
    return;
  }
  const int dir = b.chance(0.5) ? 1 : -1;
  const double d = -dir * b.u(1.5, 3.0), v = b.u(0.7, 1.4);
  b.across(b.sc.ref, AgentType::kAnimal, s, d, dir, v, 0, 14, Class::kAnimal);
}
void special_vehicle(Builder& b) {
  lanes(b, 0.3);
  speed(b, 6, 12);
  b.straight_road();
  const double s = b.brake_distance(onset(b)) + 6;
  const AgentType type = special(b);
  Actor& a = b.parked(type, s, type == AgentType::kGarbageTruck ? -b.u(0.6, 1.4) : b.u(-0.2, 0.2), 0, Class::kSpecial);
  a.agent.looks.hazard = true;
  a.agent.looks.stop_arm = type == AgentType::kSchoolBus;
  b.sc.road.dashed_centre = type == AgentType::kGarbageTruck && b.chance(0.5);
}
void door_opening(Builder& b) {
  lanes(b, 0.2);
  b.sc.road.parking_right = true;
  speed(b, 5.5, 9.5);
  b.straight_road();
  const double t = b.u(kNow, kLate);
  const double s = kEgoFront + 4.5 + b.sc.v0 * t + b.sc.v0 * b.sc.v0 * 0.64 / 3.0;
  Actor& a = b.parked(AgentType::kCar, s, -b.u(2.85, 2.95), 0, Class::kDoor);
  a.agent.looks.door_open = true;
  a.door_m = 0.9;
}
void cut_in(Builder& b) {
  lanes(b, 1.0);
  speed(b, 8, 16);
  b.straight_road();
  const double v = b.sc.v0 * b.u(0.6, 0.8);
  const AgentType type = b.any_vehicle();
  Actor& a = b.along(type,
                     {.s = kEgoFront + 5 + b.sc.v0 * b.u(0.5, 0.9) + 3,
                      .d = b.u(2.9, 3.3),
                      .v = v,
                      .t_side = b.u(0.0, 0.5),
                      .side_duration = 2.4,
                      .d_end = 0},
                     Class::kConflicting);
  a.agent.looks.indicator_right = true;
}
void oncoming_left_turn(Builder& b) {
  lanes(b, 0.0);
  speed(b, 6, 11);
  const double s = b.brake_distance(b.u(kNow, 1.4)) + 6.5;
  b.junction(s, true, true, 0);
  // Seen from the ego: coming along d = 3.5, then bending across our lane into the arm on our right.
  const Piece bend[] = {{3, 0, 0}, {3, 0, 0.12}, {7, 0.12, 0.12}, {5, 0.12, 0}, {60, 0, 0}};
  const double forward = Path({0, 0, 0}, bend, 0, 0).at(18).x;  // bend's reach along the road
  const Pose begin = b.sc.ref.at(s - kLane / 2 + forward, kLane);
  const Path way({begin.x, begin.y, kPi}, bend, 10, 0);
  const AgentType type = b.chance(0.8) ? AgentType::kCar : AgentType::kTruck;
  Actor& a = b.on_path(type, way, {.s = b.u(1.0, 4.0), .v = b.u(1.6, 2.6), .t_change = 2.5, .accel = 0.5, .v_end = 5},
                       Class::kConflicting);
  a.agent.looks.indicator_left = true;
}
void cross_traffic(Builder& b) {
  lanes(b, 0.0);
  speed(b, 6, 11);
  const double s = b.brake_distance(b.u(kNow, 1.3)) + 5;
  b.junction(s, true, true, 0);
  const bool from_left = b.chance(0.5);
  const AgentType type = b.any_vehicle();
  const double d = from_left ? b.u(8, 13) : -b.u(7, 11), v = b.u(3.0, 4.5);
  b.across(b.sc.ref, type, s + (from_left ? -1 : 1) * kLane / 2, d, from_left ? -1 : 1, v, 0, 80, Class::kConflicting);
}
void weather(Builder& b) {
  lanes(b, 0.4, 0.2);
  const double limit = weather_speed(b.sc.env);
  b.sc.v0 = b.sc.v_set = b.u(limit + 2.5, limit + 7);
  b.sc.react_s = b.u(0.5, 1.2);
  b.straight_road();
}
void turn(Builder& b, int side) {
  lanes(b, 0.0);
  b.sc.intent = side > 0 ? Intent::kGoLeft : Intent::kGoRight;
  speed(b, 5, 10);
  const double radius = side > 0 ? 11 : 7, v_turn = std::sqrt(2.5 * radius);
  const double slow = std::max(0.0, (b.sc.v0 * b.sc.v0 - v_turn * v_turn) / 3.0);
  const double to_bend = b.sc.v0 * b.u(0.5, 1.6) + slow;
  const bool other_arm = b.chance(0.5);
  b.junction(to_bend + 11.5, side > 0 || other_arm, side < 0 || other_arm, side);
  if (b.chance(0.35)) b.light(StopKind::kGreen);
  const double s_exit = to_bend + radius * kPi / 2 + 6.5;
  if (b.chance(0.4)) {
    b.sc.exit_crosswalk = s_exit;
    if (b.chance(0.6)) crossing_pedestrian(b, b.sc.route, s_exit);
  }
  if (b.chance(0.15))
    b.on_path(b.chance(0.5) ? AgentType::kCar : special(b), b.sc.route, {.s = s_exit + 6, .v = 1.5}, Class::kNearby);
  for (Actor& a : b.sc.actors)
    if (a.agent.type == AgentType::kSchoolBus || a.agent.type == AgentType::kGarbageTruck || a.agent.type == AgentType::kTractor)
      a.cls = Class::kSpecial;
}
void lane_change(Builder& b) {
  const bool left = b.chance(0.5);
  b.sc.road.left_lanes = left ? 1 : 0;
  b.sc.road.right_lanes = left ? 0 : 1;
  b.sc.intent = left ? Intent::kGoLeft : Intent::kGoRight;
  speed(b, 7, 16);
  b.straight_road();
  b.sc.shift = left ? kLane : -kLane;
  b.sc.shift_s = b.u(0.5, 1.0);
}
void overtake(Builder& b) {
  lanes(b, 0.5);
  if (b.sc.road.left_lanes == 0) b.sc.road.dashed_centre = true;
  speed(b, 8, 13);
  b.straight_road();
  const LaneMotion m{.s = kEgoFront + 5 + b.sc.v0 * b.u(2.5, 3.3), .v = b.u(1.0, 3.0)};
  if (b.chance(0.6))
    b.along(b.chance(0.6) ? AgentType::kTractor : AgentType::kGarbageTruck, m, Class::kSpecial).agent.looks.hazard = true;
  else
    b.along(AgentType::kTruck, m, Class::kNearby);
}

struct Family {
  std::string_view name;
  void (*draw)(Builder&);
  int weight;
};
constexpr Family kFamilies[] = {{"free_flow", free_flow, 9},
                                {"curve", curve, 6},
                                {"lead_cruise", lead_cruise, 11},
                                {"lead_brake", lead_brake, 6},
                                {"lead_stopped", lead_stopped, 6},
                                {"red_light", red_light, 7},
                                {"light_start", light_start, 4},
                                {"green_light", green_light, 5},
                                {"stop_sign", stop_sign, 5},
                                {"pedestrian_crosswalk", pedestrian_crosswalk, 7},
                                {"pedestrian_midblock", pedestrian_midblock, 6},
                                {"cyclist_ahead", cyclist_ahead, 11},
                                {"construction_taper", construction, 10},
                                {"debris", debris, 11},
                                {"emergency_vehicle", emergency_vehicle, 11},
                                {"animal_crossing", animal, 12},
                                {"special_vehicle", special_vehicle, 10},
                                {"door_opening", door_opening, 11},
                                {"cut_in", cut_in, 5},
                                {"oncoming_left_turn", oncoming_left_turn, 5},
                                {"cross_traffic", cross_traffic, 5},
                                {"adverse_weather", weather, 4},
                                {"turn_left", [](Builder& b) { turn(b, 1); }, 6},
                                {"turn_right", [](Builder& b) { turn(b, -1); }, 6},
                                {"lane_change", lane_change, 3},
                                {"overtake", overtake, 4},
                                {"night_debris", debris, 0},
                                {"rain_cut_in", cut_in, 0}};
constexpr size_t kTrainingFamilies = 26;
constexpr auto kFamilyNames = [] {
  std::array<std::string_view, std::size(kFamilies)> names{};
  for (size_t i = 0; i < names.size(); ++i) names[i] = kFamilies[i].name;
  return names;
}();

}  // namespace

size_t training_families() { return kTrainingFamilies; }
std::span<const std::string_view> family_names() { return kFamilyNames; }

uint32_t family_of_seed(uint64_t seed) {
  uint32_t total = 0;
  for (const Family& f : kFamilies) total += static_cast<uint32_t>(f.weight);
  uint32_t r = PhiloxStream(seed, 0xFA).below(total);
  for (uint32_t i = 0;; ++i) {
    const auto w = static_cast<uint32_t>(kFamilies[i].weight);
    if (r < w) return i;
    r -= w;
  }
}

void draw_family(Builder& b) { kFamilies[b.sc.family].draw(b); }

}  // namespace slip::sim
