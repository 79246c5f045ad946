// SPDX-License-Identifier: Apache-2.0
// Labels. A class matters (critical) if it is visible at t0 and either causal (without it the expert's plan differs by more
// than 0.3 m ADE@5s or in its meta class) or in the way: inside the ego's corridor within 4 s (3 s for nearby vehicles), a
// light or sign that controls the ego's lane, adverse weather. Both are geometry that a picture shows.
#include "sim/labels.h"

#include <algorithm>
#include <cmath>

#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr double kFocal = 306.95;  // 210 px / tan(0.6)
constexpr double kCameraForward = 1.5, kCameraHeight = 1.6;
constexpr std::array<double, 3> kYaws = {kPi / 4, 0.0, -kPi / 4};

struct Shadow {
  double x, y, c, n, half_l, half_w;
};

/// Does the segment from (x0, y0) to (x1, y1) meet the rectangle?
bool meets(const Shadow& r, double x0, double y0, double x1, double y1) {
  const double ax = (x0 - r.x) * r.c + (y0 - r.y) * r.n, ay = -(x0 - r.x) * r.n + (y0 - r.y) * r.c;
  const double bx = (x1 - r.x) * r.c + (y1 - r.y) * r.n, by = -(x1 - r.x) * r.n + (y1 - r.y) * r.c;
  double low = 0, high = 1;
  const auto clip = [&](double a, double b, double half) {
    const double step = b - a;
    if (std::abs(step) < 1e-9) return std::abs(a) <= half;
    const double t1 = (-half - a) / step, t2 = (half - a) / step;
    low = std::max(low, std::min(t1, t2));
    high = std::min(high, std::max(t1, t2));
    return low <= high;
  };
  return clip(ax, bx, r.half_l) && clip(ay, by, r.half_w);
}

/// Hidden at (x, y), seen from the camera's mast?
bool hidden(const Scene& sc, double x, double y, double top, const Actor* self) {
  for (const Actor& a : sc.actors) {
    if (&a == self || a.agent.height < 1.3 || a.agent.width < 1.0 || a.agent.height + 0.4 < top) continue;
    const TrackPoint& p = a.track[0];
    if (meets({p.x, p.y, det_cos(p.yaw), det_sin(p.yaw), a.agent.length / 2, a.agent.width / 2}, kCameraForward, 0, x, y))
      return true;
  }
  for (const Scenery& o : sc.scenery) {
    if (o.kind != SceneryKind::kBuilding) continue;
    if (meets({o.pose.x, o.pose.y, det_cos(o.pose.yaw), det_sin(o.pose.yaw), o.length / 2, o.width / 2}, kCameraForward, 0, x, y))
      return true;
  }
  return false;
}

Longitudinal longitudinal_of(const Plan& p, double v0) {
  const FutureState &a = p.future[39], &b = p.future[49];
  const double v = det_hypot(b.x - a.x, b.y - a.y);  // mean speed of the fifth second
  if (v < 1.0) return Longitudinal::kComeToStop;
  if (v > 1.15 * v0) return Longitudinal::kSpeedUp;
  if (v < 0.85 * v0) return Longitudinal::kSlowDown;
  return Longitudinal::kKeepSpeed;
}
Lateral lateral_of(const Scene& sc, const Plan& p) {
  const double yaw = p.future[49].yaw;
  const double limit = 15.0 * kPi / 180.0;
  if (sc.intent != Intent::kGoStraight && sc.junction.present && std::abs(yaw) > limit)
    return yaw > 0 ? Lateral::kTurnLeft : Lateral::kTurnRight;
  if (std::abs(p.max_offset_5s) > 2.0) return p.max_offset_5s > 0 ? Lateral::kChangeLeft : Lateral::kChangeRight;
  if (std::abs(yaw) > 8.0 * kPi / 180.0 && !sc.junction.present) return Lateral::kLaneFollow;
  return Lateral::kGoStraight;
}
double ade5(const Plan& a, const Plan& b) {
  double sum = 0;
  for (size_t i = 0; i < 50; ++i) sum += det_hypot(a.future[i].x - b.future[i].x, a.future[i].y - b.future[i].y);
  return sum / 50;
}

/// The ego along a path of the scene: pose, speed and accelerations along and across.
struct Kinematics {
  Pose p;
  double v = 0, a = 0, k = 0;
};
/// t <= 0: before the scene begins, steady or braking.
Kinematics before(const Scene& sc, double t) {
  const double began = sc.brake_began_s;
  const double steady = sc.v0 - sc.a0 * (-began);  // the speed before braking
  const double v = sc.a0 == 0 ? sc.v0 : t > began ? sc.v0 + sc.a0 * t : steady;
  const double s = sc.a0 == 0  ? sc.v0 * t
                   : t > began ? sc.v0 * t + 0.5 * sc.a0 * t * t
                               : sc.v0 * began + 0.5 * sc.a0 * began * began + steady * (t - began);
  return {sc.route.at(s, sc.d0), v, sc.a0 != 0 && t > began ? sc.a0 : 0.0, sc.route.curvature(s)};
}
/// t > 0: on the plan, linear between its steps.
Kinematics on_plan(const Scene& sc, const Plan& plan, double t) {
  const auto i = static_cast<size_t>(det_floor(t / kDt));
  const double f = t / kDt - static_cast<double>(i);
  const Kinematics a = i == 0 ? before(sc, 0)
                              : Kinematics{{plan.future[i - 1].x, plan.future[i - 1].y, plan.future[i - 1].yaw},
                                           plan.future[i - 1].v,
                                           plan.future[i - 1].a,
                                           plan.future[i - 1].kappa};
  const FutureState& b = plan.future[i];
  return {{a.p.x + f * (b.x - a.p.x), a.p.y + f * (b.y - a.p.y), a.p.yaw + f * (b.yaw - a.p.yaw)},
          a.v + f * (b.v - a.v),
          a.a + f * (b.a - a.a),
          a.k + f * (b.kappa - a.k)};
}

EgoState state_of(const Kinematics& at, double t) {
  const Pose& p = at.p;
  const double c = det_cos(p.yaw), n = det_sin(p.yaw);
  const double v = at.v, k = at.k, a = at.a;
  return {static_cast<float>(t),
          static_cast<float>(p.x),
          static_cast<float>(p.y),
          static_cast<float>(v * c),
          static_cast<float>(v * n),
          static_cast<float>(a * c - v * v * k * n),
          static_cast<float>(a * n + v * v * k * c)};
}

void history(const Scene& whole, const Plan& first, int step, const Pose& origin, Labels& l) {
  for (int i = 0; i < 16; ++i) {
    const double t = 0.25 * (i - 15), then = kDt * step + t;
    Kinematics at = step > 0 && then > 0 ? on_plan(whole, first, then) : before(whole, then);
    if (step > 0) at.p = seen_from(origin, at.p);
    l.history[static_cast<size_t>(i)] = state_of(at, t);
  }
}

/// Steady until 0.5 s, and at 5 s more than 2 m from where constant velocity would lead.
bool pre_onset(const Scene& sc, const Plan& p) {
  if (std::abs(sc.a0) > 0.3 || std::abs(sc.route.curvature(0)) > 0.004) return false;
  for (int i = 0; i < 5; ++i) {
    const FutureState& f = p.future[static_cast<size_t>(i)];
    if (std::abs(f.v - sc.v0) > 0.35 || std::abs(f.yaw) > 0.03) return false;
  }
  const FutureState& e = p.future[49];
  return det_hypot(e.x - 5 * sc.v0, e.y) > 2.0;
}

}  // namespace

bool comes_in_the_way(const Scene& sc, const Actor& a) {
  const int steps = a.cls == Class::kNearby ? 30 : 40;
  const double reach = std::max(22.0, sc.v0 * (a.cls == Class::kNearby ? 3.0 : 4.0)) + 5;
  for (int k = 0; k <= steps; k += 2) {
    const TrackPoint& p = a.track[static_cast<size_t>(k)];
    if (p.s - p.half_s < 0 || p.s - p.half_s > reach) continue;
    const double left = p.d + p.half_d + a.door_m, right = p.d - p.half_d;
    const double margin = kEgoHalfWidth + 0.25;
    if (left > -margin && right < margin) return true;
    if (sc.shift != 0 && left > sc.shift - margin && right < sc.shift + margin) return true;
  }
  return false;
}

bool box_visible(const Scene& sc, const Pose& pose, double length, double width, double bottom, double top, const Actor* self) {
  const double x = pose.x - kCameraForward, y = pose.y;
  const double range = det_hypot(x, y);
  if (range > 65 || range < 0.5) return false;
  if (sc.env.fog_beta_per_m * range > 2.2) return false;  // a contrast of 11 % is left
  for (const double yaw : kYaws) {
    const double c = det_cos(yaw), n = det_sin(yaw);
    const double depth = x * c + y * n, side = -x * n + y * c;
    if (depth < 1.0) continue;
    const double px = kFocal * side / depth;
    const double rel = pose.yaw - yaw;
    const double span = std::abs(length * det_sin(rel)) + std::abs(width * det_cos(rel));
    const double low = kFocal * (kCameraHeight - bottom) / depth, high = kFocal * (kCameraHeight - top) / depth;
    const double left = std::max(px - 0.5 * kFocal * span / depth, -210.0),
                 right = std::min(px + 0.5 * kFocal * span / depth, 210.0);
    const double tall = std::min(low, 261.0) - std::max(high, -187.0);  // the cameras look 0.12 rad down: 37 px
    if (right - left < 5.0 || tall < 7.0 || (right - left) * tall < 70.0) continue;
    const double mid = 0.5 * (left + right), half = 0.5 * (right - left);
    for (const double f : {0.0, -0.7, 0.7}) {
      const double at = (mid + f * half) / kFocal * depth;
      if (!hidden(sc, kCameraForward + depth * c - at * n, depth * n + at * c, top, self)) return true;
    }
  }
  return false;
}

EgoState ego_before(const Scene& sc, double t) { return state_of(before(sc, t), t); }

Labels labels_of(const Scene& sc, const Plan& plan) { return labels_of(sc, plan, sc, plan, 0); }

Labels labels_of(const Scene& sc, const Plan& plan, const Scene& whole, const Plan& first, int step) {
  Labels l;
  l.intent = sc.intent;
  l.v0_mps = static_cast<float>(sc.v0);
  l.future = plan.future;
  history(whole, first, step, plan.start, l);
  l.longitudinal = longitudinal_of(plan, sc.v0);
  l.lateral = lateral_of(sc, plan);
  l.pre_onset = pre_onset(sc, plan);

  std::array<bool, 12> in_way{};
  for (const Actor& a : sc.actors) {
    if (a.cls == Class::kNone) continue;
    const auto c = static_cast<size_t>(a.cls);
    if (!box_visible(sc, a.agent.pose, a.agent.length, a.agent.width, 0, a.agent.height, &a)) continue;
    l.visible[c] = true;
    in_way[c] = in_way[c] || comes_in_the_way(sc, a);
  }
  const auto traffic = static_cast<size_t>(Class::kTraffic), bad = static_cast<size_t>(Class::kWeather);
  for (const TrafficLight& t : sc.lights)
    if (box_visible(sc, t.pose, 0.2, 1.2, t.height - 1.0, t.height + 1.0, nullptr)) l.visible[traffic] = true;
  for (const Sign& s : sc.signs)
    if (s.kind == SignKind::kStop && box_visible(sc, s.pose, 0.1, 1.0, s.height - 0.5, s.height + 0.5, nullptr))
      l.visible[traffic] = true;
  in_way[traffic] = sc.stop != StopKind::kNone;
  l.visible[bad] = in_way[bad] = adverse(sc.env);

  for (size_t c = 0; c < 12; ++c) {
    bool there = l.visible[c] || (c == traffic && sc.stop != StopKind::kNone);
    for (const Actor& a : sc.actors) there = there || static_cast<size_t>(static_cast<int>(a.cls)) == c;
    if (!there) continue;
    const Plan other = drive(whole, 1U << c, step);
    l.causal[c] = ade5(plan, other) > 0.3 || longitudinal_of(other, sc.v0) != l.longitudinal || lateral_of(sc, other) != l.lateral;
    l.critical[c] = l.visible[c] && (l.causal[c] || in_way[c]);
  }
  l.explanation = explain(sc, l);
  return l;
}

bool acts_on_the_unseen(const Labels& l) {
  for (size_t c = 0; c < 12; ++c)
    if (l.causal[c] && !l.visible[c]) return true;
  return false;
}

}  // namespace slip::sim
