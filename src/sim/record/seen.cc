// SPDX-License-Identifier: Apache-2.0
#include "sim/record/seen.h"

#include <algorithm>
#include <cmath>

#include "sim/math.h"

namespace slip::sim {

namespace {

// Lamps and signs as sim/bodies/signs.cc draws them, rounded to what a cell can tell: a lamp column 0.4 m wide and 1.2 m high, a
// plate of 0.9 x 1 m; depths are nominal.
constexpr double kLamp_m = 0.4, kLampHalf_m = 0.6, kPlateDepth_m = 0.2, kPlate_m = 0.9, kPlateHalf_m = 0.5;
// A pothole: about a metre of road, flat.
constexpr double kPothole_m = 1.0, kPotholeHigh_m = 0.05;

Seen seen_of(const Agent& a) {
  using enum AgentType;
  if (a.looks.door_open) return Seen::kDoor;
  switch (a.type) {
    case kCar:
    case kTruck:
    case kBus:
    case kMotorcycle:
      return Seen::kVehicle;
    case kSchoolBus:
    case kGarbageTruck:
    case kTractor:
      return Seen::kSpecial;
    case kCyclist:
      return Seen::kCyclist;
    case kPedestrian:
      return Seen::kPedestrian;
    case kAnimal:
      return Seen::kAnimal;
    case kAmbulance:
    case kFireTruck:
    case kPolice:
      return Seen::kEmergency;
    case kCone:
    case kBarrier:
    case kWorker:
      return Seen::kConstruction;
    case kDebris:
      return Seen::kHazard;
  }
  return Seen::kNothing;
}

Vec2 centre_of(const std::vector<Vec2>& corners) {
  Vec2 centre;
  for (const Vec2& c : corners) {
    centre.x += c.x / static_cast<double>(corners.size());
    centre.y += c.y / static_cast<double>(corners.size());
  }
  return centre;
}

}  // namespace

std::vector<SeenBody> seen_bodies(const Moment& m) {
  std::vector<SeenBody> out;
  const double c = det_cos(m.ego.yaw), s = det_sin(m.ego.yaw);
  const auto add = [&](Seen what, Pose p, double length, double width, double low, double high) {
    const double dx = p.x - m.ego.x, dy = p.y - m.ego.y;
    if (what == Seen::kNothing || det_hypot(dx, dy) >= kFarthestBody_m) return;
    const auto f = [](double v) { return static_cast<float>(v); };
    out.push_back({what, f(c * dx + s * dy), f(c * dy - s * dx), f(p.yaw - m.ego.yaw), f(length), f(width), f(low), f(high)});
  };
  for (const Agent& a : m.agents) add(seen_of(a), a.pose, a.length, a.width, 0, a.height);
  for (const TrafficLight& l : m.lights)
    add(l.state == LightState::kGreen ? Seen::kGreen : Seen::kTraffic, l.pose, kLamp_m, kLamp_m, l.height - kLampHalf_m,
        l.height + kLampHalf_m);
  for (const Sign& x : m.signs) {
    const Seen what = x.kind == SignKind::kStop       ? Seen::kTraffic
                      : x.kind == SignKind::kRoadWork ? Seen::kConstruction
                                                      : Seen::kNothing;
    add(what, x.pose, kPlateDepth_m, kPlate_m, x.height - kPlateHalf_m, x.height + kPlateHalf_m);
  }
  for (const GroundPatch& p : m.ground) {
    if (p.kind != Ground::kPothole || p.corners.empty()) continue;
    const Vec2 at = centre_of(p.corners);
    add(Seen::kHazard, {at.x, at.y, 0}, kPothole_m, kPothole_m, 0, kPotholeHigh_m);
  }
  std::stable_sort(out.begin(), out.end(),
                   [](const SeenBody& a, const SeenBody& b) { return det_hypot(a.x, a.y) > det_hypot(b.x, b.y); });
  if (out.size() > kMostBodies) out.erase(out.begin(), out.end() - static_cast<ptrdiff_t>(kMostBodies));
  return out;
}

}  // namespace slip::sim
