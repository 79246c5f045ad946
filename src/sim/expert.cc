// SPDX-License-Identifier: Apache-2.0
// One loop of 64 steps at 10 Hz, five bicycle steps each. Decisions whether to pass an obstacle (inside the lane, by another
// lane, or not at all) are taken once, before the start; all else is decided anew at every step.
#include "sim/expert.h"

#include <algorithm>
#include <cmath>

#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr double kBrakeOn = 2.5;   // m/s^2 that a stop must need before the expert brakes: late, so that onset is a cue
constexpr double kBrakeOff = 1.2;  // below which it lets go again
constexpr double kCurveBrake = 1.5;
constexpr double kNear = 2.0;  // m
constexpr double kAccel = 1.6, kHeadway = 1.1, kStandstill = 2.0, kComfortBrake = 2.0;
constexpr double kLateralComfort = 2.5;
constexpr double kNudgeMax = 1.05;

struct Pass {
  bool pass = false;
  double offset = 0, cap = 1e9;
};

double pass_clearance(const Actor& a) { return a.cls == Class::kCyclist || a.cls == Class::kPedestrian ? 0.7 : 0.45; }
double pass_factor(Class c) {
  switch (c) {
    case Class::kEmergency:
      return 0.55;
    case Class::kDoor:
    case Class::kConstruction:
    case Class::kSpecial:
      return 0.6;
    case Class::kCyclist:
    case Class::kPedestrian:
    case Class::kAnimal:
      return 0.65;
    case Class::kHazard:
      return 0.7;
    default:
      return 1.0;
  }
}
double reach_left(const Actor& a, const TrackPoint& p) { return p.d + p.half_d + a.door_m; }
double reach_right(const TrackPoint& p) { return p.d - p.half_d; }

class Driver {
 public:
  Driver(const Scene& scene, uint32_t removed, int from) : sc_(scene), from_(from), removed_then_(removed) {
    if (from_ == 0) removed_ = removed_then_;
    passes_.resize(sc_.actors.size());
    yielding_.assign(sc_.actors.size(), false);
    for (size_t i = 0; i < sc_.actors.size(); ++i)
      if (present(i)) passes_[i] = decide_pass(i);
    v_ = sc_.v0;
    stood_ = sc_.stood;
    a_ = sc_.a0;
    braking_ = sc_.a0 < -0.5;
    off_ = sc_.d0;
    kappa_ = sc_.route.curvature(0);
    cap_for_weather();
  }
  Plan run() {
    for (int k = 0; k < from_ + kFutureSteps; ++k) {
      k_ = k;
      if (k == from_) begin_plan();
      step();
      if (k < from_) continue;
      plan_.future[static_cast<size_t>(k - from_)] = here();
      check(k + 1);
    }
    return plan_;
  }

 private:
  void cap_for_weather() {
    v_cap_ = (removed_ & class_bit(Class::kWeather)) ? sc_.v_set : std::min(sc_.v_set, weather_speed(sc_.env));
  }
  void begin_plan() {
    plan_.start = {x_, y_, yaw_};
    plan_.start_v = v_;
    plan_.start_a = a_;
    plan_.start_offset = off_;
    removed_ = removed_then_;
    cap_for_weather();
  }
  FutureState here() const {
    const auto state = [&](double x, double y, double yaw) {
      return FutureState{static_cast<float>(x),  static_cast<float>(y),  static_cast<float>(yaw),
                         static_cast<float>(v_), static_cast<float>(a_), static_cast<float>(kappa_)};
    };
    if (from_ == 0) return state(x_, y_, yaw_);
    const Pose p = seen_from(plan_.start, {x_, y_, yaw_});
    return state(p.x, p.y, p.yaw);
  }
  bool present(size_t i) const { return (removed_ & class_bit(sc_.actors[i].cls)) == 0; }
  const TrackPoint& at(size_t i, int k) const { return sc_.actors[i].at(k); }
  /// In a closed loop: what was decided before is forgotten but for what the scene says.
  bool asked_again() const { return sc_.usual_v >= 0; }
  double usual_v() const { return sc_.usual_v < 0 ? sc_.v0 : sc_.usual_v; }
  double base() const { return sc_.shift; }
  bool blocks(const Actor& a, const TrackPoint& p, double offset, double margin) const {
    return reach_left(a, p) > offset - kEgoHalfWidth - margin && reach_right(p) < offset + kEgoHalfWidth + margin;
  }

  bool lane_is_free(size_t self, double offset) const {
    const double until = at(self, 0).s + 25;
    for (size_t i = 0; i < sc_.actors.size(); ++i) {
      if (i == self || !present(i)) continue;
      for (int k = 0; k <= kFutureSteps; k += 4) {
        const TrackPoint& p = at(i, k);
        const double s_self = std::max(until, at(self, k).s + 20);
        if (p.s > -8 && p.s < s_self && blocks(sc_.actors[i], p, offset, 0.3)) return false;
      }
    }
    return true;
  }

  Pass decide_pass(size_t i) const {
    const Actor& a = sc_.actors[i];
    const TrackPoint& now = at(i, 0);
    const TrackPoint& later = at(i, kFutureSteps);
    const double along = (at(i, 10).s - now.s) / 1.0;
    if (along > 0.7 * std::max(usual_v(), 1.0) || along < -0.3 || now.s < 0) return {};
    if (std::abs(later.d - now.d) > 0.6) return {};
    const double clear = pass_clearance(a);
    if (!blocks(a, now, 0, clear)) return {};
    const double left = reach_left(a, now) + clear + kEgoHalfWidth;
    const double right = reach_right(now) - clear - kEgoHalfWidth;
    const double cap = std::max(3.0, pass_factor(a.cls) * usual_v());
    if (now.d <= 0 && left <= kNudgeMax) return {true, left, cap};
    if (now.d > 0 && right >= -0.8) return {true, right, cap};
    if (usual_v() < 1.0) return {};
    const bool left_open = sc_.road.left_lanes > 0 || sc_.road.dashed_centre;
    if (left_open && left <= kLane + 0.4 && lane_is_free(i, kLane)) return {true, kLane, cap};
    if (sc_.road.right_lanes > 0 && right >= -kLane - 0.4 && lane_is_free(i, -kLane)) return {true, -kLane, cap};
    return {};
  }

  void ask(double a) { wish_ = std::min(wish_, a); }
  void ask_stop(double gap) {
    if (v_ < 0.5 && gap < 5.0) return ask(-v_ / kDt);
    const double g = std::max(gap, asked_again() ? 0.05 : 0.2);
    const double need = v_ * v_ / (2 * g), may = std::sqrt(2 * kCurveBrake * g);
    need_ = std::max(need_, need);
    if (need > kBrakeOn || (braking_ && need > kBrakeOff)) return ask(-need);
    // Near the place a brake that was let go is taken again: below 1 m/s nothing needs kBrakeOn, and the car would creep past it.
    if (asked_again() && gap < kNear && v_ > may) return ask(-need);
    ask(std::max(0.0, (may - v_) * 1.5));  // no speeding up towards a stop
  }
  void ask_follow(double gap, double lead_v) {
    const double g = std::max(gap, 0.5);
    const double closing = v_ - lead_v;
    const double want = kStandstill + std::max(0.0, v_ * kHeadway + v_ * closing / (2 * std::sqrt(kAccel * kComfortBrake)));
    const double idm = kAccel * (1 - (want / g) * (want / g));
    const double room = std::max(g - kStandstill, 0.3);
    const double need = closing > 0 ? closing * closing / (2 * room) : 0.0;
    if (v_ < 0.3 && lead_v < 0.5) return ask(-v_ / kDt);
    ask(std::max(idm, -std::max(3.0, 1.3 * need)));
  }

  double gap_to(const TrackPoint& p) const { return p.s - p.half_s - (s_ + kEgoFront); }

  // When another is in the ego's way, in steps of the track from now, and the nearest that it comes.
  struct Crossing {
    int in = -1, out = -1;
    double nearest = 1e9;
  };

  void consider(size_t i) {
    if (passes_[i].pass) return consider_passing(i);
    Crossing c;
    for (int j = 0; j <= 30; j += 3) {
      const TrackPoint& p = at(i, k_ + j);
      const bool inside = p.s + p.half_s > s_ + 1.0 && blocks(sc_.actors[i], p, off_goal_, j == 0 ? 0.2 : 0.3);
      if (inside && c.in < 0) c.in = j;
      if (inside) c.out = j, c.nearest = std::min(c.nearest, p.s - p.half_s);
    }
    if (c.in < 0) {
      yielding_[i] = false;
      return;
    }
    const TrackPoint& p = at(i, k_ + c.in);
    const TrackPoint& next = at(i, k_ + c.in + 1);
    const double along = (next.s - p.s) / kDt;
    const double across = std::abs(next.d - p.d) / kDt;
    if (c.in == 0) {
      const double gap = gap_to(p);
      if (gap < -2.5) return;
      if (along < 0.5 || across > along)
        ask_stop(std::min(gap, c.nearest - (s_ + kEgoFront)) - kStandstill);
      else
        ask_follow(gap, along);
      return;
    }
    if (along > 1.5 && along > across) {
      const double gap_now = gap_to(at(i, k_));
      if (c.in <= 6 && gap_now > -2) ask_follow(gap_now, along);
      return;
    }
    yield_to(i, c, p);
  }

  // What the ego goes around, with some room and at some speed.
  void consider_passing(size_t i) {
    const Pass& pass = passes_[i];
    const TrackPoint& now = at(i, k_);
    const double gap_now = gap_to(now);
    const bool clear = !blocks(sc_.actors[i], now, off_, 0.15);
    const bool ahead = now.s + now.half_s > s_ - kEgoRear - 0.5;
    const double reach = std::abs(pass.offset) > 1.5 ? std::max(14.0, 2.2 * v_) : std::max(10.0, 1.8 * v_);
    if (ahead && gap_now < reach) {
      if (pass.offset > 0)
        goal_high_ = std::max(goal_high_, pass.offset);
      else
        goal_low_ = std::min(goal_low_, pass.offset);
    }
    if (ahead) cap_ahead(pass.cap, std::max(0.0, gap_now - 2.0));
    if (!clear && ahead && gap_now < 12 && gap_now > -3) ask_stop(gap_now - 1.0);
  }

  // Who crosses the ego's way later, at p first.
  void yield_to(size_t i, const Crossing& c, const TrackPoint& p) {
    if (!yielding_[i]) {
      const double speed = std::max(v_, 1.0), gap = gap_to(p);
      const double arrive = gap / speed, cleared = (p.s + p.half_s - s_ + kEgoRear) / speed;
      const bool leaves = c.out < 30;
      if (cleared < 0.1 * c.in - 0.4) return;                  // the ego is through before
      if (leaves && arrive > 0.1 * (c.out + 3) + 0.6) return;  // the other is
      if (gap < v_ * v_ / 10.0) return;                        // cannot stop before it any more
      yielding_[i] = true;
    }
    ask_stop(c.nearest - (s_ + kEgoFront) - kStandstill);
  }

  void cap_ahead(double speed, double distance) {
    v_allow_ = std::min(v_allow_, std::sqrt(speed * speed + 2 * kCurveBrake * distance));
  }

  void rules() {
    if (removed_ & class_bit(Class::kTraffic)) return;
    const double gap = sc_.stop_s - (s_ + kEgoFront);
    if (gap < -1.5) return;
    switch (sc_.stop) {
      case StopKind::kNone:
      case StopKind::kGreen:
        return;
      case StopKind::kYellow:
        if (k_ == 0) runs_yellow_ = v_ * v_ / (2 * std::max(gap, 0.1)) > 3.5;
        if (runs_yellow_) return;
        [[fallthrough]];
      case StopKind::kRed:
        return ask_stop(gap - 1.0);
      case StopKind::kSign:
        if (v_ < 0.2 && gap < 3.5) stood_ += 1;
        if (stood_ < 15) ask_stop(gap - 1.0);
        return;
    }
  }

  void think() {
    wish_ = 1e9;
    need_ = 0;
    v_allow_ = 1e9;
    goal_high_ = goal_low_ = 0;
    const double t = k_ * kDt;
    for (size_t i = 0; i < sc_.actors.size(); ++i)
      if (present(i)) consider(i);
    off_goal_ = t >= sc_.shift_s ? base() : 0.0;
    if (goal_high_ > 0 && goal_low_ < 0)
      off_goal_ = goal_high_ + goal_low_;
    else if (goal_high_ > 0)
      off_goal_ = std::max(off_goal_, goal_high_);
    else if (goal_low_ < 0)
      off_goal_ = std::min(off_goal_, goal_low_);
    rules();
    for (double ahead = 0; ahead < 60; ahead += 2) {
      const double k = std::abs(sc_.route.curvature(s_ + ahead));
      if (k > 1e-4) cap_ahead(std::sqrt(kLateralComfort / k), ahead);
    }
    const double set = t >= sc_.react_s ? v_cap_ : sc_.v0;
    const double want = std::min(set, v_allow_);
    if (v_ > want + 0.05) ask(std::max(-2.6, (want - v_) * 1.8));
    const double r = want > 0.1 ? v_ / want : 2.0;
    ask(kAccel * (1 - r * r * r * r));
    braking_ = wish_ < -0.8 && need_ > kBrakeOff;
  }

  void step() {
    think();
    const double floor = need_ > 3.5 ? -8.0 : -4.0;
    const double wish = std::clamp(wish_, floor, 2.0);
    const double jerk = need_ > 3.0 ? 14.0 : 6.0;
    double a_next = std::clamp(wish, a_ - jerk * kDt, a_ + jerk * kDt);
    if (v_ < 0.5 && wish < 0) a_next = std::max(wish, -4.0);
    if (v_ <= 0.0 && wish <= 0) a_next = 0;
    a_ = a_next;
    steer();
    const double h = kDt / 5;
    for (int i = 0; i < 5; ++i) {
      v_ = std::max(0.0, v_ + a_ * h);
      const double mid = yaw_ + 0.5 * h * v_ * kappa_;
      x_ += h * v_ * det_cos(mid);
      y_ += h * v_ * det_sin(mid);
      yaw_ += h * v_ * kappa_;
    }
    const Frenet f = sc_.route.project_near({x_, y_}, s_);
    s_ = f.s;
    d_ = f.d;
  }

  void steer() {
    const double pull = std::clamp(2.2 * (off_goal_ - off_) - 2.6 * off_rate_, -1.6, 1.6);
    const double max_rate = std::min(1.8, 0.35 * v_);
    off_rate_ = std::clamp(off_rate_ + pull * kDt, -max_rate, max_rate);
    off_ += off_rate_ * kDt;
    const double ahead = std::clamp(0.6 * v_, 4.0, 20.0);
    const Pose p = sc_.route.at(s_ + ahead, off_ + off_rate_ * ahead / std::max(v_, 2.0) * 0.9);
    const double dx = p.x - x_, dy = p.y - y_;
    const double local_y = -dx * det_sin(yaw_) + dy * det_cos(yaw_);
    const double k = std::clamp(2 * local_y / (dx * dx + dy * dy), -0.2, 0.2);
    if (v_ > 0.05) kappa_ = std::clamp(k, kappa_ - 0.025, kappa_ + 0.025);
  }

  void check(int k) {
    const double gone = off_ - (plan_.start_offset - sc_.d0);
    if (k - from_ <= 50 && std::abs(gone) > std::abs(plan_.max_offset_5s)) plan_.max_offset_5s = gone;
    if (k - from_ == 50) plan_.offset_5s = off_;
    if (a_ < -6.0 || v_ * v_ * std::abs(kappa_) > 4.89) ++rough_;
    plan_.uncomfortable = rough_ > 2;
    if (std::abs(d_ - off_) > 1.1) plan_.left_lane = true;
    const double c = det_cos(yaw_), n = det_sin(yaw_);
    const double mid = (kEgoFront - kEgoRear) / 2, half = (kEgoFront + kEgoRear) / 2;
    for (size_t i = 0; i < sc_.actors.size(); ++i) {
      if (!present(i)) continue;
      const Actor& a = sc_.actors[i];
      const TrackPoint& p = at(i, k);
      const double ex = x_ + mid * c - p.x, ey = y_ + mid * n - p.y;
      const double reach = half + 1.0 + 0.5 * (a.agent.length + a.agent.width);
      if (ex * ex + ey * ey > reach * reach) continue;
      if (overlap(ex, ey, yaw_, half, kEgoHalfWidth, p.yaw, a.agent.length / 2, a.agent.width / 2)) plan_.collided = true;
    }
  }
  // Separating axes of two rectangles; (ex, ey) is from the second's centre to the first's.
  static bool overlap(double ex, double ey, double yaw1, double l1, double w1, double yaw2, double l2, double w2) {
    const double c = std::abs(det_cos(yaw1 - yaw2)), n = std::abs(det_sin(yaw1 - yaw2));
    const double c1 = det_cos(yaw1), n1 = det_sin(yaw1), c2 = det_cos(yaw2), n2 = det_sin(yaw2);
    return std::abs(ex * c1 + ey * n1) < l1 + l2 * c + w2 * n && std::abs(-ex * n1 + ey * c1) < w1 + l2 * n + w2 * c &&
           std::abs(ex * c2 + ey * n2) < l2 + l1 * c + w1 * n && std::abs(-ex * n2 + ey * c2) < w2 + l1 * n + w1 * c;
  }

  const Scene& sc_;
  int from_;
  uint32_t removed_ = 0, removed_then_;
  std::vector<Pass> passes_;
  std::vector<bool> yielding_;
  Plan plan_;
  double x_ = 0, y_ = 0, yaw_ = 0, v_ = 0, a_ = 0, kappa_ = 0, s_ = 0, d_ = 0;
  double off_ = 0, off_rate_ = 0, off_goal_ = 0;
  double wish_ = 0, need_ = 0, v_allow_ = 0, goal_high_ = 0, goal_low_ = 0, v_cap_ = 0;
  bool braking_ = false, runs_yellow_ = false;
  int k_ = 0, stood_ = 0, rough_ = 0;
};

}  // namespace

Plan drive(const Scene& scene, uint32_t removed, int from_step) { return Driver(scene, removed, from_step).run(); }

}  // namespace slip::sim
