// SPDX-License-Identifier: Apache-2.0
#include "kernels/testing/reference_testing.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "core/dtype.h"

namespace slip {
namespace {

constexpr double kTiny = 0x1p-126;  // what one flushed number can lose
constexpr double kExpUlps = 4;      // exp_s of body/rows.h: 2 ulp = 4 u

}  // namespace

Bounded dot_ref(std::span<const float> x_K, std::span<const float> y_K) {
  double value = 0, size = 0;
  for (size_t k = 0; k < x_K.size(); k++) {
    const double p = double{x_K[k]} * y_K[k];
    value += p;
    size += std::fabs(p);
  }
  const double n = static_cast<double>(x_K.size());
  double flushed = 0;  // bf16 dot products take subnormal inputs for zero
  for (size_t k = 0; k < x_K.size(); k++) flushed += kTiny * (1 + std::fabs(x_K[k]) + std::fabs(y_K[k]));
  return {value, gamma(n + 1) * size + flushed};
}

std::vector<float> stored_activation(WeightType type, std::span<const float> x_K) {
  std::vector<float> out(x_K.begin(), x_K.end());
  if (type == WeightType::kBF16)
    for (float& x : out) x = to_float(to_bf16(x));
  if (type == WeightType::kI8 || type == WeightType::kI4) {
    float largest = 0;
    for (const float x : out) largest = std::max(largest, std::fabs(x));
    const float inverse = largest > 0 ? 127.0F / largest : 0.0F;
    for (float& x : out) x = static_cast<float>(std::nearbyint(x * inverse));
  }
  return out;
}

Bounded matmul_ref(WeightType type, std::span<const float> x_K, std::span<const float> stored_w_K, float bias) {
  const std::vector<float> x = stored_activation(type, x_K);
  Bounded b = dot_ref(x, stored_w_K);
  if (type == WeightType::kI8 || type == WeightType::kI4) {
    // Integer sums are exact; `stored_w_K` is scale * integer, rounded once per number, and four f32 steps follow the
    // sum: to float, the product of the scales, the product with it, and x's scale itself.
    float largest = 0;
    for (const float v : x_K) largest = std::max(largest, std::fabs(v));
    const double scale = double{largest} / 127.0;
    double size = 0;
    for (size_t k = 0; k < x.size(); k++) size += std::fabs(double{x[k]} * stored_w_K[k]);
    b.value *= scale;
    b.bound = gamma(1) * size * scale + gamma(4) * (std::fabs(b.value) + gamma(1) * size * scale) + kTiny;
  }
  b.value += bias;
  b.bound += kRoundoff * (std::fabs(b.value) + b.bound);
  return b;
}

std::vector<Bounded> attention_ref(std::span<const float> q_K, const std::vector<const float*>& keys,
                                   const std::vector<const float*>& values, double scale) {
  const size_t width = q_K.size(), seen = keys.size();
  std::vector<Bounded> out(width);
  if (seen == 0) return out;
  std::vector<double> score(seen);
  double top = -INFINITY, score_error = 0;
  for (size_t s = 0; s < seen; s++) {
    const auto [value, bound] = dot_ref(q_K, {keys[s], width});
    score[s] = value * scale;
    top = std::max(top, score[s]);
    score_error = std::max(score_error, bound * scale + 2 * kRoundoff * std::fabs(score[s]));
  }
  double total = 0, spread = 0;
  for (double& s : score) {
    spread = std::max(spread, top - s);
    s = std::exp(s - top);
    total += s;
  }
  // A probability is off by a factor e^(2 score_error + subtraction), by exp_s, by one rescaling (exp_s, its argument
  // and two roundings) per block of 64, and by the sums over keys above and below the line.
  const double blocks = std::ceil(static_cast<double>(seen) / 64);
  const double relative =
      std::expm1(2 * score_error + 2 * kRoundoff * spread) +
      gamma(2 * (kExpUlps + 2) + blocks * (kExpUlps + 4) * 2 + 2 * kRoundoff * spread * blocks + 2 * static_cast<double>(seen) + 4);
  for (size_t k = 0; k < width; k++) {
    double sum = 0, size = 0;
    for (size_t s = 0; s < seen; s++) {
      sum += score[s] / total * values[s][k];
      size += score[s] / total * std::fabs(values[s][k]);
    }
    out[k] = {sum, relative * size + kTiny};
  }
  return out;
}

std::vector<Bounded> rms_norm_ref(std::span<const float> x_D, std::span<const float> gain_D, double eps) {
  double squares = 0;
  for (const float x : x_D) squares += double{x} * x;
  const double n = static_cast<double>(x_D.size()), inverse = 1 / std::sqrt(squares / n + eps);
  std::vector<Bounded> out;
  // Under the root: n additions, a division, an addition; halved by the root, which adds one rounding, as do 1/x and
  // two products.
  for (size_t i = 0; i < x_D.size(); i++) {
    const double v = x_D[i] * inverse * gain_D[i];
    out.push_back({v, gamma((n + 4) / 2 + 5) * std::fabs(v) + kTiny});
  }
  return out;
}

std::vector<Bounded> layer_norm_ref(std::span<const float> x_D, std::span<const float> gain_D, std::span<const float> bias_D,
                                    double eps) {
  const double n = static_cast<double>(x_D.size());
  double sum = 0, size = 0, squares = 0;
  for (const float x : x_D) sum += x, size += std::fabs(x);
  const double mean = sum / n, mean_error = gamma(n + 1) * size / n;
  for (const float x : x_D) squares += (x - mean) * (x - mean);
  const double variance = squares / n, inverse = 1 / std::sqrt(variance + eps);
  // A wrong mean moves each difference by mean_error, the variance by its square only (the differences add up to zero)
  // and by the rounding of differences and of the sum.
  const double variance_error = mean_error * mean_error + gamma(n + 6) * (variance + eps);
  const double relative = variance_error / (variance + eps) + gamma(6);
  std::vector<Bounded> out;
  for (size_t i = 0; i < x_D.size(); i++) {
    const double d = (x_D[i] - mean) * inverse * gain_D[i], v = d + (bias_D.empty() ? 0.0 : bias_D[i]);
    const double shift = (mean_error + kRoundoff * (std::fabs(x_D[i]) + std::fabs(mean))) * inverse * std::fabs(gain_D[i]);
    const double bound = relative * std::fabs(d) + shift * (1 + relative);
    out.push_back({v, bound + kRoundoff * (std::fabs(v) + bound) + kTiny});
  }
  return out;
}

Bounded silu_ref(double x) {
  const double v = x / (1 + std::exp(-x));
  // exp_s, the sum and the quotient; below -87 e^-x rounds to inf earlier than the quotient underflows.
  return {v, gamma(kExpUlps + 3) * std::fabs(v) + (x < -87 ? 1e-35 : kTiny)};
}

Bounded gelu_erf_ref(double x) {
  const double z = std::fabs(x) / std::numbers::sqrt2, tail = 0.5 * std::fabs(x) * std::erfc(z);
  const double v = x >= 0 ? x - tail : -tail;
  // The tail: the fit (9e-8), 20 roundings in it, and e^(-z^2) whose argument has 3 roundings.
  const double argument = tail > 0 ? std::expm1(4 * kRoundoff * z * z) : 0;
  return {v, tail * (1e-7 + gamma(24) + argument) + kRoundoff * std::fabs(v) + 1e-36};
}

Bounded gelu_tanh_ref(double x) {
  const double u2 = 2 * std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x), e = std::exp(-u2), v = x / (1 + e);
  // u2 has 5 roundings (the constants' included); they count as far as e does.
  const double share = std::isinf(e) ? 1 : e / (1 + e);
  const double argument = v != 0 && share > 0 ? std::expm1(6 * kRoundoff * std::fabs(u2)) * share : 0;
  return {v, std::fabs(v) * (gamma(kExpUlps + 3) + argument) + (x < -5 ? 1e-35 : kTiny)};
}

}  // namespace slip
