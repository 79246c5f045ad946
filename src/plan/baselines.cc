// SPDX-License-Identifier: Apache-2.0
// Closed forms of the three baselines.
#include "plan/baselines.h"

#include <cmath>

namespace slip {
namespace {

template <class PositionAt>
Trajectory sampled(Horizon h, PositionAt at) {
  Trajectory t{h.rate_hz, std::vector<Waypoint>(h.points)};
  for (size_t i = 0; i < h.points; ++i) t.points[i] = at(t.time_s(i));
  return t;
}

}  // namespace

Trajectory stay(Horizon h) {
  return sampled(h, [](double) { return Waypoint{}; });
}

Trajectory constant_velocity(Waypoint v, Horizon h) {
  return sampled(h, [v](double t) { return Waypoint{v.x * t, v.y * t}; });
}

Trajectory constant_turn(Waypoint v, double yaw_rate, Horizon h) {
  return sampled(h, [=](double t) {
    // The chord of an arc: |chord| = v t sinc(angle / 2), turned by half the angle. No division by a small yaw rate.
    const double half = yaw_rate * t / 2, sinc = std::abs(half) < 1e-8 ? 1.0 : std::sin(half) / half;
    const double c = std::cos(half) * sinc * t, s = std::sin(half) * sinc * t;
    return Waypoint{c * v.x - s * v.y, s * v.x + c * v.y};
  });
}

}  // namespace slip
