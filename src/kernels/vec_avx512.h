// SPDX-License-Identifier: Apache-2.0
// The vector words of ops_body.h for AVX-512 with bf16 and int8 dot products: 16 lanes.
#pragma once
#include <immintrin.h>

#include "kernels/ops.h"

namespace slip {
namespace {

constexpr int kLanes = 16;
constexpr int kTileVectors = 4;  // 4 rows x 4 zmm
using Floats = __m512;
using Words = __m512i;

inline Words load_words(const void* p) { return _mm512_loadu_si512(p); }
inline void store_words(void* p, Words v) { _mm512_storeu_si512(p, v); }
inline Words splat_word(const Word* p) { return _mm512_set1_epi32(static_cast<int>(*p)); }
inline Floats load(const float* p) { return _mm512_loadu_ps(p); }
inline Floats load_part(const float* p, int64_t n) { return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), p); }
inline Floats zeros() { return _mm512_setzero_ps(); }
inline Floats add_v(Floats a, Floats b) { return _mm512_add_ps(a, b); }
inline Floats sub_v(Floats a, Floats b) { return _mm512_sub_ps(a, b); }
inline Floats splat(float a) { return _mm512_set1_ps(a); }
inline Floats fma_v(Floats a, Floats b, Floats c) { return _mm512_fmadd_ps(a, b, c); }
inline Floats max_v(Floats a, Floats b) { return _mm512_max_ps(a, b); }
// Halves folded onto each other: lane i + lane i + 8, and so on; the same tree in every vec_*.h.
inline float sum_lanes(Floats v) {
  const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)), d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float max_lanes(Floats v) {
  const __m256 h = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)), d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
inline Floats mul_v(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline float fma_s(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

struct DotF32 {
  static inline Words dot(Words sum, Words x, Words w) {
    return _mm512_castps_si512(_mm512_fmadd_ps(_mm512_castsi512_ps(x), _mm512_castsi512_ps(w), _mm512_castsi512_ps(sum)));
  }
};
struct DotBF16 {
  static inline Words dot(Words sum, Words x, Words w) {
    return _mm512_castps_si512(_mm512_dpbf16_ps(_mm512_castsi512_ps(sum), (__m512bh)x, (__m512bh)w));
  }
};
struct DotI8 {
  static inline Words dot(Words sum, Words x, Words w) { return _mm512_dpbusd_epi32(sum, x, w); }
};

/// out[k][j] = rows[j][k] for kLanes x kLanes numbers.
inline void transpose_square(const float* const* rows, int64_t k, float* out, int64_t ldo) {
  __m512 a[16], b[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) a[i] = _mm512_loadu_ps(rows[i] + k);
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  // a[4 m + c]: column c of the four 4 x 4 squares of rows 4 m .. 4 m + 3.
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
#pragma GCC unroll 16
  for (int c = 0; c < 4; c++) {
    const __m512 low01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x44), high01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xee);
    _mm512_storeu_ps(out + c * ldo, _mm512_shuffle_f32x4(low01, low23, 0x88));
    _mm512_storeu_ps(out + (4 + c) * ldo, _mm512_shuffle_f32x4(low01, low23, 0xdd));
    _mm512_storeu_ps(out + (8 + c) * ldo, _mm512_shuffle_f32x4(high01, high23, 0x88));
    _mm512_storeu_ps(out + (12 + c) * ldo, _mm512_shuffle_f32x4(high01, high23, 0xdd));
  }
}

}  // namespace
}  // namespace slip
