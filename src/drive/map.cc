// SPDX-License-Identifier: Apache-2.0
// A scene's road as polygons: lanes, what may be driven on, junctions, the area behind a red light.
#include <algorithm>
#include <cmath>

#include "drive/world.h"
#include "sim/math.h"

namespace slip::drive {

using sim::Vec2;

namespace {

constexpr double kBehind = -30, kAhead = 300, kArm = 200, kPiece = 20;

/// A band along a path, from d0 (right) to d1 (left), with points at most 2 m apart, the ends among them.
Polygon band(const sim::Path& path, double from, double to, double d0, double d1) {
  constexpr double kEvery = 2;
  const int pieces = std::max(1, static_cast<int>(std::ceil((to - from) / kEvery - 1e-9)));
  const auto at = [&](int i, double d) {
    const sim::Pose p = path.at(from + (to - from) * i / pieces, d);
    return Vec2{p.x, p.y};
  };
  Polygon out;
  for (int i = 0; i <= pieces; ++i) out.push_back(at(i, d0));
  for (int i = pieces; i >= 0; --i) out.push_back(at(i, d1));
  return out;
}

/// Rounded corners between the road and an arm, as in the pictures.
void corners(const sim::Scene& sc, std::vector<Polygon>& out) {
  constexpr double kRound = 5.0, kOverlap = 0.2;
  for (const bool left : {false, true}) {
    if (!(left ? sc.junction.left : sc.junction.right)) continue;
    const double side = left ? 1 : -1, d = left ? sc.road.left_edge() : sc.road.right_edge();
    for (const double along : {-1.0, 1.0}) {
      const double s = sc.junction.s + along * sc.junction.half_width;
      const auto at = [&](double ds, double dd) {
        const sim::Pose p = sc.ref.at(s + along * ds, d + side * dd);
        return Vec2{p.x, p.y};
      };
      out.push_back({at(-kOverlap, -kOverlap), at(kRound, -kOverlap), at(kRound, 0), at(0, kRound), at(-kOverlap, kRound)});
    }
  }
}

Kind kind_of(sim::AgentType t) {
  using enum sim::AgentType;
  switch (t) {
    case kPedestrian:
    case kWorker:
    case kAnimal:
      return Kind::kPedestrian;
    case kCyclist:
      return Kind::kBicycle;
    case kCone:
    case kBarrier:
    case kDebris:
      return Kind::kOther;
    default:
      return Kind::kVehicle;
  }
}

}  // namespace

Surroundings World::map() const {
  const sim::Scene& sc = scene_;
  const sim::Road& road = sc.road;
  Surroundings out;
  const auto lane = [&](const sim::Path& path, double d, bool on_route) {
    out.lanes.push_back({band(path, kBehind, kAhead, d - sim::kLane / 2, d + sim::kLane / 2), on_route});
  };
  for (int i = -road.right_lanes; i <= road.left_lanes; ++i) lane(sc.ref, sim::kLane * i, true);
  for (int i = 1; i <= road.opposite_lanes; ++i) lane(sc.ref, sim::kLane * (road.left_lanes + i), road.dashed_centre);
  // In pieces that overlap: a road may come round onto itself.
  for (double s = kBehind; s < kAhead; s += kPiece)
    out.drivable.push_back(band(sc.ref, s, s + kPiece + 2, road.right_edge(), road.left_edge()));
  for (double s = kBehind; s <= kAhead; s += 1) {
    const sim::Pose p = sc.route.at(s);
    out.centre_line.push_back({p.x, p.y});
  }
  if (sc.junction.present) {
    const double s = sc.junction.s, half = sc.junction.half_width;
    out.intersections.push_back(band(sc.ref, s - half, s + half, road.right_edge(), road.left_edge()));
    const double middle = 0.5 * (road.left_edge() + road.right_edge());
    if (sc.junction.left) out.drivable.push_back(band(sc.ref, s - half, s + half, middle, kArm));
    if (sc.junction.right) out.drivable.push_back(band(sc.ref, s - half, s + half, -kArm, middle));
    corners(sc, out.drivable);
    if (sc.intent != sim::Intent::kGoStraight && sc.shift == 0) lane(sc.route, 0, true);
  }
  if (sc.stop == sim::StopKind::kRed)
    out.red.push_back({band(sc.ref, sc.stop_s + 0.5, sc.junction.s + sc.junction.half_width, -sim::kLane * (road.right_lanes + 0.5),
                            road.centre()),
                       0, kDriveSteps});
  return out;
}

Other World::other(size_t actor) const {
  const sim::Agent& a = scene_.actors[actor].agent;
  return {fmt::format("{}", a.id), kind_of(a.type), a.length, a.width, {}};
}

}  // namespace slip::drive
