// SPDX-License-Identifier: Apache-2.0
// The matrices of the fits, sampled where points are asked for.
#include "plan/fit.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "plan/rounded_fit.h"
#include "plan/spline.h"

namespace slip {
namespace {

constexpr int kMostKnots = 64;
constexpr double kMostRounding = 5;  // metres
constexpr double kMostRoundedRate = 2;
constexpr double kStandsWithin = 0.05;  // metres between consecutive waypoints that count as standing

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

/// Stops of the last waypoints alone, where they are one place: a car that stands and goes on may creep within what rounding hides.
Stops standing_to_the_end(std::span<const Waypoint> waypoints) {
  Stops stops(waypoints.size() + 1, false);
  for (size_t i = last_place(waypoints) + 1; i < waypoints.size(); ++i) stops[i] = stops[i + 1] = true;
  return stops;
}

bool is_finite(Waypoint w) { return std::isfinite(w.x) && std::isfinite(w.y); }

constexpr std::array<std::pair<Fit, std::string_view>, 6> kNames = {{{Fit::kJmtPaperCompat, "jmt-paper"},
                                                                     {Fit::kJmtFixed, "jmt-fixed"},
                                                                     {Fit::kMinJerkV0, "minjerk-v0"},
                                                                     {Fit::kMinJerkFree, "minjerk"},
                                                                     {Fit::kLinear, "linear"},
                                                                     {Fit::kRounded, "rounded"}}};

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
  const int least = s.fit == Fit::kMinJerkFree || (s.fit == Fit::kRounded && !s.start_known) ? 2 : 1;
  if (s.knots < least || s.knots > kMostKnots)
    return bad_input("fit {}: expected {} to {} waypoints, got {}", name_of(s.fit), least, kMostKnots, s.knots);
  if (!(s.knot_rate_hz > 0) || !(s.rate_hz > 0) || !std::isfinite(s.knot_rate_hz) || !std::isfinite(s.rate_hz))
    return bad_input("fit: expected positive rates, got {} Hz waypoints and {} Hz points", s.knot_rate_hz, s.rate_hz);
  if (s.fit == Fit::kRounded && !(s.rounding_m >= 0 && s.rounding_m <= kMostRounding))
    return bad_input("fit: expected rounding of 0 to {} m, got {}", kMostRounding, s.rounding_m);
  if (s.fit == Fit::kRounded && s.knot_rate_hz > kMostRoundedRate)  // the descent takes too long where waypoints crowd
    return bad_input("fit rounded: expected waypoints at {} Hz at most, got {} Hz", kMostRoundedRate, s.knot_rate_hz);
  constexpr double kSlack = 1 + 1e-9;  // 64 points at 10 Hz end where 32 waypoints at 5 Hz do, up to rounding
  if (s.points < 1 || s.points / s.rate_hz > s.knots / s.knot_rate_hz * kSlack)
    return bad_input("fit: expected points from 1 up to the last waypoint ({} s), got {} points at {} Hz", s.knots / s.knot_rate_hz,
                     s.points, s.rate_hz);
  FitMap map(s);
  map.matrix_ = sampled(s, map.inputs(), {});
  if (s.fit == Fit::kRounded) map.jerk_ = jerk_form(s, map.inputs(), {}).v;
  return map;
}

Result<Trajectory> FitMap::apply(std::span<const Waypoint> waypoints, Waypoint v0_mps) const {
  if (waypoints.size() != static_cast<size_t>(spec_.knots))
    return bad_input("fit: expected {} waypoints, got {}", spec_.knots, waypoints.size());
  if (!std::all_of(waypoints.begin(), waypoints.end(), is_finite) || !is_finite(v0_mps))
    return bad_input("fit: expected finite waypoints and start velocity, got a number that is not");
  std::vector<Waypoint> in(waypoints.begin(), waypoints.end());
  Stops stops;
  const bool rounded = spec_.fit == Fit::kRounded;
  if (rounded) {
    stops = standing_to_the_end(waypoints);
  } else if (spec_.monotone_stop) {
    stops = standing_knots(waypoints);
  }
  const bool stands = std::find(stops.begin(), stops.end(), true) != stops.end();
  std::vector<double> special, jerk;
  if (stands) special = sampled(spec_, inputs(), stops);
  if (stands && rounded) jerk = jerk_form(spec_, inputs(), stops).v;
  if (rounded) in = unrounded(stands ? jerk : jerk_, spec_.rounding_m, waypoints, uses_v0() ? std::optional(v0_mps) : std::nullopt);
  const std::vector<double>& m = special.empty() ? matrix_ : special;
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
