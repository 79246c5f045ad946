// SPDX-License-Identifier: Apache-2.0
// The plan from above: the road, who is on it, what was driven, the plan and the truth, on a grid in metres. The scale follows
// what there is to see.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "picture/parts.h"
#include "picture/text.h"
#include "sim/world.h"

namespace slip::picture {

using sim::Vec2;

namespace {

/// Metres (ahead to the right, left upwards) to pixels.
struct PlanView {
  double scale = 10, x0 = 0, y0 = 0;  // pixels per metre; the metres at the upper left corner
  Point operator()(Vec2 p) const { return {(p.x - x0) * scale, (y0 - p.y) * scale}; }
};

/// Everything planned is seen, at least 10 m and at most 150 m ahead; with a moment at least 42 m and a quarter more than is
/// planned, where the reason of the plan stands.
PlanView fit_plan(const PictureInput& in, int width, int height) {
  double back = -5, ahead = in.moment ? 42 : 10, right = -3, left = 3;
  const auto include = [&](std::span<const Vec2> points, double farthest_back) {
    for (const Vec2& p : points) {
      if (!usable(p)) continue;
      back = std::min(back, std::max(p.x, farthest_back)), ahead = std::max(ahead, std::min(p.x, 150.0));
      right = std::min(right, std::max(p.y, -75.0)), left = std::max(left, std::min(p.y, 75.0));
    }
  };
  include(in.path, -60), include(in.truth_path, -60), include(in.waypoints, -60);
  std::vector<Vec2> recent;
  for (const Vec2& p : in.history)
    if (p.x > -15 && std::abs(p.y) < 10) recent.push_back(p);
  include(recent, -15);
  if (in.moment && ahead > 42) ahead = std::min(150.0, std::max(42.0, 1.25 * ahead));
  back -= 1.5, ahead += 0.03 * (ahead - back) + 1, right -= 1.5, left += 1.5;
  PlanView v;
  v.scale = std::min(width / (ahead - back), height / (left - right));
  v.x0 = (back + ahead - width / v.scale) / 2, v.y0 = (left + right + height / v.scale) / 2;
  return v;
}

Colour ground_colour(sim::Ground kind) {
  static constexpr std::array<Colour, 11> kColours = {{{29, 38, 32},
                                                       {54, 58, 65},
                                                       {74, 75, 78},
                                                       {176, 180, 184},
                                                       {176, 146, 62},
                                                       {214, 216, 218},
                                                       {132, 136, 141},
                                                       {45, 77, 66},
                                                       {26, 26, 28},
                                                       {50, 76, 104},
                                                       {63, 64, 76}}};
  const auto i = static_cast<size_t>(kind);
  return i < kColours.size() ? kColours[i] : kColours[1];
}

Colour agent_colour(sim::AgentType type) {
  switch (type) {
    case sim::AgentType::kPedestrian:
    case sim::AgentType::kAnimal:
      return {240, 128, 190};
    case sim::AgentType::kCyclist:
    case sim::AgentType::kMotorcycle:
      return {150, 210, 110};
    case sim::AgentType::kCone:
    case sim::AgentType::kBarrier:
    case sim::AgentType::kDebris:
    case sim::AgentType::kWorker:
      return {255, 140, 60};
    case sim::AgentType::kAmbulance:
    case sim::AgentType::kFireTruck:
    case sim::AgentType::kPolice:
      return {236, 84, 84};
    default:
      return {122, 140, 178};
  }
}

class PlanDrawing {
 public:
  PlanDrawing(Pen& pen, const PlanView& view) : pen_(pen), view_(view) {}

  void grid(double step_m, double opacity) {
    const double x1 = view_.x0 + pen_.width() / view_.scale, y1 = view_.y0 - pen_.height() / view_.scale;
    for (double x = std::ceil(view_.x0 / step_m) * step_m; x <= x1; x += step_m)
      pen_.rectangle(static_cast<int>(view_({x, 0}).x), 0, 1, pen_.height(), kNormal, opacity);
    for (double y = std::ceil(y1 / step_m) * step_m; y <= view_.y0; y += step_m)
      pen_.rectangle(0, static_cast<int>(view_({0, y}).y), pen_.width(), 1, kNormal, opacity);
  }

  /// Neighbouring patches of one kind are painted together, so that no seam shows between the pieces of a road.
  void ground(const sim::Moment& m) {
    for (size_t i = 0; i < m.ground.size(); ++i) {
      std::vector<Point> corners;
      for (const Vec2& c : m.ground[i].corners) corners.push_back(view_(to_ego(m.ego, c)));
      pen_.add_polygon(corners);
      const sim::Ground kind = m.ground[i].kind;
      if (i + 1 == m.ground.size() || m.ground[i + 1].kind != kind) pen_.fill(ground_colour(kind));
    }
  }

  void scenery(const sim::Moment& m) {
    for (const sim::Scenery& s : m.scenery) {
      const sim::Pose p = in_ego(m.ego, s.pose);
      if (s.kind == sim::SceneryKind::kTree)
        pen_.disc(view_({p.x, p.y}), 0.5 * s.width * view_.scale, {44, 74, 52}, 0.8);
      else if (s.kind != sim::SceneryKind::kPole)
        box(p, s.length, s.width, {47, 47, 54}, 1);
    }
  }

  void agents(const sim::Moment& m) {
    for (const sim::Agent& a : m.agents) {
      const sim::Pose p = in_ego(m.ego, a.pose);
      const Colour colour = agent_colour(a.type);
      if (std::max(a.length, a.width) * view_.scale < 9) {
        pen_.disc(view_({p.x, p.y}), 5.5, kDark);
        pen_.disc(view_({p.x, p.y}), 4, colour);
        continue;
      }
      box(p, a.length + 2 / view_.scale, a.width + 2 / view_.scale, kDark, 1);
      box(p, a.length, a.width, colour, 1);
      // The darker fifth is the front.
      box(ahead_of(p, 0.3 * a.length), 0.2 * a.length, 0.8 * a.width, kDark, 0.45);
      // Where it will be after one second at this speed.
      if (a.speed_mps > 0.3 && a.speed_mps < 80) {
        const sim::Pose nose = ahead_of(p, a.length / 2), there = ahead_of(p, a.length / 2 + a.speed_mps);
        pen_.line(std::array{view_({nose.x, nose.y}), view_({there.x, there.y})}, 2, colour, 0.75);
      }
    }
    for (const sim::TrafficLight& l : m.lights) {
      static constexpr std::array<Colour, 3> kLamps = {{{255, 70, 70}, {255, 205, 60}, {80, 220, 110}}};
      const Point p = view_(to_ego(m.ego, {l.pose.x, l.pose.y}));
      pen_.disc(p, 8, kDark);
      pen_.disc(p, 5.5, kLamps[std::min<size_t>(static_cast<size_t>(l.state), 2)]);
    }
    for (const sim::Sign& s : m.signs) {
      const Point p = view_(to_ego(m.ego, {s.pose.x, s.pose.y}));
      pen_.disc(p, 5, kDark);
      pen_.circle(p, 4, 2, s.kind == sim::SignKind::kStop ? Colour{255, 70, 70} : Colour{235, 235, 235});
    }
  }

  void ego() {
    const double length = sim::kEgoFront + sim::kEgoRear, width = 2 * sim::kEgoHalfWidth;
    const double middle = (sim::kEgoFront - sim::kEgoRear) / 2;
    box({middle, 0, 0}, length + 3 / view_.scale, width + 3 / view_.scale, kDark, 1);
    box({middle, 0, 0}, length, width, kBright, 1);
    box({middle + 0.12 * length, 0, 0}, 0.16 * length, 0.8 * width, {70, 84, 100}, 1);
    box({middle - 0.3 * length, 0, 0}, 0.1 * length, 0.74 * width, {70, 84, 100}, 1);
  }

  /// Under the line the width that the car takes.
  void path(std::span<const Vec2> points, Colour colour, bool ribbon) {
    std::vector<Point> line{view_({})};
    for (const Vec2& p : points)
      if (usable(p)) line.push_back(view_(p));
    if (ribbon) pen_.line(line, 1.6 * view_.scale, colour, 0.28);
    pen_.line(line, 3, colour);
    for (const Point& p : std::span(line).subspan(1)) pen_.disc(p, 3.2, colour);
  }

  void past(std::span<const Vec2> points) {
    for (const Vec2& p : points)
      if (usable(p)) pen_.disc(view_(p), 2.6, kPast);
  }

  void waypoints(std::span<const Vec2> points) {
    draw_waypoints(pen_, points, 6, 6, [&](Vec2 p) { return std::optional<Point>(view_(p)); });
  }

 private:
  static Vec2 to_ego(const sim::Pose& ego, Vec2 p) {
    const double dx = p.x - ego.x, dy = p.y - ego.y, c = std::cos(ego.yaw), s = std::sin(ego.yaw);
    return {dx * c + dy * s, dy * c - dx * s};
  }
  static sim::Pose in_ego(const sim::Pose& ego, const sim::Pose& p) {
    const Vec2 at = to_ego(ego, {p.x, p.y});
    return {at.x, at.y, p.yaw - ego.yaw};
  }
  static sim::Pose ahead_of(const sim::Pose& p, double m) { return {p.x + m * std::cos(p.yaw), p.y + m * std::sin(p.yaw), p.yaw}; }
  void box(const sim::Pose& pose, double length, double width, Colour colour, double opacity) {
    const double c = std::cos(pose.yaw), s = std::sin(pose.yaw), l = length / 2, w = width / 2;
    std::array<Point, 4> corners;
    for (size_t i = 0; i < 4; ++i) {
      const double u = i == 0 || i == 3 ? -l : l, v = i < 2 ? -w : w;
      corners[i] = view_({pose.x + u * c - v * s, pose.y + u * s + v * c});
    }
    pen_.add_polygon(corners);
    pen_.fill(colour, opacity);
  }

  Pen& pen_;
  PlanView view_;
};

void draw_plan_header(Pen& pen, const PictureInput& in, Box area) {
  const std::string_view title = "FROM ABOVE";
  pen.write(area.x + kPad, area.y + 9, title, kDim);
  struct Entry {
    std::string_view name;
    Colour colour;
    bool shown;
  };
  const auto agents = [&](std::string_view name, sim::AgentType like) {
    const Colour colour = agent_colour(like);
    const auto alike = [&](const sim::Agent& a) { return agent_colour(a.type) == colour; };
    return Entry{name, colour, in.moment && std::any_of(in.moment->agents.begin(), in.moment->agents.end(), alike)};
  };
  const std::array<Entry, 8> entries = {Entry{"plan", kPlan, !in.path.empty() || !in.waypoints.empty()},
                                        Entry{"truth", kTruth, !in.truth_path.empty()},
                                        Entry{"driven", kPast, !in.history.empty()},
                                        agents("vehicle", sim::AgentType::kCar),
                                        agents("emergency", sim::AgentType::kPolice),
                                        agents("person", sim::AgentType::kPedestrian),
                                        agents("cyclist", sim::AgentType::kCyclist),
                                        agents("obstacle", sim::AgentType::kCone)};
  int x = area.x + area.w - kPad;
  for (auto e = entries.rbegin(); e != entries.rend(); ++e) {
    if (!e->shown) continue;
    x -= pen.width_of(e->name);
    pen.write(x, area.y + 9, e->name, kNormal);
    x -= 20;
    pen.disc({x + 7.0, area.y + 16.0}, 5, e->colour);
    x -= 14;
  }
  if (in.moment) {
    static constexpr std::array<std::string_view, 3> kLighting = {"day", "dusk", "night"};
    static constexpr std::array<std::string_view, 4> kWeather = {"clear", "rain", "fog", "snow"};
    const auto lighting = std::min<size_t>(static_cast<size_t>(in.moment->env.lighting), 2);
    const auto weather = std::min<size_t>(static_cast<size_t>(in.moment->env.weather), 3);
    std::string now = number(in.moment->ego_speed_mps, 1) + " m/s, ";
    now.append(kLighting[lighting]).append(", ").append(kWeather[weather]);
    const int from = area.x + kPad + pen.width_of(title) + 18, room = x - from;  // what the legend leaves
    if (room >= pen.width_of("0.0 m/s...")) pen.write(from, area.y + 9, cut(pen, now, room), kNormal);
  }
}

/// The grid's numbers, along the bottom and at the left.
void draw_axes(Pen& pen, const PlanView& view, double step, Box inner) {
  const int base = inner.y + inner.h + 8;
  const std::string unit = "m ahead";
  pen.write_right(inner.x + inner.w, base, unit, kDim);
  const double x1 = view.x0 + inner.w / view.scale, y1 = view.y0 - inner.h / view.scale;
  for (double x = std::ceil(view.x0 / step) * step; x <= x1; x += step) {
    const std::string label = number(x + 0.0, 0);
    const int w = pen.width_of(label), at = inner.x + static_cast<int>(view({x, 0}).x) - w / 2;
    if (at >= inner.x && at + w < inner.x + inner.w - pen.width_of(unit) - 12) pen.write(at, base, label, kDim);
  }
  for (double y = std::ceil(y1 / step) * step; y <= view.y0; y += step) {
    const int at = inner.y + static_cast<int>(view({0, y}).y) - 7;
    if (at >= inner.y + 20 && at + 15 <= inner.y + inner.h) pen.write_right(inner.x - 6, at, number(y + 0.0, 0), kDim);
  }
  pen.write_right(inner.x - 6, inner.y + 2, "left", kDim);
}

}  // namespace

void draw_plan(Pen& pen, const PictureInput& in, Box area) {
  pen.rectangle(area.x, area.y, area.w, area.h, kPanel);
  draw_plan_header(pen, in, area);
  const Box inner{area.x + 52, area.y + 32, area.w - 52 - kPad, area.h - 32 - 30};
  const PlanView view = fit_plan(in, inner.w, inner.h);
  double step = 1;
  for (const double s : {2.0, 5.0, 10.0, 20.0, 50.0})
    if (step * view.scale < 55) step = s;
  pen.inside(inner, [&](Pen& p) {
    p.rectangle(0, 0, inner.w, inner.h, in.moment ? ground_colour(sim::Ground::kGrass) : Colour{20, 23, 28});
    PlanDrawing plan(p, view);
    if (in.moment) plan.ground(*in.moment), plan.scenery(*in.moment);
    plan.grid(step, 0.16);
    if (in.moment) plan.agents(*in.moment);
    plan.past(in.history);
    plan.path(in.path.empty() ? in.waypoints : in.path, kPlan, true);
    plan.path(in.truth_path, kTruth, false);
    plan.ego();
    plan.waypoints(in.waypoints);
  });
  pen.outline(inner.x - 1, inner.y - 1, inner.w + 2, inner.h + 2, kRule);
  draw_axes(pen, view, step, inner);
}

}  // namespace slip::picture
