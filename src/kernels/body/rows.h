// SPDX-License-Identifier: Apache-2.0
// Elementary functions, and what is done to one row at a time. The functions are branch-free C on one number: the
// compiler makes vectors of the loops and keeps every lane's arithmetic (no contraction, no reassociation), so an
// element's result does not depend on where in a vector, or in the remainder after the last vector, it falls. Sums run
// in kChainLanes x 4 chains. Included after a vec_*.h, once per instruction set.
#pragma once
#include "kernels/body/chains.h"

namespace slip {
namespace {

inline float from_bits(uint32_t u) {
  float f;
  __builtin_memcpy(&f, &u, 4);
  return f;
}
inline uint32_t to_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  return u;
}

/// e^x within 2 ulp; 0 below -87.3 (where the result would be subnormal), inf above 88.72, NaN stays NaN.
/// x = n ln 2 + r, |r| <= 0.347; Taylor to r^7 (next term 5e-9); 2^n in two halves, as n = 128 has no float of its own.
inline float exp_s(float x) {
  float y = x < -87.3F ? -87.3F : x;
  y = y > 89.0F ? 89.0F : y;
  const float shifted = fma_s(y, 1.44269504F, 12582912.0F);  // 1.5 * 2^23: rounds to an integer, which stands in the low bits
  const float n = shifted - 12582912.0F;
  float r = fma_s(n, -0.693359375F, y);  // exact: 10 bits
  r = fma_s(n, 2.12194440e-4F, r);
  float p = 1.0F / 5040;
  p = fma_s(p, r, 1.0F / 720);
  p = fma_s(p, r, 1.0F / 120);
  p = fma_s(p, r, 1.0F / 24);
  p = fma_s(p, r, 1.0F / 6);
  p = fma_s(p, r, 0.5F);
  p = fma_s(p, r, 1.0F);
  p = fma_s(p, r, 1.0F);
  const int32_t k = static_cast<int32_t>(to_bits(shifted) - 0x4b400000u);
  const int32_t half = k >> 1;
  const float e = p * from_bits(static_cast<uint32_t>(half + 127) << 23) * from_bits(static_cast<uint32_t>(k - half + 127) << 23);
  return x < -87.3F ? 0.0F : e;
}

/// erfc(z) for z >= 0, relative error below 2e-6 up to z = 5: t P(t) e^(-z^2), t = 1 / (1 + 0.4 z). P: interpolation of
/// erfc(z) e^(z^2) / t at the 9 Chebyshev nodes of z in [0, 10], computed with 40 digits; its own relative error is
/// 9e-8.
inline float erfc_s(float z) {
  const float t = 1.0F / fma_s(0.4F, z, 1.0F);
  float p = 0.038508509F;
  p = fma_s(p, t, -0.127446435F);
  p = fma_s(p, t, 0.058450888F);
  p = fma_s(p, t, 0.115858613F);
  p = fma_s(p, t, 0.061465687F);
  p = fma_s(p, t, 0.200742548F);
  p = fma_s(p, t, 0.200125255F);
  p = fma_s(p, t, 0.226673265F);
  p = fma_s(p, t, 0.225621707F);
  return p * t * exp_s(-z * z);
}

inline float silu_s(float x) { return x / (1.0F + exp_s(-x)); }
/// x Phi(x) = x >= 0 ? x - x erfc(x / sqrt 2) / 2 : x erfc(-x / sqrt 2) / 2: no cancellation on either side.
inline float gelu_erf_s(float x) {
  const float tail = 0.5F * x * erfc_s(__builtin_fabsf(x) * 0.70710678F);
  const float upper = x > 30.0F ? x : x - tail;  // inf * 0
  return x < -30.0F ? -0.0F : x < 0 ? tail : upper;
}
/// x (1 + tanh u) / 2 = x / (1 + e^(-2u)), u = sqrt(2 / pi) (x + 0.044715 x^3).
inline float gelu_tanh_s(float x) {
  const float u2 = 1.59576912F * x * fma_s(0.044715F * x, x, 1.0F);
  return x / (1.0F + exp_s(-u2));
}

/// Sum over i of term(x[i..]) in an order that depends on n alone.
template <class Term>
inline float sum_of(const float* x, int64_t n, Term term) {
  Chain a[4] = {chain_of(0), chain_of(0), chain_of(0), chain_of(0)};
  int64_t i = 0;
  for (; i + 4 * kChainLanes <= n; i += 4 * kChainLanes)
    for (int c = 0; c < 4; c++) a[c] = term(a[c], load_chain(x + i + c * kChainLanes));
  for (; i + kChainLanes <= n; i += kChainLanes) a[0] = term(a[0], load_chain(x + i));
  float tail = 0;
  for (; i < n; i++) {
    const Chain one = term(chain_of(0), load_chain_part(x + i, 1));
    float first;
    __builtin_memcpy(&first, &one, sizeof first);
    tail += first;
  }
  return sum_lanes(add_v(add_v(a[0], a[1]), add_v(a[2], a[3]))) + tail;
}

inline float inverse_rms(const float* x, int64_t width, float eps) {
  const float squares = sum_of(x, width, [](Chain sum, Chain v) { return fma_v(v, v, sum); });
  return 1.0F / __builtin_sqrtf(squares / static_cast<float>(width) + eps);
}

void rms_norm_rows(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, float eps, float* out_TD) {
  for (int64_t t = 0; t < rows; t++) {
    const float* x = x_TD + t * width;
    float* out = out_TD + t * width;
    const float inverse = inverse_rms(x, width, eps);
    for (int64_t i = 0; i < width; i++) out[i] = x[i] * inverse * gain_D[i];
  }
}

void layer_norm_rows(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, const float* bias_D, float eps,
                     float* out_TD) {
  for (int64_t t = 0; t < rows; t++) {
    const float* x = x_TD + t * width;
    float* out = out_TD + t * width;
    const float n = static_cast<float>(width);
    const float mean = sum_of(x, width, [](Chain sum, Chain v) { return add_v(sum, v); }) / n;
    const Chain means = chain_of(mean);
    const float squares = sum_of(x, width, [means](Chain sum, Chain v) {
      const Chain d = sub_v(v, means);
      return fma_v(d, d, sum);
    });
    const float inverse = 1.0F / __builtin_sqrtf(squares / n + eps);
    for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * inverse * gain_D[i] + (bias_D ? bias_D[i] : 0.0F);
  }
}

void add_all(float* x, const float* y, int64_t n) {
  for (int64_t i = 0; i < n; i++) x[i] += y[i];
}

/// exp_s of numbers up to 88 (or NaN), whose scaling in two halves is exact then, and so is one addition to the exponent; below the lowest x
/// that has a normal result everything becomes 0, so that nothing need be kept in range.
inline Floats exp_to_88_v(Floats x) {
  const Floats magic = splat(12582912.0F);
  const Floats shifted = fma_v(x, splat(1.44269504F), magic);
  const Floats n = sub_v(shifted, magic);
  Floats r = fma_v(n, splat(-0.693359375F), x);
  r = fma_v(n, splat(2.12194440e-4F), r);
  Floats p = splat(1.0F / 5040);
  p = fma_v(p, r, splat(1.0F / 720));
  p = fma_v(p, r, splat(1.0F / 120));
  p = fma_v(p, r, splat(1.0F / 24));
  p = fma_v(p, r, splat(1.0F / 6));
  p = fma_v(p, r, splat(0.5F));
  p = fma_v(p, r, splat(1.0F));
  p = fma_v(p, r, splat(1.0F));
  return add_to_exponent_or_zero(p, shifted, x, splat(-87.3F));
}

/// Vectors by hand: of silu_s in a loop the compiler made one number at a time, 4.5 times the time (Zen 3, g++ 12; docs/lab/0025).
void swiglu_all(const float* gate, const float* up, int64_t n, float* out) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Floats g = load(gate + i), minus = sub_v(splat(-0.0F), g);
    if (any_above(minus, 88.0F)) {
      for (int64_t j = i; j < i + kLanes; j++) out[j] = silu_s(gate[j]) * up[j];
      continue;
    }
    store(out + i, mul_v(div_v(g, add_v(splat(1.0F), exp_to_88_v(minus))), load(up + i)));
  }
  for (; i < n; i++) out[i] = silu_s(gate[i]) * up[i];
}

void gelu_all(float* x, int64_t n, bool tanh_form) {
  if (tanh_form) {
    for (int64_t i = 0; i < n; i++) x[i] = gelu_tanh_s(x[i]);
  } else {
    for (int64_t i = 0; i < n; i++) x[i] = gelu_erf_s(x[i]);
  }
}

Word fold_words(const Word* words, int64_t n) {
  Words sums[4] = {load_words(words), load_words(words), load_words(words), load_words(words)};
  const int64_t quarter = n / 4;
  for (int64_t i = 0; i < quarter; i += 16) {
#pragma GCC unroll 4
    for (int s = 0; s < 4; s++) {
      const Word* p = words + s * quarter + i;
      __builtin_prefetch(p + 512);  // 2 KiB ahead
#pragma GCC unroll 4
      for (int v = 0; v < 16; v += kLanes) sums[s] ^= load_words(p + v);
    }
  }
  Word out[kLanes];
  store_words(out, sums[0] ^ sums[1] ^ sums[2] ^ sums[3]);
  return out[0];
}

void rotate_rows(const RotateArgs& a) {
  for (int64_t t = 0; t < a.rows; t++) {
    const float* cos_K2 = a.cos_TK2 + t * a.half;
    const float* sin_K2 = a.sin_TK2 + t * a.half;
    for (int64_t h = 0; h < a.heads; h++) {
      float* x = a.x_THK + t * a.ldx + h * a.width;
      for (int64_t i = 0; i < a.half; i++) {
        const float p = x[i], q = x[i + a.half];
        x[i] = p * cos_K2[i] - q * sin_K2[i];
        x[i + a.half] = q * cos_K2[i] + p * sin_K2[i];
      }
    }
  }
}

}  // namespace
}  // namespace slip
