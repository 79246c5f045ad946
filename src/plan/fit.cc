// SPDX-License-Identifier: Apache-2.0
// The matrices of the fits. Time is measured in knot intervals (so every piece lives on [0, 1]) and the start velocity is scaled
// to match; minimum-jerk coefficients solve one dense linear system of their optimality conditions, 6 unknowns a piece.
#include "plan/fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"

namespace slip {
namespace {

constexpr int kMostKnots = 64;
constexpr double kStandsWithin = 0.05;  // metres between consecutive waypoints that count as standing

/// Dense rows x columns, row-major.
struct Matrix {
  Matrix(size_t r, size_t c) : rows(r), columns(c), v(r * c, 0.0) {}
  double& operator()(size_t r, size_t c) { return v[r * columns + c]; }
  double operator()(size_t r, size_t c) const { return v[r * columns + c]; }
  size_t rows, columns;
  std::vector<double> v;
};

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

/// d^order/ds^order of (1, s, ..., s^5) at s.
std::array<double, 6> powers(double s, int order) {
  std::array<double, 6> row{};
  for (int n = order; n < 6; ++n) {
    double factor = 1;
    for (int k = 0; k < order; ++k) factor *= n - k;
    row[static_cast<size_t>(n)] = factor * std::pow(s, n - order);
  }
  return row;
}

/// Which knots (0 is now) the ego stands at; empty means none.
using Stops = std::vector<bool>;
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

Matrix pieces_of(const FitSpec& s, size_t inputs, const Stops& stops) {
  const auto knots = static_cast<size_t>(s.knots);
  switch (s.fit) {
    case Fit::kJmtPaperCompat:
      return quintics(finite_differences(knots, inputs, -1, stops), knots, inputs);
    case Fit::kJmtFixed:
      return quintics(finite_differences(knots, inputs, 1, stops), knots, inputs);
    case Fit::kMinJerkV0:
      return min_jerk_pieces(knots, inputs, 1 / s.knot_rate_hz, stops);
    case Fit::kMinJerkFree:
      return min_jerk_pieces(knots, inputs, std::nullopt, stops);
    case Fit::kLinear:
      break;
  }
  return linear_pieces(knots, inputs);
}

/// points x inputs: the pieces evaluated at the points' times.
std::vector<double> sampled(const FitSpec& s, size_t inputs, const Stops& stops) {
  const Matrix c = pieces_of(s, inputs, stops);
  std::vector<double> out(static_cast<size_t>(s.points) * inputs, 0.0);
  for (int k = 0; k < s.points; ++k) {
    const double t = std::min((k + 1) * s.knot_rate_hz / s.rate_hz, static_cast<double>(s.knots));
    const auto piece = std::min(static_cast<size_t>(t), static_cast<size_t>(s.knots) - 1);
    const auto row = powers(t - static_cast<double>(piece), 0);
    for (size_t n = 0; n < inputs; ++n)
      for (size_t m = 6; m-- > 0;) out[static_cast<size_t>(k) * inputs + n] += row[m] * c(6 * piece + m, n);
  }
  return out;
}

Stops standing_knots(std::span<const Waypoint> waypoints) {
  Stops stops(waypoints.size() + 1, false);
  Waypoint before{};
  for (size_t i = 0; i < waypoints.size(); ++i) {
    if (distance_m(before, waypoints[i]) < kStandsWithin) stops[i] = stops[i + 1] = true;
    before = waypoints[i];
  }
  return stops;
}

bool is_finite(Waypoint w) { return std::isfinite(w.x) && std::isfinite(w.y); }

constexpr std::array<std::pair<Fit, std::string_view>, 5> kNames = {{{Fit::kJmtPaperCompat, "jmt-paper"},
                                                                     {Fit::kJmtFixed, "jmt-fixed"},
                                                                     {Fit::kMinJerkV0, "minjerk-v0"},
                                                                     {Fit::kMinJerkFree, "minjerk"},
                                                                     {Fit::kLinear, "linear"}}};

}  // namespace

std::string_view name_of(Fit fit) {
  for (const auto& [f, name] : kNames)
    if (f == fit) return name;
  return "?";
}

std::optional<Fit> fit_named(std::string_view name) {
  for (const auto& [f, n] : kNames)
    if (n == name) return f;
  return std::nullopt;
}

Result<FitMap> FitMap::make(const FitSpec& s) {
  const int least = s.fit == Fit::kMinJerkFree ? 2 : 1;
  if (s.knots < least || s.knots > kMostKnots)
    return bad_input("fit {}: expected {} to {} waypoints, got {}", name_of(s.fit), least, kMostKnots, s.knots);
  if (!(s.knot_rate_hz > 0) || !(s.rate_hz > 0) || !std::isfinite(s.knot_rate_hz) || !std::isfinite(s.rate_hz))
    return bad_input("fit: expected positive rates, got {} Hz waypoints and {} Hz points", s.knot_rate_hz, s.rate_hz);
  constexpr double kSlack = 1 + 1e-9;  // 64 points at 10 Hz end where 32 waypoints at 5 Hz do, up to rounding
  if (s.points < 1 || s.points / s.rate_hz > s.knots / s.knot_rate_hz * kSlack)
    return bad_input("fit: expected points from 1 up to the last waypoint ({} s), got {} points at {} Hz", s.knots / s.knot_rate_hz,
                     s.points, s.rate_hz);
  FitMap map(s);
  map.matrix_ = sampled(s, map.inputs(), {});
  return map;
}

Result<Trajectory> FitMap::apply(std::span<const Waypoint> waypoints, Waypoint v0_mps) const {
  if (waypoints.size() != static_cast<size_t>(spec_.knots))
    return bad_input("fit: expected {} waypoints, got {}", spec_.knots, waypoints.size());
  if (!std::all_of(waypoints.begin(), waypoints.end(), is_finite) || !is_finite(v0_mps))
    return bad_input("fit: expected finite waypoints and start velocity, got a number that is not");
  std::vector<double> special;
  if (spec_.monotone_stop) {
    const Stops stops = standing_knots(waypoints);
    if (std::find(stops.begin(), stops.end(), true) != stops.end()) special = sampled(spec_, inputs(), stops);
  }
  const std::vector<double>& m = special.empty() ? matrix_ : special;
  std::vector<Waypoint> in(waypoints.begin(), waypoints.end());
  if (uses_v0()) in.push_back(v0_mps);
  Trajectory out{spec_.rate_hz, std::vector<Waypoint>(static_cast<size_t>(spec_.points))};
  for (size_t k = 0; k < out.points.size(); ++k) {
    for (size_t n = 0; n < in.size(); ++n) {
      out.points[k].x += m[k * in.size() + n] * in[n].x;
      out.points[k].y += m[k * in.size() + n] * in[n].y;
    }
  }
  return out;
}

Result<RolloutFit> average_rollouts(const FitMap& map, std::span<const std::vector<Waypoint>> rollouts, Waypoint v0_mps) {
  std::vector<Trajectory> fits;
  for (const auto& r : rollouts) {
    SLIP_TRY(Trajectory t, map.apply(r, v0_mps));
    fits.push_back(std::move(t));
  }
  return average_of(fits);
}

Result<RolloutFit> average_of(std::span<const Trajectory> fits) {
  if (fits.empty()) return bad_input("rollouts: expected at least one, got none");
  const size_t points = fits.front().points.size();
  for (const Trajectory& t : fits)
    if (t.points.size() != points) return bad_input("rollouts: expected {} points in each, got {}", points, t.points.size());
  RolloutFit out{{fits.front().rate_hz, std::vector<Waypoint>(points)}, std::vector<double>(points, 0.0)};
  const auto count = static_cast<double>(fits.size());
  for (size_t k = 0; k < points; ++k) {
    for (const Trajectory& t : fits)
      out.mean.points[k] = {out.mean.points[k].x + t.points[k].x, out.mean.points[k].y + t.points[k].y};
    out.mean.points[k] = {out.mean.points[k].x / count, out.mean.points[k].y / count};
    double sum = 0;
    for (const Trajectory& t : fits) sum += std::pow(distance_m(t.points[k], out.mean.points[k]), 2);
    out.spread_m[k] = std::sqrt(sum / count);
  }
  return out;
}

}  // namespace slip
