// SPDX-License-Identifier: Apache-2.0
// See grounding.h: bodies are sampled by a lattice of points, each of which marks the cell that it projects into.
#include "train/data/grounding.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "sim/render/render.h"

namespace slip {

namespace {

// A pedestrian 60 m away is 9 pixels high in the camera's picture (focal length 307 pixels) and 4 in one of half the size, which the
// demonstration model sees: what stands farther cannot be told.
constexpr double kFarthest_m = 60;
// Two lattice points per metre: from 3 m on a cell of that model (56 of the camera's pixels) spans more than the half metre between
// them. The bounds, 12 m along and 3 m across (a bus), hold a body's cost at 700 projections.
constexpr double kPointsPerMetre = 2;
constexpr int kMostAlong = 24, kMostAcross = 6, kHeights = 3;
// Lamps and signs as sim/bodies/signs.cc draws them, rounded to what a cell can tell: a lamp column 0.4 m wide and 1.2 m high, a
// plate of 0.9 x 1 m; depths are nominal.
constexpr double kLamp_m = 0.4, kLampHalf_m = 0.6, kPlateDepth_m = 0.2, kPlate_m = 0.9, kPlateHalf_m = 0.5;
// A pothole: about a metre of road, flat.
constexpr double kPothole_m = 1.0, kPotholeHigh_m = 0.05;

Seen seen_of(const sim::Agent& a) {
  using enum sim::AgentType;
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

// A box that stands on the ground (or hangs, for lamps and signs), as far as marking goes.
struct Body {
  Seen what{};
  sim::Pose pose;
  double length = 0, width = 0, low = 0, high = 0;
  double distance_m = 0;
};

std::vector<Body> bodies_of(const sim::Moment& m) {
  std::vector<Body> out;
  const auto add = [&](Seen what, sim::Pose pose, double length, double width, double low, double high) {
    const double distance = std::hypot(pose.x - m.ego.x, pose.y - m.ego.y);
    if (what != Seen::kNothing && distance < kFarthest_m) out.push_back({what, pose, length, width, low, high, distance});
  };
  for (const sim::Agent& a : m.agents) add(seen_of(a), a.pose, a.length, a.width, 0, a.height);
  for (const sim::TrafficLight& l : m.lights)
    add(l.state == sim::LightState::kGreen ? Seen::kGreen : Seen::kTraffic, l.pose, kLamp_m, kLamp_m, l.height - kLampHalf_m,
        l.height + kLampHalf_m);
  for (const sim::Sign& s : m.signs) {
    const Seen what = s.kind == sim::SignKind::kStop       ? Seen::kTraffic
                      : s.kind == sim::SignKind::kRoadWork ? Seen::kConstruction
                                                           : Seen::kNothing;
    add(what, s.pose, kPlateDepth_m, kPlate_m, s.height - kPlateHalf_m, s.height + kPlateHalf_m);
  }
  for (const sim::GroundPatch& p : m.ground) {
    if (p.kind != sim::Ground::kPothole || p.corners.empty()) continue;
    sim::Pose centre;
    for (const sim::Vec2& c : p.corners) {
      centre.x += c.x / static_cast<double>(p.corners.size());
      centre.y += c.y / static_cast<double>(p.corners.size());
    }
    add(Seen::kHazard, centre, kPothole_m, kPothole_m, 0, kPotholeHigh_m);
  }
  // Far to near: what is nearer overwrites.
  std::stable_sort(out.begin(), out.end(), [](const Body& a, const Body& b) { return a.distance_m > b.distance_m; });
  return out;
}

}  // namespace

int range_letter(double distance_m) {
  constexpr double kNearest_m = 3;
  const double letters = (kRangeLetters - 1) * std::log(distance_m / kNearest_m) / std::log(kFarthest_m / kNearest_m);
  return distance_m <= kNearest_m ? 0 : std::min(static_cast<int>(std::lround(letters)), kRangeLetters - 1);
}

std::vector<SeenCell> seen_in_cells(const sim::Moment& moment, const sim::Camera& camera, int rows, int columns) {
  std::vector<SeenCell> out(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (const Body& b : bodies_of(moment)) {
    const double c = std::cos(b.pose.yaw), s = std::sin(b.pose.yaw);
    const int along = std::clamp(static_cast<int>(b.length * kPointsPerMetre), 1, kMostAlong);
    const int across = std::clamp(static_cast<int>(b.width * kPointsPerMetre), 1, kMostAcross);
    for (int i = 0; i <= along; ++i)
      for (int j = 0; j <= across; ++j)
        for (int k = 0; k <= kHeights; ++k) {
          const double u = b.length * (static_cast<double>(i) / along - 0.5), v = b.width * (static_cast<double>(j) / across - 0.5);
          const auto at =
              sim::project(camera, moment.ego, b.pose.x + c * u - s * v, b.pose.y + s * u + c * v,
                           b.low + (b.high - b.low) * (0.1 + 0.8 * k / static_cast<double>(kHeights)));  // not the very rim
          if (!at) continue;
          const int row = std::clamp(static_cast<int>(at->y / camera.height * rows), 0, rows - 1);
          const int column = std::clamp(static_cast<int>(at->x / camera.width * columns), 0, columns - 1);
          out[static_cast<size_t>(row * columns + column)] = {b.what, b.distance_m};
        }
  }
  return out;
}

}  // namespace slip
