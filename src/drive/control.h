// SPDX-License-Identifier: Apache-2.0
// How cars move: the intelligent driver model for those that follow, a kinematic bicycle with pure pursuit and a speed controller for the
// one that follows a plan. Metres, seconds, radians; curvature = tan(steering angle) / wheelbase.
#pragma once
#include <optional>
#include <span>

#include "sim/scene.h"

namespace slip::drive {

/// [Treiber 2000]: a_max (1 - (v / v0)^4 - (s* / gap)^2), s* = s0 + max(0, v T + v dv / (2 sqrt(a_max b))), dv = own speed less the
/// leader's. No leader: no gap.
struct Idm {
  double a_max = 1.5, b = 2.0, s0 = 2.0, T = 1.5;
  double desired_gap(double v, double dv) const;
  double acceleration(double v, double v0, std::optional<double> gap, double dv) const;
};

struct Motion {
  double x = 0, y = 0, heading = 0, v = 0;
};
/// dt seconds of constant acceleration and curvature, in closed form; a car that brakes to rest stays there.
Motion bicycle_step(const Motion& m, double a, double curvature, double dt);

/// Where along a path (in the frame of the rear axle, heading +x) to steer, and the arc's curvature that leads there, 2 y / (x^2 + y^2), at
/// most 0.2 1/m. The look-ahead is max(3 m, 0.8 v): from the path's nearest point on, the first crossing of that circle, else its end.
struct Pursuit {
  double look_ahead = 3;
  sim::Vec2 point;
  double curvature = 0;
};
Pursuit pursue(std::span<const sim::Vec2> path, double v);

/// a = kp e + ki I', I' = I + e dt, cut to [low, high]; the integral keeps its value while the cut is in the error's direction.
struct SpeedControl {
  double kp = 1.0, ki = 0.1, low = -8.0, high = 4.0;
  double integral = 0;
  double acceleration(double target, double v, double dt);
};

constexpr double kControlStep = 0.05, kWheelbase = 2.9, kSteeringRate = 0.5;

/// Gains of the closed loop. Plans begin at the ego's own speed, so a controller that follows their speed alone sees no error and never
/// brakes: the next plan, a tenth of a second later, begins anew. So the plan's acceleration is fed forward; the gain corrects the rest.
inline constexpr SpeedControl kLoopGains{.kp = 1.0, .ki = 0.0};

/// Speed and acceleration of a plan at a time: speeds of its segments belong to their middles, between them they are linear. Behind the
/// last middle the speed is kept.
struct Pace {
  double v = 0, a = 0;
};
Pace pace_of(std::span<const sim::Vec2> plan, double plan_dt, double offset_s);

/// Follows plans at 20 Hz. A plan is a line of points `plan_dt` apart in time, the first being where the ego was at the plan's time zero.
/// `feed_forward`: the plan's pace with its acceleration; else the speed of the segment that the offset lies in.
class Follower {
 public:
  explicit Follower(double curvature = 0, const SpeedControl& speed = {}, bool feed_forward = false);
  struct Command {
    double target = 0, a = 0, curvature = 0;
  };
  /// What to do for the next kControlStep at `offset_s` into a plan in world coordinates. Behind its end its last speed is kept.
  Command follow(std::span<const sim::Vec2> plan, double plan_dt, double offset_s, const Motion& m);
  /// Speed and curvature as they are, before there is a plan.
  Command hold() const;

 private:
  SpeedControl speed_;
  bool feed_forward_ = false;
  double angle_ = 0;
};

}  // namespace slip::drive
