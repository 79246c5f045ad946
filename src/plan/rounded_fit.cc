// SPDX-License-Identifier: Apache-2.0
// See rounded_fit.h. The jerk of a piece is 6 c3 + 24 c4 s + 60 c5 s^2, so that J is a quadratic form of the coefficients, and through
// their matrix one of the inputs.
#include "plan/rounded_fit.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace slip {
namespace {

constexpr double kHold = 20;        // lambda, 1 / s^5
constexpr double kSmall = 1e-9;     // metres
constexpr int kMostSweeps = 20000;  // of five waypoints at 1 Hz some 40 are needed

/// integral over [0, 1] of the product of two coefficients' parts of the jerk: c3, c4, c5
constexpr std::array<std::array<double, 3>, 3> kProducts = {{{36, 72, 120}, {72, 192, 360}, {120, 360, 720}}};

/// One axis of the problem. `first`: for every waypoint the first of those that share its place.
class Axis {
 public:
  Axis(std::span<const double> jerk_II, size_t inputs, const std::vector<size_t>& first, std::span<const double> said, double v0)
      : knots_(first.size()), a_(knots_, knots_), b_(knots_, 0.0), used_(knots_, 0), said_(said.begin(), said.end()), at_(said_) {
    for (size_t i = 0; i < knots_; ++i) {
      for (size_t j = 0; j < knots_; ++j) a_(first[i], first[j]) += jerk_II[i * inputs + j];
      if (inputs > knots_) b_[first[i]] += jerk_II[i * inputs + knots_] * v0;
      b_[first[i]] -= kHold * said_[first[i]];
      a_(first[i], first[i]) += kHold;
      used_[first[i]] = 1;
    }
  }
  std::vector<double> within(double r) {
    for (int sweep = 0; sweep < kMostSweeps; ++sweep) {
      double moved = 0;
      for (size_t i = 0; i < knots_; ++i) {
        if (!used_[i]) continue;
        double slope = b_[i];
        for (size_t j = 0; j < knots_; ++j)
          if (used_[j]) slope += a_(i, j) * at_[j];
        const double to = std::clamp(at_[i] - slope / a_(i, i), said_[i] - r, said_[i] + r);
        moved = std::max(moved, std::abs(to - at_[i]));
        at_[i] = to;
      }
      if (moved < kSmall) break;
    }
    return at_;
  }

 private:
  size_t knots_;
  Matrix a_;
  std::vector<double> b_;
  std::vector<uint8_t> used_;
  std::vector<double> said_, at_;
};

}  // namespace

Matrix jerk_form(const FitSpec& spec, size_t inputs, const Stops& stops) {
  const Matrix c = pieces_of(spec, inputs, stops);
  const double rate5 = std::pow(spec.knot_rate_hz, 5);  // jerk is rate^3 times that of a piece, and a piece lasts 1 / rate
  Matrix out(inputs, inputs);
  for (size_t piece = 0; piece < c.rows / 6; ++piece)
    for (size_t a = 0; a < 3; ++a)
      for (size_t b = 0; b < 3; ++b)
        for (size_t i = 0; i < inputs; ++i)
          for (size_t j = 0; j < inputs; ++j)
            out(i, j) += rate5 * kProducts[a][b] * c(6 * piece + 3 + a, i) * c(6 * piece + 3 + b, j);
  return out;
}

size_t last_place(std::span<const Waypoint> waypoints) {
  size_t first = waypoints.size() - 1;
  while (first > 0 && waypoints[first - 1] == waypoints[first]) --first;
  return first;
}

std::vector<Waypoint> unrounded(std::span<const double> jerk_II, double r, std::span<const Waypoint> waypoints,
                                std::optional<Waypoint> v0) {
  const size_t knots = waypoints.size(), inputs = knots + (v0 ? 1 : 0);
  const Waypoint start = v0.value_or(Waypoint{});
  std::vector<size_t> first(knots);
  const size_t last = last_place(waypoints);
  for (size_t k = 0; k < knots; ++k) first[k] = std::min(k, last);
  std::vector<double> x(knots), y(knots);
  for (size_t k = 0; k < knots; ++k) x[k] = waypoints[k].x, y[k] = waypoints[k].y;
  x = Axis(jerk_II, inputs, first, x, start.x).within(r);
  y = Axis(jerk_II, inputs, first, y, start.y).within(r);
  std::vector<Waypoint> out(knots);
  for (size_t k = 0; k < knots; ++k) out[k] = {x[first[k]], y[first[k]]};
  return out;
}

}  // namespace slip
