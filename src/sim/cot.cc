// SPDX-License-Identifier: Apache-2.0
// Scene fields, summaries and the reason of the ego's behaviour. Objects are in cot_objects.cc.
#include "sim/cot.h"

#include <algorithm>
#include <cmath>

#include "sim/cot_parts.h"
#include "sim/labels.h"

namespace slip::sim {
namespace {

constexpr std::string_view kStraight = "our lane goes straight ahead";

std::string_view first_clause(std::string_view text) { return text.substr(0, text.find(',')); }
std::string_view side_of(double positive_is_left) { return positive_is_left > 0 ? "left" : "right"; }

// ---- what is there, whoever drives

std::string_view lighting_of(const Environment& e) {
  static constexpr std::string_view kWords[] = {"day", "dusk", "night"};
  return kWords[static_cast<int>(e.lighting)];
}
std::string_view road_condition_of(const Environment& e) {
  return e.icy ? "snow covered, poor grip" : e.wet ? "wet, reduced grip" : "dry, good grip";
}
std::string_view weather_of(const Environment& e) {
  static constexpr std::string_view kWords[] = {"clear, the view is good", "rain, the view is reduced", "fog, the view is poor",
                                                "snow, the view is reduced"};
  return kWords[static_cast<int>(e.weather)];
}

/// What the fog leaves a contrast of 11 % of, and no farther than labels look (labels.cc).
bool in_sight(const Environment& e, double distance_m) { return distance_m < 65 && e.fog_beta_per_m * distance_m <= 2.2; }

std::string junction_of(const Scene& sc) {
  const Junction& j = sc.junction;
  if (!j.present || j.s + j.half_width < 0 || !in_sight(sc.env, j.s - j.half_width)) return "no junction ahead";
  const std::string_view kind = j.left && j.right ? "crossroads" : j.left ? "side road on the left" : "side road on the right";
  return fmt::format("{}, {} ahead", kind, distance_band(j.s - j.half_width - kEgoFront));
}

std::string road_type_of(const Road& r) {
  static constexpr std::string_view kCount[] = {"no", "one", "two", "three", "four"};
  const int ours = std::min(1 + r.left_lanes + r.right_lanes, 4), theirs = std::min(r.opposite_lanes, 4);
  std::string out = fmt::format("{} {} our way, {} oncoming", kCount[ours], ours == 1 ? "lane" : "lanes", kCount[theirs]);
  if (r.parking_left || r.parking_right)
    out += r.parking_left && r.parking_right ? ", parking on both sides"
                                             : fmt::format(", parking on the {}", r.parking_left ? "left" : "right");
  if (r.bike_lane) out += ", bike lane";
  if (r.sidewalk) out += ", sidewalk";
  return out;
}

// ---- the ego's lane over the next six seconds, in three windows of two

std::string lane_text(const Scene& sc, const Labels& l, size_t window, double& s) {
  double first = 0, last = 0, most = 0, bend = 0, sharpest = 0;
  for (size_t i = 0; i < 20; ++i) {
    const FutureState& p = l.future[20 * window + i];
    const Frenet f = sc.route.project_near({p.x, p.y}, s);
    s = f.s;
    const double k = sc.route.curvature(s);
    if (i == 0) first = f.d;
    last = f.d;
    if (std::abs(f.d) > std::abs(most)) most = f.d;
    if (std::abs(k) > std::abs(sharpest)) sharpest = k;
    bend += k / 20;
  }
  // Junction turns have radii of 7 and 11 m, bends of the road at least 25 m.
  if (std::abs(sharpest) > 0.06) return fmt::format("we turn {} at the junction", side_of(sharpest));
  const auto other_lane = [&](double d) { return d < 0 ? "right lane" : sc.road.left_lanes > 0 ? "left lane" : "oncoming lane"; };
  if (std::abs(last - first) > 1.2)
    return std::abs(last) > 1.0 && std::abs(last) > std::abs(first) ? fmt::format("we move to the {}", other_lane(last))
                                                                    : std::string("we move back to our lane");
  if (std::abs(last) > kLane / 2) return fmt::format("we drive in the {}", other_lane(last));
  const bool turns = sc.junction.present && sc.intent != Intent::kGoStraight;
  if (std::abs(bend) > 0.004 && !turns) return fmt::format("our lane curves to the {}", side_of(bend));
  if (std::abs(most) > 0.45) return fmt::format("we keep {} inside our lane", side_of(most));
  const bool side_road = sc.junction.present && std::abs(sc.route.at(s).yaw - sc.ref.at(0).yaw) > 1.0;
  return side_road ? "the side road goes straight ahead" : std::string(kStraight);
}

void describe_lanes(const Scene& sc, const Labels& l, CotLabels& out) {
  static constexpr std::string_view kTimes[] = {"now", "2", "4", "6 s"};
  out.lane.fill(std::string(kCotNone));
  std::array<std::string, 3> windows;
  double s = 0;
  for (size_t w = 0; w < windows.size(); ++w) windows[w] = lane_text(sc, l, w, s);
  size_t count = 0;
  for (size_t begin = 0; begin < windows.size();) {
    size_t end = begin + 1;
    while (end < windows.size() && windows[end] == windows[begin]) ++end;
    out.lanes += fmt::format("{}{} to {}{}", begin ? "; " : "", kTimes[begin], kTimes[end], end < 3 ? " s" : "");
    out.lane[count++] = windows[begin];
    begin = end;
  }
}

// ---- rules

std::string traffic_light_of(const Scene& sc) {
  for (const TrafficLight& t : sc.lights) {
    if (!box_visible(sc, t.pose, 0.2, 1.2, t.height - 1.0, t.height + 1.0, nullptr)) continue;
    static constexpr std::string_view kState[] = {"red", "yellow", "green"};
    return fmt::format("{} light, {} ahead", kState[static_cast<int>(t.state)], distance_band(sc.stop_s - kEgoFront));
  }
  return "no traffic light ahead";
}

std::string traffic_sign_of(const Scene& sc) {
  static constexpr std::pair<SignKind, std::string_view> kSigns[] = {{SignKind::kStop, "stop sign"},
                                                                     {SignKind::kPedestrianCrossing, "pedestrian crossing sign"},
                                                                     {SignKind::kRoadWork, "road work sign"}};
  for (const auto& [kind, name] : kSigns)
    for (const Sign& s : sc.signs)
      if (s.kind == kind && box_visible(sc, s.pose, 0.1, 1.0, s.height - 0.5, s.height + 0.5, nullptr))
        return fmt::format("{}, {} ahead", name, distance_band(s.pose.x - kEgoFront));
  return "no traffic sign ahead";
}

std::string_view additional_regulation_of(const Scene& sc, std::span<const SeenObject> objects) {
  for (const SeenObject& o : objects) {
    if (o.actor->cls == Class::kEmergency && o.actor->agent.looks.beacons) return "the emergency vehicle has priority";
    if (o.actor->agent.looks.stop_arm) return "passing the school bus is forbidden";
  }
  const bool by_light = !sc.lights.empty();  // which then says who goes first
  for (const double s : sc.crosswalks)
    if (!by_light && s > 0 && in_sight(sc.env, s) && s < 45) return "pedestrians go first at the crosswalk";
  return sc.road.dashed_centre ? "passing is allowed" : "no additional rule";
}

std::string_view traffic_regulation_of(const CotLabels& c) {
  const auto begins = [](const std::string& s, std::string_view with) { return s.starts_with(with); };
  if (begins(c.traffic_light, "red")) return "stop at the red light";
  if (begins(c.traffic_light, "yellow")) return "stop at the yellow light";
  if (begins(c.traffic_sign, "stop")) return "stop at the stop sign";
  if (begins(c.additional_regulation, "the emergency")) return "give way to the emergency vehicle";
  if (begins(c.additional_regulation, "passing the")) return "wait behind the school bus";
  if (begins(c.additional_regulation, "pedestrians")) return "yield to pedestrians at the crosswalk";
  if (begins(c.traffic_light, "green")) return "green light, we may go";
  if (begins(c.traffic_sign, "road work")) return "drive with care at the road work";
  if (!begins(c.junction, "no")) return "watch the junction";
  return "no rule asks us to stop";
}

// ---- summaries

std::string non_interactive_of(const CotLabels& c) {
  const std::string* lane = &c.lane[0];
  for (const std::string& text : c.lane)
    if (*lane == kStraight && text != kCotNone) lane = &text;
  const std::string_view view = std::string_view(c.weather).substr(c.weather.find(", ") + 2);
  return fmt::format("{} road, {}, {}, {}", first_clause(c.road_condition), c.lighting, view, *lane);
}

std::string_view towards(const Labels& l, const SeenObject& o, double sideways) {
  if (!o.causal) return "watch";
  if (l.longitudinal == Longitudinal::kComeToStop) return "stop for";
  if (l.lateral == Lateral::kChangeLeft || l.lateral == Lateral::kChangeRight || std::abs(sideways) > 0.45) return "pass";
  if (o.justification == kSetsPace || o.justification == kSlower) return "follow";
  return l.longitudinal == Longitudinal::kSlowDown ? "slow down for" : "watch";
}

std::string interactive_of(const Scene& sc, const Labels& l, std::span<const SeenObject> objects) {
  if (objects.empty()) return "no object affects us";
  double s = 0, most = 0;
  for (size_t k = 0; k < 50; ++k) {
    const Frenet f = sc.route.project_near({l.future[k].x, l.future[k].y}, s);
    s = f.s;
    if (std::abs(f.d) > std::abs(most)) most = f.d;
  }
  std::string out = fmt::format("{} the {}", towards(l, objects[0], most), objects[0].name);
  if (objects.size() > 1)
    out += fmt::format(", then {} {}", objects[1].name == objects[0].name ? "another" : "the", objects[1].name);
  return out;
}

/// The decisive thing: what the expert would do otherwise without, the nearest first; rules before the road, the road before air. `moved`: within a
/// drive, where what only delays is no reason to speed up: who stood at a stop sign goes on because the way is free.
std::string reason_of(const Scene& sc, const Labels& l, const CotLabels& c, std::span<const SeenObject> objects, bool moved) {
  const auto causal = [&](Class k) { return l.causal[static_cast<size_t>(k)] && l.visible[static_cast<size_t>(k)]; };
  const bool aside = l.lateral == Lateral::kChangeLeft || l.lateral == Lateral::kChangeRight;
  const bool goes_on = moved && l.longitudinal == Longitudinal::kSpeedUp && !aside;
  const bool object = !goes_on && !objects.empty() && objects[0].causal;
  if (!goes_on && causal(Class::kTraffic) && (!object || sc.stop_s < objects[0].actor->track[0].s)) {
    if (sc.stop == StopKind::kSign) return "we reach a stop sign";
    return sc.stop == StopKind::kYellow ? "the light is yellow" : "the light is red";
  }
  if (object) return fmt::format("the {} {}", objects[0].name, first_clause(objects[0].justification));
  if (l.lateral == Lateral::kTurnLeft || l.lateral == Lateral::kTurnRight)
    return fmt::format("the route turns {}", l.lateral == Lateral::kTurnLeft ? "left" : "right");
  if (sc.shift != 0 && aside) return fmt::format("the route needs the {} lane", side_of(sc.shift));
  for (const std::string& lane : c.lane)
    if (lane.starts_with("our lane curves")) return "the road curves " + lane.substr(lane.rfind(' ') + 1);
  if (causal(Class::kWeather)) return fmt::format("{} limits us", first_clause(c.weather));
  return "the way is free";
}

}  // namespace

std::string distance_band(double m) {
  static constexpr std::pair<double, std::string_view> kBands[] = {
      {7, "5 m"}, {15, "10 m"}, {25, "20 m"}, {35, "30 m"}, {50, "40 m"}};
  for (const auto& [below, text] : kBands)
    if (m < below) return std::string(text);
  return "60 m";
}

CotLabels describe_scene(const Scene& sc, const Labels& l, bool moved) {
  CotLabels out;
  out.lighting = lighting_of(sc.env);
  out.road_condition = road_condition_of(sc.env);
  out.weather = weather_of(sc.env);
  out.junction = junction_of(sc);
  out.road_type = road_type_of(sc.road);
  describe_lanes(sc, l, out);
  const std::vector<SeenObject> objects = critical_objects(sc, l);
  describe_objects(objects, out);
  out.traffic_light = traffic_light_of(sc);
  out.traffic_sign = traffic_sign_of(sc);
  out.additional_regulation = additional_regulation_of(sc, objects);
  out.traffic_regulation = traffic_regulation_of(out);
  out.non_interactive = non_interactive_of(out);
  out.interactive = interactive_of(sc, l, objects);
  out.ego_behavior =
      fmt::format("{} and {} because {}", words(l.longitudinal), words(l.lateral), reason_of(sc, l, out, objects, moved));
  return out;
}

const std::string* CotLabels::find(std::string_view field) const {
  const std::pair<std::string_view, const std::string*> plain[] = {{"lighting", &lighting},
                                                                   {"road_condition", &road_condition},
                                                                   {"weather", &weather},
                                                                   {"junction", &junction},
                                                                   {"road_type", &road_type},
                                                                   {"lanes", &lanes},
                                                                   {"lane_1", &lane[0]},
                                                                   {"lane_2", &lane[1]},
                                                                   {"lane_3", &lane[2]},
                                                                   {"critical_objects", &critical_objects},
                                                                   {"traffic_light", &traffic_light},
                                                                   {"traffic_sign", &traffic_sign},
                                                                   {"additional_regulation", &additional_regulation},
                                                                   {"traffic_regulation", &traffic_regulation},
                                                                   {"non_interactive", &non_interactive},
                                                                   {"interactive", &interactive},
                                                                   {"ego_behavior", &ego_behavior}};
  for (const auto& [name, text] : plain)
    if (name == field) return text;
  constexpr std::string_view kObject = "object_";
  if (!field.starts_with(kObject) || field.size() < kObject.size() + 2 || field[kObject.size() + 1] != '.') return nullptr;
  const auto index = static_cast<size_t>(field[kObject.size()] - '1');
  if (index >= kCotObjects) return nullptr;
  const std::string_view part = field.substr(kObject.size() + 2);
  const CotObject& o = object[index];
  return part == "position" ? &o.position : part == "type" ? &o.type : part == "justification" ? &o.justification : nullptr;
}

}  // namespace slip::sim
