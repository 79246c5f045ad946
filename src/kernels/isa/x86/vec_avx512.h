// SPDX-License-Identifier: Apache-2.0
// The vector words of the bodies for AVX-512 with dot products of bytes: 16 lanes.
#pragma once
#include <immintrin.h>

#include "kernels/isa/int4.h"
#include "kernels/isa/ops.h"

namespace slip {
namespace {

constexpr int kLanes = 16;
constexpr int kTileVectors = 4;  // 4 rows x 4 zmm
constexpr int kTileRows = 6;     // at most: 24 sums, 4 weights and x in 32 registers
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
inline Floats as_floats(Words w) { return _mm512_castsi512_ps(w); }
inline Words as_words(Floats a) { return _mm512_castps_si512(a); }
// Within each 128 bits: a0 b0 a1 b1, a2 b2 a3 b3, a0 a1 b0 b1, a2 a3 b2 b3.
inline Floats interleave_low(Floats a, Floats b) { return _mm512_unpacklo_ps(a, b); }
inline Floats interleave_high(Floats a, Floats b) { return _mm512_unpackhi_ps(a, b); }
inline Floats low_pairs(Floats a, Floats b) { return _mm512_shuffle_ps(a, b, 0x44); }
inline Floats high_pairs(Floats a, Floats b) { return _mm512_shuffle_ps(a, b, 0xee); }
inline void store(float* p, Floats v) { _mm512_storeu_ps(p, v); }
inline Floats mul_v(Floats a, Floats b) { return _mm512_mul_ps(a, b); }
inline Floats div_v(Floats a, Floats b) { return _mm512_div_ps(a, b); }
/// Whether a number is above `limit`; NaN is not.
inline bool any_above(Floats a, float limit) { return _mm512_cmp_ps_mask(a, splat(limit), _CMP_GT_OQ) != 0; }

inline Words no_words() { return _mm512_setzero_si512(); }
constexpr int kSumsInFlight = 16;  // registers for sums in attention
/// a * 2^n for n in the low bits of `shifted` (exp_s), whose result must be normal; +0 where x < limit.
inline Floats add_to_exponent_or_zero(Floats a, Floats shifted, Floats x, Floats limit) {
  const Words n = _mm512_slli_epi32(as_words(shifted), 23);
  return as_floats(_mm512_maskz_add_epi32(_mm512_cmp_ps_mask(x, limit, _CMP_NLT_UQ), as_words(a), n));
}

/// One number for each of eight queries.
constexpr int kEight = 1;
struct Eight {
  Floats v[kEight];  // the upper half is of no use
};
inline void store_first(float* p, Eight x, int64_t n) { _mm512_mask_storeu_ps(p, static_cast<__mmask16>((1u << n) - 1), x.v[0]); }
inline Floats splat_lane(Eight x, int64_t r) { return _mm512_permutexvar_ps(_mm512_set1_epi32(static_cast<int>(r)), x.v[0]); }
/// Number r: the lanes of v[r] folded by `op` in the order of sum_lanes, eight at once: 24 steps in place of 64.
template <class Op>
inline Eight fold_lanes_of_8(const Floats* v, Op op) {
  Floats halves[4], quarters[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)  // lane + lane 8: two queries side by side
    halves[i] = op(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x44), _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xee));
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)  // lane + lane 4: four queries
    quarters[i] = op(_mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0x88),
                     _mm512_shuffle_f32x4(halves[2 * i], halves[2 * i + 1], 0xdd));
  const Floats pairs = op(low_pairs(quarters[0], quarters[1]), high_pairs(quarters[0], quarters[1]));
  const Floats all = op(pairs, _mm512_permute_ps(pairs, 0xb1));  // query r at lane 4 r, query 4 + r at lane 4 r + 2
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 2, 6, 10, 14, 0, 4, 8, 12, 2, 6, 10, 14);
  return {{_mm512_permutexvar_ps(order, all)}};
}

/// The last step of transpose_square.
inline void store_columns(const Floats* a, float* out, int64_t ldo) {
#pragma GCC unroll 4
  for (int c = 0; c < 4; c++) {
    const Floats low01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0x44), high01 = _mm512_shuffle_f32x4(a[c], a[4 + c], 0xee);
    const Floats low23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0x44);
    const Floats high23 = _mm512_shuffle_f32x4(a[8 + c], a[12 + c], 0xee);
    store(out + c * ldo, _mm512_shuffle_f32x4(low01, low23, 0x88));
    store(out + (4 + c) * ldo, _mm512_shuffle_f32x4(low01, low23, 0xdd));
    store(out + (8 + c) * ldo, _mm512_shuffle_f32x4(high01, high23, 0x88));
    store(out + (12 + c) * ldo, _mm512_shuffle_f32x4(high01, high23, 0xdd));
  }
}

}  // namespace
}  // namespace slip

#include "kernels/isa/x86/vec_x86.h"

namespace slip {
namespace {

inline float sum_lanes(Floats v) { return sum_lanes(_mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))); }
inline float max_lanes(Floats v) { return max_lanes(_mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1))); }

struct DotI8 : WordByWord {
  static inline Words dot(Words sum, Words x, Words w) { return _mm512_dpbusd_epi32(sum, x, w); }
};
/// With int8 weights, activations stored as value + kOffset.
struct DotWeightI8 : DotI8 {
  static constexpr int kOffset = 128;
};

#if defined(__AVX512VBMI__)
/// Where the 16 values of a column's code start, for each byte of columns 16 v .. 16 v + 15.
inline Words int4_starts(const char* codes, int64_t v) {
  const Words pairs = _mm512_broadcast_i64x4(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes)));
  const Words columns =
      _mm512_set_epi32(0x0f0f0f0f, 0x0e0e0e0e, 0x0d0d0d0d, 0x0c0c0c0c, 0x0b0b0b0b, 0x0a0a0a0a, 0x09090909, 0x08080808, 0x07070707,
                       0x06060606, 0x05050505, 0x04040404, 0x03030303, 0x02020202, 0x01010101, 0);
  const Words code = _mm512_permutexvar_epi8(v % 2 ? _mm512_add_epi8(columns, _mm512_set1_epi8(16)) : columns, pairs);
  return _mm512_and_si512(v < 2 ? _mm512_slli_epi16(code, 4) : code, _mm512_set1_epi8(0x70));
}
struct Int4Table {
  Words low, high;
};
inline Int4Table int4_table() { return {load_words(kInt4Values.at), load_words(kInt4Values.at + 64)}; }
/// 64 int8 weights of the levels in the low halves of q.
inline Words int4_values(Words q, Words starts, const Int4Table& t) {
  const Words at = _mm512_ternarylogic_epi32(q, _mm512_set1_epi8(15), starts, 0xea);  // q & 15 | starts
  return _mm512_permutex2var_epi8(t.low, at, t.high);
}
#else
/// Factors of the codes of columns 16 v .. 16 v + 15, twice per column: without look-ups in 128 bytes, weights are made of levels and factors.
inline Words int4_starts(const char* codes, int64_t v) {
  const Words table = _mm512_broadcast_i32x4(
      _mm_packus_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Factors)), _mm_setzero_si128()));
  const Words pairs = _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes + 16 * (v % 2))));
  const Words code = _mm512_and_si512(v < 2 ? pairs : _mm512_srli_epi32(pairs, 4), _mm512_set1_epi32(7));
  const Words both = _mm512_or_si512(code, _mm512_slli_epi32(code, 16));
  return _mm512_shuffle_epi8(table, _mm512_or_si512(both, _mm512_set1_epi32(static_cast<int>(0x80008000u))));
}
struct Int4Table {
  Words levels;
};
inline Int4Table int4_table() { return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)))}; }
/// 64 int8 weights of the levels in the low halves of q.
inline Words int4_values(Words q, Words factors, const Int4Table& t) {
  const Words b = _mm512_shuffle_epi8(t.levels, _mm512_and_si512(q, _mm512_set1_epi8(15)));
  const Words even = _mm512_mulhrs_epi16(_mm512_slli_epi16(b, 8), factors);
  const Words odd = _mm512_mulhrs_epi16(_mm512_and_si512(b, _mm512_set1_epi16(static_cast<short>(0xff00))), factors);
  return _mm512_mask_blend_epi8(0xaaaaaaaaaaaaaaaaull, even, _mm512_slli_epi16(odd, 8));
}
#endif
/// A chunk of int4 weights as int8 words, [steps][64].
inline void unpack_int4(const char* chunk, int64_t steps, Word* words) {
  const char* line = chunk + int4_code_bytes(steps);
  const Int4Table table = int4_table();
  for (int64_t s = 0; s < steps; s += kInt4GroupSteps, line += 4 * 256) {
    Words starts[4];
#pragma GCC unroll 4
    for (int64_t v = 0; v < 4; v++) starts[v] = int4_starts(chunk + s / kInt4GroupSteps * 32, v);
#pragma GCC unroll 4
    for (int64_t p = 0; p < kInt4GroupSteps / 2; p++) {
#pragma GCC unroll 4
      for (int64_t v = 0; v < 4; v++) {
        const Words q = load_words(line + p * 256 + v * 64);
        Word* out = words + (s + 2 * p) * kBlockColumns + v * kLanes;
        store_words(out, int4_values(q, starts[v], table));
        store_words(out + kBlockColumns, int4_values(_mm512_srli_epi16(q, 4), starts[v], table));
      }
    }
  }
}

}  // namespace
}  // namespace slip
