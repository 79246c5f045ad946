// SPDX-License-Identifier: Apache-2.0
// What is there besides the story: light and weather, parked rows, oncoming cars, a second thing in or beside the way, and
// decoys: instances of every class that do not matter, clearly off the road.
#include <algorithm>
#include <cmath>

#include "sim/builder.h"
#include "sim/math.h"

namespace slip::sim {
namespace {

bool family_is(const Scene& sc, std::string_view name) { return family_names()[sc.family] == name; }

AgentType decoy_type(Class c, PhiloxStream& g) {
  switch (c) {
    case Class::kPedestrian:
      return AgentType::kPedestrian;
    case Class::kCyclist:
      return AgentType::kCyclist;
    case Class::kConstruction:
      return g.chance(0.5) ? AgentType::kCone : AgentType::kBarrier;
    case Class::kHazard:
      return AgentType::kDebris;
    case Class::kEmergency:
      return g.chance(0.6) ? AgentType::kPolice : g.chance(0.5) ? AgentType::kAmbulance : AgentType::kFireTruck;
    case Class::kAnimal:
      return AgentType::kAnimal;
    case Class::kSpecial:
      return g.chance(0.5) ? AgentType::kSchoolBus : g.chance(0.5) ? AgentType::kGarbageTruck : AgentType::kTractor;
    default:
      return AgentType::kCar;
  }
}

/// Clear of any junction's arms, which reach across the whole scene.
bool on_an_arm(const Scene& sc, double s, double margin) {
  return sc.junction.present && std::abs(s - sc.junction.s) < sc.junction.half_width + margin;
}

void decoy(Builder& b) {
  static constexpr Class kKinds[] = {Class::kPedestrian, Class::kCyclist, Class::kConstruction, Class::kHazard,
                                     Class::kEmergency,  Class::kAnimal,  Class::kSpecial,      Class::kDoor};
  const Class c = kKinds[b.g.below(8)];
  const double s = b.u(12, 32);
  if (on_an_arm(b.sc, s, 7)) return;
  if (c == Class::kDoor) {  // on the far side of the road, the door towards that side's pavement
    b.sc.road.parking_left = true;
    Actor& a = b.parked(AgentType::kCar, s, b.sc.road.left_edge() - 1.2, kPi, Class::kDoor);
    a.agent.looks.door_open = true;
    return;
  }
  const bool left = b.chance(0.6);
  const double away = c == Class::kPedestrian || c == Class::kCyclist ? b.u(2.4, 3.2) : b.u(4.5, 8.0);
  const double d = left ? b.sc.road.left_edge() + away : b.sc.road.right_edge() - away;
  const AgentType type = decoy_type(c, b.g);
  if (c == Class::kPedestrian) {
    b.along(type, {.s = s, .d = d, .v = b.u(0.8, 1.4), .direction = b.chance(0.5) ? 1 : -1}, c);
  } else if (c == Class::kCyclist) {
    b.along(type, {.s = s, .d = d, .v = b.u(2.0, 4.0), .direction = left ? -1 : 1}, c);
  } else {
    b.parked(type, s, d, c == Class::kHazard || c == Class::kAnimal ? b.u(0, 6) : kPi / 2 * b.g.below(4), c);
    if (c == Class::kConstruction)
      for (int i = 1; i < 4; ++i) b.parked(type, s + 2.5 * i, d, 0, c);
  }
}

/// A second thing that matters, nearer or beside the story: classes whose own family is small gain most.
void second_thing(Builder& b) {
  Scene& sc = b.sc;
  const double v0 = sc.v0;
  if (v0 < 5 || sc.intent != Intent::kGoStraight || family_is(sc, "curve") || family_is(sc, "cut_in")) return;
  if (family_is(sc, "adverse_weather") || family_is(sc, "free_flow") || family_is(sc, "lead_cruise") ||
      family_is(sc, "green_light"))
    return;  // stay calm
  if (family_is(sc, "overtake") || family_is(sc, "cyclist_ahead") || family_is(sc, "construction_taper")) return;
  double nearest = 60;
  for (const Actor& a : sc.actors) nearest = std::min(nearest, sc.ref.project({a.track[0].x, a.track[0].y}).s - a.agent.length / 2);
  if (sc.junction.present) nearest = std::min(nearest, sc.junction.s - 9);
  const double low = kEgoFront + 4 + v0 * 0.9, high = std::min(nearest - 6, 32.0);
  if (high < low) return;
  const double s = b.u(low, high);
  switch (b.g.below(8)) {  // doors and cyclists twice: their own families are small
    case 0:
    case 6: {
      sc.road.parking_right = true;
      Actor& a = b.parked(AgentType::kCar, s + 2, -b.u(2.85, 2.95), 0, Class::kDoor);
      a.agent.looks.door_open = true;
      a.door_m = 0.9;
      return;
    }
    case 1:
    case 7:
      b.along(AgentType::kCyclist, {.s = s, .d = -b.u(1.2, 1.5), .v = std::min(3.5, 0.45 * v0)}, Class::kCyclist);
      return;
    case 2: {
      const double d = b.u(-1.25, -0.95), yaw = b.u(-0.5, 0.5);
      b.parked(AgentType::kDebris, s, d, yaw, Class::kHazard);
      return;
    }
    case 3: {
      const double d = b.u(-0.4, 0.4), yaw = b.u(1.2, 1.9);
      b.parked(AgentType::kAnimal, s + 1, d, yaw, Class::kAnimal);
      return;
    }
    case 4:
      for (int i = 0; i < 4; ++i) b.parked(AgentType::kCone, s - 4 + 2.2 * i, -1.7 + 0.5 * std::min(i, 1), 0, Class::kConstruction);
      return;
    default: {
      const double d = -b.u(1.75, 1.95);
      Actor& a = b.parked(b.chance(0.6) ? AgentType::kPolice : AgentType::kAmbulance, s + 3, d, 0, Class::kEmergency);
      a.agent.looks.beacons = true;
      return;
    }
  }
}

void traffic_around(Builder& b) {
  Scene& sc = b.sc;
  const bool needs_gap = sc.road.dashed_centre || family_is(sc, "oncoming_left_turn") || sc.intent == Intent::kGoLeft;
  const bool crossing = family_is(sc, "cross_traffic") || family_is(sc, "emergency_vehicle");
  if (!needs_gap && !crossing && b.chance(0.5)) {
    const double d = sc.road.centre() + kLane / 2;
    double s = b.u(12, 45);
    for (int i = 0; i < 2; ++i, s += b.u(14, 40)) {
      if (on_an_arm(sc, s, 8)) continue;
      const AgentType type = b.any_vehicle();
      b.along(type,
              {.s = s, .d = d, .v = sc.stop == StopKind::kNone || sc.stop == StopKind::kGreen ? b.u(6, 13) : 0.0, .direction = -1},
              Class::kNone);
    }
  }
  const bool lane_used =
      family_is(sc, "cut_in") || family_is(sc, "lane_change") || family_is(sc, "overtake") || family_is(sc, "construction_taper");
  if (sc.road.left_lanes > 0 && !lane_used && sc.v0 > 4 && !sc.junction.present && b.chance(0.4)) {
    const AgentType type = b.any_vehicle();
    b.along(type, {.s = b.u(10, 25), .d = kLane, .v = sc.v0 * b.u(0.95, 1.1)}, Class::kNone);
  }
  if (sc.junction.present && !crossing && sc.stop != StopKind::kGreen && sc.intent == Intent::kGoStraight && b.chance(0.35)) {
    const bool left = sc.junction.left && b.chance(0.5);  // waiting on the side road
    if (left || sc.junction.right) {
      const double d = left ? sc.road.left_edge() + b.u(4.5, 6) : sc.road.right_edge() - b.u(4.5, 6);
      b.parked(AgentType::kCar, sc.junction.s + (left ? -1 : 1) * kLane / 2, d, left ? -kPi / 2 : kPi / 2, Class::kConflicting);
    }
  }
}

void parked_rows(Builder& b) {
  Scene& sc = b.sc;
  for (const bool left : {false, true}) {
    if (!(left ? sc.road.parking_left : sc.road.parking_right)) continue;
    const double d = left ? sc.road.left_edge() - 1.2 : sc.road.right_edge() + 1.2;
    double s = b.u(4, 12);
    for (int i = 0; i < 6; ++i, s += b.u(5.6, 11)) {
      if (on_an_arm(sc, s, 9)) continue;
      const Pose p = sc.ref.at(s, d);
      bool taken = false;
      for (const Actor& a : sc.actors) {
        const double dx = a.agent.pose.x - p.x, dy = a.agent.pose.y - p.y;
        const double apart = 0.5 * a.agent.length + 2.8;
        taken = taken || dx * dx + dy * dy < apart * apart;
      }
      if (!taken) b.parked(AgentType::kCar, s, d + b.u(-0.05, 0.05), left ? kPi : 0, Class::kNone);
    }
  }
}

void scenery(Builder& b) {
  Scene& sc = b.sc;
  const bool town = b.chance(0.55);
  for (const bool left : {false, true}) {
    double s = -5;
    while (s < 85) {
      const bool house = town && b.chance(0.6);
      const double away = house ? b.u(9, 13) : b.u(6.5, 11);
      const double d = (left ? sc.road.left_edge() + away : sc.road.right_edge() - away);
      const double half = house ? b.u(4, 8) : 1.0;
      const Pose p = sc.ref.at(s + half, left ? d + (house ? 4 : 0) : d - (house ? 4 : 0));
      const bool arm = on_an_arm(sc, s + half, half + 5);
      const Frenet f = sc.route.project({p.x, p.y});
      if (!arm && std::abs(f.d) > half + 5) {
        Scenery& o = sc.scenery.emplace_back();
        o.kind = house ? SceneryKind::kBuilding : b.chance(0.8) ? SceneryKind::kTree : SceneryKind::kPole;
        o.pose = p;
        o.length = house ? 2 * half : o.kind == SceneryKind::kTree ? 3.2 : 0.3;
        o.width = house ? 8.0 : o.length;
        o.height = house ? b.u(5, 14) : b.u(4, 7);
        const auto grey = static_cast<uint8_t>(110 + b.g.below(110));
        o.colour = house
                       ? Rgb{grey, static_cast<uint8_t>(grey - 10 - b.g.below(30)), static_cast<uint8_t>(grey - 20 - b.g.below(50))}
                       : Rgb{static_cast<uint8_t>(30 + b.g.below(40)), static_cast<uint8_t>(80 + b.g.below(60)), 40};
      }
      s += 2 * half + b.u(3, 14);
    }
  }
}

}  // namespace

void draw_environment(Scene& sc) {
  PhiloxStream g(sc.seed, uint64_t{0xE0} << 32 | uint64_t{sc.family} << 8 | sc.attempt);
  Environment& e = sc.env;
  const double light = g.uniform();
  e.lighting = light < 0.82 ? Lighting::kDay : light < 0.92 ? Lighting::kDusk : Lighting::kNight;
  const double kind = g.uniform();
  const auto any = [&](double r) { return r < 0.4 ? Weather::kRain : r < 0.7 ? Weather::kFog : Weather::kSnow; };
  if (kind < 0.10) e.weather = any(kind / 0.10);
  if (family_is(sc, "adverse_weather")) e.weather = any(kind);
  if (family_is(sc, "rain_cut_in")) e.weather = Weather::kRain;
  if (family_is(sc, "night_debris")) e.lighting = Lighting::kNight;
  if (family_is(sc, "cut_in") && e.weather == Weather::kRain) e.weather = Weather::kClear;
  if (family_is(sc, "debris") && e.lighting == Lighting::kNight) e.lighting = Lighting::kDusk;
  if (e.weather == Weather::kFog) e.fog_beta_per_m = g.uniform(0.025, 0.045);
  if (e.weather == Weather::kRain) e.fog_beta_per_m = 0.006, e.wet = true;
  if (e.weather == Weather::kSnow) e.fog_beta_per_m = 0.012, e.icy = true;
  e.sun_azimuth_rad = g.uniform(-kPi, kPi);
  e.texture_seed = g.bits();
  e.texture_seed = e.texture_seed << 32 | g.bits();
}

void draw_surroundings(Scene& sc) {
  Builder b(sc, 0x50);
  if (b.chance(0.65)) second_thing(b);
  if (!sc.road.parking_right && b.chance(0.15)) sc.road.parking_left = true;
  traffic_around(b);
  const double r = b.g.uniform();
  if (r < 0.48) decoy(b);
  if (r < 0.16) decoy(b);
  parked_rows(b);
  scenery(b);
}

}  // namespace slip::sim
