// SPDX-License-Identifier: Apache-2.0
// Which objects a scene's text names, where they are, what they are and why they matter.
#include <algorithm>
#include <cmath>

#include "sim/cot_parts.h"
#include "sim/labels.h"
#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr std::array<std::string_view, 12> kNames = {
    "vehicle",           "pedestrian", "cyclist",         "road work",           "light",    "weather", "debris",
    "emergency vehicle", "animal",     "special vehicle", "conflicting vehicle", "open door"};

bool counts_once(Class c) { return c == Class::kConstruction || c == Class::kHazard; }
double absolute(double x) { return x < 0 ? -x : x; }

/// Metres in the next second, along the route and across it.
double along(const Actor& a) { return a.track[10].s - a.track[0].s; }
double across(const Actor& a) { return absolute(a.track[10].d - a.track[0].d); }

/// Standing things either close the lane or leave room to pass inside it (the ego is 1.9 m wide in a lane of 3.5 m).
std::string_view standing(const Actor& a) {
  const TrackPoint& p = a.track[0];
  const double left = p.d + p.half_d + a.door_m, right = p.d - p.half_d;
  return left > -0.3 && right < 0.3 ? "blocks our lane, we cannot stay in it" : "narrows our lane, we pass with care";
}

std::string_view justification_of(const Scene& sc, const Actor& a) {
  const bool moving = a.track[0].v > 0.3 || along(a) > 0.3 || across(a) > 0.3;
  if (a.cls == Class::kDoor) return "reaches into our lane, we keep clear";
  if (!moving && (a.cls == Class::kConflicting || a.cls == Class::kPedestrian)) return "may enter our lane, we watch it";
  if (!moving) return standing(a);
  if (across(a) > along(a)) return "crosses our lane, it goes first";
  if (a.cls == Class::kConflicting) return "merges into our lane, we let it in";
  if (a.track[10].v < a.track[0].v - 0.8) return "brakes ahead of us, we brake too";
  return along(a) < 0.85 * sc.v0 ? kSlower : kSetsPace;
}

std::string_view noun_of(AgentType t) {
  static constexpr std::string_view kNouns[] = {"car",     "truck",      "bus",    "school bus", "garbage truck", "motorcycle",
                                                "cyclist", "pedestrian", "animal", "ambulance",  "fire truck",    "police car",
                                                "cones",   "barrier",    "debris", "worker",     "tractor"};
  return kNouns[static_cast<int>(t)];
}

std::string type_of(const Actor& a) {
  const AgentLooks& looks = a.agent.looks;
  const std::string_view noun = noun_of(a.agent.type);
  if (looks.door_open) return fmt::format("parked {}, door open", noun);
  if (a.agent.type == AgentType::kCone || a.agent.type == AgentType::kBarrier || a.agent.type == AgentType::kDebris)
    return std::string(noun);
  if (looks.stop_arm) return fmt::format("{}, stop arm out", noun);
  if (looks.beacons) return fmt::format("{}, lights on", noun);
  if (a.track[0].v < 0.3) return fmt::format("{}, standing", noun);
  return fmt::format("{}, {}", noun, looks.brake ? "braking" : "moving");
}

std::string position_of(const SeenObject& o) {
  const TrackPoint& p = o.actor->track[0];
  const double side = absolute(p.y);
  const std::string_view which = p.y > 0 ? "left" : "right";
  const std::string band = distance_band(o.distance_m);
  if (side < 0.9) return fmt::format("ahead, {}", band);
  if (side > 0.84 * p.x) return fmt::format("{}, {}", which, band);  // beyond 40 degrees: the side cameras' middle
  return fmt::format("ahead {}, {}", which, band);
}

bool seen(const Scene& sc, const Actor& a) {
  return box_visible(sc, a.agent.pose, a.agent.length, a.agent.width, 0, a.agent.height, &a);
}

}  // namespace

std::vector<SeenObject> critical_objects(const Scene& sc, const Labels& l) {
  std::vector<SeenObject> out;
  for (size_t c = 0; c < kNames.size(); ++c) {
    if (!l.critical[c]) continue;
    const auto cls = static_cast<Class>(c);
    std::vector<SeenObject> way, beside;
    for (const Actor& a : sc.actors) {
      if (a.cls != cls || !seen(sc, a)) continue;
      const TrackPoint& p = a.track[0];
      const double distance = det_hypot(std::max(p.x - kEgoFront, 0.0), p.y) - 0.5 * std::min(a.agent.length, a.agent.width);
      const bool in_way = comes_in_the_way(sc, a);
      (in_way ? way : beside).push_back({&a, l.causal[c] && in_way, distance, kNames[c], justification_of(sc, a)});
    }
    // A class that matters although none of its members comes near: the nearest one speaks for it.
    std::vector<SeenObject>& all = way.empty() ? beside : way;
    std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.distance_m < b.distance_m; });
    if (!all.empty() && (way.empty() || counts_once(cls))) all.resize(1);
    if (way.empty() && !all.empty()) all[0].causal = l.causal[c];
    out.insert(out.end(), all.begin(), all.end());
  }
  std::stable_sort(out.begin(), out.end(), [](const SeenObject& a, const SeenObject& b) {
    return a.causal != b.causal ? a.causal : a.distance_m < b.distance_m;
  });
  if (out.size() > kCotObjects) out.resize(kCotObjects);
  return out;
}

void describe_objects(std::span<const SeenObject> objects, CotLabels& out) {
  const std::string none(kCotNone);
  out.critical_objects = objects.empty() ? none : "";
  for (size_t i = 0; i < kCotObjects; ++i) {
    if (i >= objects.size()) {
      out.object[i] = {none, none, none};
      continue;
    }
    const SeenObject& o = objects[i];
    out.critical_objects += fmt::format("{}{}", i ? "; " : "", o.name);
    out.object[i] = {position_of(o), type_of(*o.actor), std::string(o.justification)};
  }
}

}  // namespace slip::sim
