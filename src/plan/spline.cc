// SPDX-License-Identifier: Apache-2.0
// Minimum-jerk coefficients solve one dense linear system of their optimality conditions, 6 unknowns a piece.
#include "plan/spline.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"

namespace slip {
namespace {

/// Solves a x = b in place (b becomes x) by elimination with row pivots. The systems below are regular by construction.
void solve(Matrix& a, Matrix& b) {
  const size_t n = a.rows;
  for (size_t c = 0; c < n; ++c) {
    size_t pivot = c;
    for (size_t r = c + 1; r < n; ++r)
      if (std::abs(a(r, c)) > std::abs(a(pivot, c))) pivot = r;
    SLIP_CHECK(a(pivot, c) != 0, "the optimality conditions of a minimum-jerk spline with enough knots are independent");
    if (pivot != c) {
      std::swap_ranges(&a(c, 0), &a(c, 0) + n, &a(pivot, 0));
      std::swap_ranges(&b(c, 0), &b(c, 0) + b.columns, &b(pivot, 0));
    }
    for (size_t r = c + 1; r < n; ++r) {
      const double f = a(r, c) / a(c, c);
      if (f == 0) continue;
      for (size_t k = c; k < n; ++k) a(r, k) -= f * a(c, k);
      for (size_t k = 0; k < b.columns; ++k) b(r, k) -= f * b(c, k);
    }
  }
  for (size_t c = n; c-- > 0;) {
    for (size_t k = 0; k < b.columns; ++k) {
      for (size_t j = c + 1; j < n; ++j) b(c, k) -= a(c, j) * b(j, k);
      b(c, k) /= a(c, c);
    }
  }
}

bool stops_at(const Stops& stops, size_t knot) { return knot < stops.size() && stops[knot]; }

/// Position, velocity and acceleration at every knot as rows over the inputs: knots 0 .. W, knot 0 being (0, 0) now.
struct KnotStates {
  Matrix p, v, a;
};

KnotStates finite_differences(size_t knots, size_t inputs, double first_sign, const Stops& stops) {
  KnotStates k{{knots + 1, inputs}, {knots + 1, inputs}, {knots + 1, inputs}};
  for (size_t i = 1; i <= knots; ++i) k.p(i, i - 1) = 1;
  for (size_t i = 0; i <= knots; ++i) {
    if (stops_at(stops, i)) continue;
    const size_t before = i == 0 ? 0 : i - 1, after = std::min(i + 1, knots), inner = std::clamp<size_t>(i, 1, knots - 1);
    const double sign = i == 0 ? first_sign : 1;
    for (size_t c = 0; c < inputs; ++c) {
      k.v(i, c) = (k.p(after, c) - k.p(before, c)) / static_cast<double>(after - before);
      if (knots >= 2) k.a(i, c) = sign * (k.p(inner + 1, c) - 2 * k.p(inner, c) + k.p(inner - 1, c));
    }
  }
  return k;
}

/// Coefficients c0..c5 of each piece (rows 6 i .. 6 i + 5) from the states at its ends [driving.md 2.1, with T = 1].
Matrix quintics(const KnotStates& k, size_t knots, size_t inputs) {
  Matrix c(6 * knots, inputs);
  for (size_t i = 0; i < knots; ++i) {
    for (size_t n = 0; n < inputs; ++n) {
      const double p0 = k.p(i, n), v0 = k.v(i, n), a0 = k.a(i, n);
      const double d = k.p(i + 1, n) - p0 - v0 - a0 / 2, e = k.v(i + 1, n) - v0 - a0, f = k.a(i + 1, n) - a0;
      c(6 * i, n) = p0;
      c(6 * i + 1, n) = v0;
      c(6 * i + 2, n) = a0 / 2;
      c(6 * i + 3, n) = 10 * d - 4 * e + f / 2;
      c(6 * i + 4, n) = -15 * d + 7 * e - f;
      c(6 * i + 5, n) = 6 * d - 3 * e + f / 2;
    }
  }
  return c;
}

Matrix linear_pieces(size_t knots, size_t inputs) {
  Matrix c(6 * knots, inputs);
  for (size_t i = 0; i < knots; ++i) {
    if (i > 0) c(6 * i, i - 1) = 1;
    if (i > 0) c(6 * i + 1, i - 1) = -1;
    c(6 * i + 1, i) = 1;
  }
  return c;
}

/// Builds the 6 W optimality conditions one by one.
class Conditions {
 public:
  Conditions(size_t knots, size_t inputs) : left_(6 * knots, 6 * knots), right_(6 * knots, inputs) {}
  /// weight * (order-th derivative of a piece at s), added to the current condition.
  void add(size_t piece, double s, int order, double weight = 1) {
    const auto row = powers(s, order);
    for (size_t n = 0; n < 6; ++n) left_(at_, 6 * piece + n) += weight * row[n];
  }
  /// Closes the current condition: its sum equals value * inputs[input] (0 without one).
  void equals(std::optional<size_t> input = std::nullopt, double value = 1) {
    if (input) right_(at_, *input) = value;
    ++at_;
  }
  Matrix solved() {
    SLIP_CHECK(at_ == left_.rows, "six conditions a piece");
    solve(left_, right_);
    return std::move(right_);
  }

 private:
  Matrix left_, right_;
  size_t at_ = 0;
};

/// The global minimum of the integral of squared jerk through the knots: natural conditions wherever nothing is given. At a stop
/// velocity and acceleration are given (zero) on both sides in place of the continuity of derivatives 1 to 4.
Matrix min_jerk_pieces(size_t knots, size_t inputs, std::optional<double> v0_scale, const Stops& stops) {
  Conditions c(knots, inputs);
  for (size_t i = 0; i < knots; ++i) {
    c.add(i, 0, 0);
    i > 0 ? c.equals(i - 1) : c.equals();
    c.add(i, 1, 0);
    c.equals(i);
  }
  for (size_t i = 0; i + 1 < knots; ++i) {
    const bool stop = stops_at(stops, i + 1);
    for (int k = 1; k <= 4; ++k) {
      if (stop) {
        k <= 2 ? c.add(i, 1, k) : c.add(i + 1, 0, k - 2);
      } else {
        c.add(i, 1, k);
        c.add(i + 1, 0, k, -1);
      }
      c.equals();
    }
  }
  const bool stands = !v0_scale && stops_at(stops, 0), ends_standing = stops_at(stops, knots);
  c.add(0, 0, v0_scale || stands ? 1 : 4);
  v0_scale ? c.equals(knots, *v0_scale) : c.equals();
  c.add(0, 0, stands ? 2 : 3);
  c.equals();
  for (const int k : {3, 4}) {
    c.add(knots - 1, 1, ends_standing ? k - 2 : k);
    c.equals();
  }
  return c.solved();
}

}  // namespace

std::array<double, 6> powers(double s, int order) {
  std::array<double, 6> row{};
  for (int n = order; n < 6; ++n) {
    double factor = 1;
    for (int k = 0; k < order; ++k) factor *= n - k;
    row[static_cast<size_t>(n)] = factor * std::pow(s, n - order);
  }
  return row;
}

Matrix pieces_of(const FitSpec& s, size_t inputs, const Stops& stops) {
  const auto knots = static_cast<size_t>(s.knots);
  switch (s.fit) {
    case Fit::kJmtPaperCompat:
      return quintics(finite_differences(knots, inputs, -1, stops), knots, inputs);
    case Fit::kJmtFixed:
      return quintics(finite_differences(knots, inputs, 1, stops), knots, inputs);
    case Fit::kMinJerkV0:
      return min_jerk_pieces(knots, inputs, 1 / s.knot_rate_hz, stops);
    case Fit::kRounded:
      return min_jerk_pieces(knots, inputs, s.start_known ? std::optional(1 / s.knot_rate_hz) : std::nullopt, stops);
    case Fit::kMinJerkFree:
      return min_jerk_pieces(knots, inputs, std::nullopt, stops);
    case Fit::kLinear:
      break;
  }
  return linear_pieces(knots, inputs);
}

}  // namespace slip
