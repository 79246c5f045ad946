// SPDX-License-Identifier: Apache-2.0
// See filter.h. Least squares by normal equations over positions centred in the window.
#include "drive/score/filter.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "base/check.h"
#include "sim/math.h"

namespace slip::drive {

namespace {

constexpr size_t kMostOrder = 3;
using Polynomial = std::array<double, kMostOrder + 1>;  // in steps from the window's middle

/// Gauss with the largest pivot; the system is positive definite.
Polynomial solve(std::array<std::array<double, kMostOrder + 2>, kMostOrder + 1> m, size_t n) {
  for (size_t c = 0; c < n; ++c) {
    size_t best = c;
    for (size_t r = c + 1; r < n; ++r)
      if (std::fabs(m[r][c]) > std::fabs(m[best][c])) best = r;
    std::swap(m[c], m[best]);
    for (size_t r = c + 1; r < n; ++r) {
      const double f = m[r][c] / m[c][c];
      for (size_t k = c; k <= n; ++k) m[r][k] -= f * m[c][k];
    }
  }
  Polynomial out{};
  for (size_t c = n; c-- > 0;) {
    double v = m[c][n];
    for (size_t k = c + 1; k < n; ++k) v -= m[c][k] * out[k];
    out[c] = v / m[c][c];
  }
  return out;
}

Polynomial fit(std::span<const double> window, size_t order) {
  const size_t n = order + 1;
  const double middle = 0.5 * (static_cast<double>(window.size()) - 1);
  std::array<std::array<double, kMostOrder + 2>, kMostOrder + 1> m{};
  for (size_t i = 0; i < window.size(); ++i) {
    const double x = static_cast<double>(i) - middle;
    std::array<double, 2 * kMostOrder + 1> power{1};
    for (size_t k = 1; k <= 2 * order; ++k) power[k] = power[k - 1] * x;
    for (size_t r = 0; r < n; ++r) {
      for (size_t c = 0; c < n; ++c) m[r][c] += power[r + c];
      m[r][n] += power[r] * window[i];
    }
  }
  // The right-hand side stands behind the n columns.
  return solve(m, n);
}

double value_at(const Polynomial& p, double x, int derivative) {
  switch (derivative) {
    case 0:
      return p[0] + x * (p[1] + x * (p[2] + x * p[3]));
    case 1:
      return p[1] + x * (2 * p[2] + x * 3 * p[3]);
    default:
      return 2 * p[2] + x * 6 * p[3];
  }
}

}  // namespace

std::vector<double> savitzky_golay(std::span<const double> values, int window, int order, int derivative, double dt) {
  SLIP_CHECK(order <= static_cast<int>(kMostOrder) && derivative >= 0 && derivative <= 2, "filters are of order 3 at most");
  const size_t n = values.size(), w = std::min(static_cast<size_t>(window), n), half = w / 2;
  SLIP_CHECK(w > static_cast<size_t>(order), "a filter has more values than its polynomial coefficients");
  double scale = 1;
  for (int k = 0; k < derivative; ++k) scale /= dt;
  std::vector<double> out(n);
  const double middle = 0.5 * (static_cast<double>(w) - 1);
  const Polynomial first = fit(values.first(w), static_cast<size_t>(order)), last = fit(values.last(w), static_cast<size_t>(order));
  for (size_t i = 0; i < n; ++i) {
    if (i < half) {
      out[i] = scale * value_at(first, static_cast<double>(i) - middle, derivative);
    } else if (i >= n - half) {
      out[i] = scale * value_at(last, static_cast<double>(i - (n - w)) - middle, derivative);
    } else {
      const size_t begin = i - (w - 1) / 2;
      out[i] = scale * value_at(fit(values.subspan(begin, w), static_cast<size_t>(order)), 0, derivative);
    }
  }
  return out;
}

std::vector<double> unwrapped(std::span<const double> headings) {
  std::vector<double> out(headings.begin(), headings.end());
  for (size_t i = 1; i < out.size(); ++i) out[i] = out[i - 1] + sim::wrap_angle(out[i] - out[i - 1]);
  return out;
}

ComfortSeries comfort_series(std::span<const double> lon_acc, std::span<const double> lat_acc, std::span<const double> magnitude,
                             std::span<const double> headings, double dt) {
  const auto smooth = [&](std::span<const double> v) { return savitzky_golay(v, 8, 2, 0, dt); };
  const auto slope = [&](std::span<const double> v) { return savitzky_golay(v, 15, 2, 1, dt); };
  const std::vector<double> heading = unwrapped(headings);
  ComfortSeries out;
  out.lon_acc = smooth(lon_acc);
  out.lat_acc = smooth(lat_acc);
  out.jerk = slope(smooth(magnitude));
  out.lon_jerk = slope(out.lon_acc);
  out.yaw_acc = savitzky_golay(heading, 5, 3, 2, dt);
  out.yaw_rate = savitzky_golay(heading, 5, 2, 1, dt);
  return out;
}

}  // namespace slip::drive
