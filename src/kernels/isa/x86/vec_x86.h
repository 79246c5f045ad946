// SPDX-License-Identifier: Apache-2.0
// What vec_avx2.h and vec_avx512.h say in the same words: the last steps of a sum over lanes, how a product takes activations, and the part of
// a transposition that stays within 128 bits. Included by both after the words of their registers.
#pragma once

namespace slip {
namespace {

inline float fma_s(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

// Halves folded onto each other: lane i + lane i + 4, and so on; the same tree in every vec_*.h.
inline float sum_lanes(__m256 v) {
  const __m128 q = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)), d = _mm_add_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_add_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline float max_lanes(__m256 v) {
  const __m128 q = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1)), d = _mm_max_ps(q, _mm_movehl_ps(q, q));
  return _mm_cvtss_f32(_mm_max_ss(d, _mm_shuffle_ps(d, d, 1)));
}
inline Eight sum_lanes_of_8(const Floats* v) { return fold_lanes_of_8(v, add_v); }
inline Eight max_lanes_of_8(const Floats* v) { return fold_lanes_of_8(v, max_v); }

/// How a product takes word s of a row of activations; kWords: words of memory per word.
struct WordByWord {
  static constexpr int kWords = 1;
  static inline Words at(const Word* x, int64_t s) { return splat_word(x + s); }
};
struct DotF32 : WordByWord {
  static inline Words dot(Words sum, Words x, Words w) { return as_words(fma_v(as_floats(x), as_floats(w), as_floats(sum))); }
};

/// out[k][j] = rows[j][k] for kLanes x kLanes numbers.
inline void transpose_square(const float* const* rows, int64_t k, float* out, int64_t ldo) {
  Floats a[kLanes], b[kLanes];
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i++) a[i] = load(rows[i] + k);
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i += 2) {
    b[i] = interleave_low(a[i], a[i + 1]);
    b[i + 1] = interleave_high(a[i], a[i + 1]);
  }
  // a[4 m + c]: column c of the 4 x 4 squares of rows 4 m .. 4 m + 3, one square in each 128 bits.
#pragma GCC unroll 16
  for (int i = 0; i < kLanes; i += 4) {
    a[i] = low_pairs(b[i], b[i + 2]);
    a[i + 1] = high_pairs(b[i], b[i + 2]);
    a[i + 2] = low_pairs(b[i + 1], b[i + 3]);
    a[i + 3] = high_pairs(b[i + 1], b[i + 3]);
  }
  store_columns(a, out, ldo);
}

}  // namespace
}  // namespace slip
