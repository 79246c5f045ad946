// SPDX-License-Identifier: Apache-2.0
// Elementary functions whose bits do not depend on the C library: additions, multiplications, divisions and square roots in
// a fixed order (IEEE 754 rounds those the same everywhere; contraction is off in cmake/slipstream.cmake). Truncated Taylor
// series after range reduction; absolute error below 1e-10 for |x| < 1e4 (sin, cos), relative below 1e-13 for exp.
#pragma once
#include <bit>
#include <cmath>
#include <cstdint>

namespace slip::sim {

constexpr double kPi = 3.14159265358979323846;

/// Nearest integer, halves away from zero; |x| < 2^62.
constexpr int64_t det_round(double x) { return static_cast<int64_t>(x < 0 ? x - 0.5 : x + 0.5); }
/// Largest integer not above x; |x| < 2^62.
constexpr int64_t det_floor(double x) {
  const auto i = static_cast<int64_t>(x);
  return i - (static_cast<double>(i) > x ? 1 : 0);
}

namespace detail {
// Series on [-pi/4, pi/4]; the first term left out is below 3e-13 (sin, x^15 / 15!) and 3e-14 (cos, x^16 / 16!).
constexpr double sin_series(double x) {
  const double z = x * x;
  double p = 1.0 / 6227020800.0;
  p = p * z - 1.0 / 39916800.0;
  p = p * z + 1.0 / 362880.0;
  p = p * z - 1.0 / 5040.0;
  p = p * z + 1.0 / 120.0;
  p = p * z - 1.0 / 6.0;
  return x + x * z * p;
}
constexpr double cos_series(double x) {
  const double z = x * x;
  double p = -1.0 / 87178291200.0;
  p = p * z + 1.0 / 479001600.0;
  p = p * z - 1.0 / 3628800.0;
  p = p * z + 1.0 / 40320.0;
  p = p * z - 1.0 / 720.0;
  p = p * z + 1.0 / 24.0;
  p = p * z - 0.5;
  return 1.0 + z * p;
}
// x - n pi/2 with pi/2 in two parts (the first has 33 bits, so that n * it is exact for n < 2^20).
constexpr double quarter_reduce(double x, int64_t n) {
  constexpr double kHigh = 1.57079632673412561417;
  constexpr double kLow = 6.07710050650619224932e-11;
  const auto m = static_cast<double>(n);
  return (x - m * kHigh) - m * kLow;
}
}  // namespace detail

constexpr double det_sin(double x) {
  const int64_t n = det_round(x * (2.0 / kPi));
  const double r = detail::quarter_reduce(x, n);
  switch (n & 3) {
    case 0:
      return detail::sin_series(r);
    case 1:
      return detail::cos_series(r);
    case 2:
      return -detail::sin_series(r);
    default:
      return -detail::cos_series(r);
  }
}
constexpr double det_cos(double x) {
  const int64_t n = det_round(x * (2.0 / kPi));
  const double r = detail::quarter_reduce(x, n);
  switch (n & 3) {
    case 0:
      return detail::cos_series(r);
    case 1:
      return -detail::sin_series(r);
    case 2:
      return -detail::cos_series(r);
    default:
      return detail::sin_series(r);
  }
}
constexpr double det_tan(double x) { return det_sin(x) / det_cos(x); }

/// exp(x); 0 below -700, clamped above 700.
constexpr double det_exp(double x) {
  if (x < -700.0) return 0.0;
  if (x > 700.0) x = 700.0;
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  const int64_t n = det_round(x * 1.44269504088896338700);
  const auto m = static_cast<double>(n);
  const double r = (x - m * kLn2High) - m * kLn2Low;
  double p = 1.0;
  for (int k = 13; k >= 1; --k) p = 1.0 + p * r / k;  // |r| < 0.347: the next term is 4e-18
  return p * std::bit_cast<double>(static_cast<uint64_t>(n + 1023) << 52);
}

/// Angle of (x, y) in (-pi, pi]; det_atan2(0, 0) is 0.
constexpr double det_atan2(double y, double x) {
  const double ax = x < 0 ? -x : x;
  const double ay = y < 0 ? -y : y;
  if (ax == 0.0 && ay == 0.0) return 0.0;
  const double ratio = ax > ay ? ay / ax : ax / ay;  // in [0, 1]
  const bool upper = ratio > 0.41421356237309503;    // tan(pi/8)
  const double t = upper ? (ratio - 1.0) / (ratio + 1.0) : ratio;
  const double z = t * t;
  double p = 0.0;  // sum (-1)^k z^k / (2k+1), k < 14: the next term is 0.4142^29 / 29 = 3e-13
  for (int k = 13; k >= 0; --k) p = 1.0 / (2 * k + 1) - p * z;
  double a = t * p + (upper ? kPi / 4 : 0.0);
  if (ay >= ax) a = kPi / 2 - a;
  if (x < 0) a = kPi - a;
  return y < 0 ? -a : a;
}

inline double det_hypot(double x, double y) { return std::sqrt(x * x + y * y); }

/// Into (-pi, pi].
constexpr double wrap_angle(double a) {
  const double r = a - 2 * kPi * static_cast<double>(det_floor(a / (2 * kPi)));
  return r > kPi ? r - 2 * kPi : r;
}

}  // namespace slip::sim
