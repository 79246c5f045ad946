// SPDX-License-Identifier: Apache-2.0
// Comfort: filtered accelerations, jerks and turns against nuPlan's bounds.
#include <algorithm>
#include <cmath>

#include "drive/score/filter.h"
#include "drive/score/score.h"
#include "sim/math.h"

namespace slip::drive {

namespace {

constexpr double kLeastLon = -4.05, kMostLon = 2.40, kLat = 4.89, kJerk = 8.37, kLonJerk = 4.13, kYawAcc = 1.93, kYawRate = 0.95;

/// To eight decimals, as the public scorer rounds every filtered series.
double rounded(double x) { return std::nearbyint(x * 1e8) / 1e8; }

std::vector<double> rounded(std::vector<double> v) {
  for (double& x : v) x = rounded(x);
  return v;
}

bool within(const std::vector<double>& v, double low, double high) {
  return std::all_of(v.begin(), v.end(), [&](double x) { return rounded(x) > low && rounded(x) < high; });
}

struct Accelerations {
  std::vector<double> lon, lat, magnitude, headings;
};

Accelerations accelerations_of(std::span<const State> states, const Body& body, Acceleration how) {
  Accelerations out;
  for (const State& s : states) {
    const bool loop = how == Acceleration::kLoop;
    const double turning = s.yaw_rate * s.yaw_rate + s.yaw_acceleration;
    const double lon = loop ? s.a : s.a + body.rear_to_centre * turning, lat = loop ? s.v * s.yaw_rate : 0.0;
    out.lon.push_back(lon);
    out.lat.push_back(lat);
    out.magnitude.push_back(sim::det_hypot(lon, lat));
    out.headings.push_back(s.heading);
  }
  return out;
}

}  // namespace

Comfort comfort_of(std::span<const State> states, const Body& body, Acceleration how) {
  if (states.size() < 4) return {};
  Accelerations a = accelerations_of(states, body, how);
  if (how == Acceleration::kNavsim)  // whose magnitude is the rear axle's
    for (size_t i = 0; i < states.size(); ++i) a.magnitude[i] = std::fabs(states[i].a);
  const ComfortSeries s = comfort_series(a.lon, a.lat, a.magnitude, a.headings, kStep);
  return {within(s.lon_acc, kLeastLon, kMostLon),  within(s.lat_acc, -kLat, kLat),       within(s.jerk, -kJerk, kJerk),
          within(s.lon_jerk, -kLonJerk, kLonJerk), within(s.yaw_acc, -kYawAcc, kYawAcc), within(s.yaw_rate, -kYawRate, kYawRate)};
}

namespace {

struct PlanSeries {
  std::vector<double> acceleration, jerk, yaw_rate, yaw_acceleration;
};

PlanSeries plan_series(std::span<const State> states, const Body& body) {
  Accelerations a = accelerations_of(states, body, Acceleration::kNavsim);
  for (size_t i = 0; i < states.size(); ++i) a.magnitude[i] = std::fabs(states[i].a);  // the rear axle's
  PlanSeries out;
  out.acceleration = rounded(savitzky_golay(a.magnitude, 8, 2, 0, kStep));
  out.jerk = rounded(savitzky_golay(out.acceleration, 15, 2, 1, kStep));
  const std::vector<double> heading = unwrapped(a.headings);
  out.yaw_rate = rounded(savitzky_golay(heading, 5, 2, 1, kStep));
  out.yaw_acceleration = rounded(savitzky_golay(heading, 5, 2, 2, kStep));
  return out;
}

double rms_of_difference(const std::vector<double>& now, const std::vector<double>& before) {
  double sum = 0;
  for (size_t i = 0; i < now.size(); ++i) sum += (now[i] - before[i]) * (now[i] - before[i]);
  return now.empty() ? 0 : std::sqrt(sum / static_cast<double>(now.size()));
}

}  // namespace

ExtendedComfort extended_comfort(std::span<const State> now, std::span<const State> before, size_t offset, const Body& body) {
  // The steps that both have are cut out first and filtered then.
  const size_t n = before.size() > offset ? std::min(now.size(), before.size() - offset) : 0;
  if (n < 4) return {};
  const PlanSeries a = plan_series(now.first(n), body), b = plan_series(before.subspan(offset, n), body);
  return {rms_of_difference(a.acceleration, b.acceleration), rms_of_difference(a.jerk, b.jerk),
          rms_of_difference(a.yaw_rate, b.yaw_rate), rms_of_difference(a.yaw_acceleration, b.yaw_acceleration)};
}

}  // namespace slip::drive
