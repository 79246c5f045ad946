// SPDX-License-Identifier: Apache-2.0
// The vector words of the bodies for AVX2 with FMA: 8 lanes.
#pragma once
#include <immintrin.h>

#include "kernels/isa/int4.h"
#include "kernels/isa/ops.h"

namespace slip {
namespace {

constexpr int kLanes = 8;
constexpr int kTileVectors = 2;  // 4 rows x 2 vectors: the 8 sums in flight that two FMA units of latency 4 need
constexpr int kTileRows = 4;
using Floats = __m256;
using Words = __m256i;

inline Words load_words(const void* p) { return _mm256_loadu_si256(static_cast<const __m256i*>(p)); }
inline void store_words(void* p, Words v) { _mm256_storeu_si256(static_cast<__m256i*>(p), v); }
inline Words splat_word(const Word* p) { return _mm256_set1_epi32(static_cast<int>(*p)); }
inline Floats load(const float* p) { return _mm256_loadu_ps(p); }
inline Floats load_part(const float* p, int64_t n) {
  alignas(32) float v[kLanes] = {};
  for (int64_t i = 0; i < n; i++) v[i] = p[i];
  return _mm256_load_ps(v);
}
inline Floats zeros() { return _mm256_setzero_ps(); }
inline Floats add_v(Floats a, Floats b) { return _mm256_add_ps(a, b); }
inline Floats sub_v(Floats a, Floats b) { return _mm256_sub_ps(a, b); }
inline Floats splat(float a) { return _mm256_set1_ps(a); }
inline Floats fma_v(Floats a, Floats b, Floats c) { return _mm256_fmadd_ps(a, b, c); }
inline Floats max_v(Floats a, Floats b) { return _mm256_max_ps(a, b); }
inline Floats as_floats(Words w) { return _mm256_castsi256_ps(w); }
inline Words as_words(Floats a) { return _mm256_castps_si256(a); }
// Within each 128 bits: a0 b0 a1 b1, a2 b2 a3 b3, a0 a1 b0 b1, a2 a3 b2 b3.
inline Floats interleave_low(Floats a, Floats b) { return _mm256_unpacklo_ps(a, b); }
inline Floats interleave_high(Floats a, Floats b) { return _mm256_unpackhi_ps(a, b); }
inline Floats low_pairs(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0x44); }
inline Floats high_pairs(Floats a, Floats b) { return _mm256_shuffle_ps(a, b, 0xee); }
inline void store(float* p, Floats v) { _mm256_storeu_ps(p, v); }
inline Floats mul_v(Floats a, Floats b) { return _mm256_mul_ps(a, b); }
inline Floats div_v(Floats a, Floats b) { return _mm256_div_ps(a, b); }
/// Whether a number is above `limit`; NaN is not.
inline bool any_above(Floats a, float limit) { return _mm256_movemask_ps(_mm256_cmp_ps(a, splat(limit), _CMP_GT_OQ)) != 0; }

inline Words no_words() { return _mm256_setzero_si256(); }
constexpr int kSumsInFlight = 8;  // registers for sums in attention
/// a * 2^n for n in the low bits of `shifted` (exp_s), whose result must be normal; +0 where x < limit.
inline Floats add_to_exponent_or_zero(Floats a, Floats shifted, Floats x, Floats limit) {
  const Words n = _mm256_slli_epi32(as_words(shifted), 23);
  return _mm256_andnot_ps(_mm256_cmp_ps(x, limit, _CMP_LT_OQ), as_floats(_mm256_add_epi32(as_words(a), n)));
}

/// One number for each of eight queries.
constexpr int kEight = 1;
struct Eight {
  Floats v[kEight];
};
inline void store_first(float* p, Eight x, int64_t n) { __builtin_memcpy(p, &x, static_cast<size_t>(n) * sizeof(float)); }
inline Floats splat_lane(Eight x, int64_t r) { return _mm256_permutevar8x32_ps(x.v[0], _mm256_set1_epi32(static_cast<int>(r))); }
/// Number r: the lanes of v[r] folded by `op` in the order of sum_lanes, eight at once.
template <class Op>
inline Eight fold_lanes_of_8(const Floats* v, Op op) {
  Floats halves[4], quarters[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)  // lane + lane 4: queries i and i + 4 side by side
    halves[i] = op(_mm256_permute2f128_ps(v[i], v[i + 4], 0x20), _mm256_permute2f128_ps(v[i], v[i + 4], 0x31));
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)  // lane + lane 2: four queries
    quarters[i] = op(low_pairs(halves[2 * i], halves[2 * i + 1]), high_pairs(halves[2 * i], halves[2 * i + 1]));
  return {{op(_mm256_shuffle_ps(quarters[0], quarters[1], 0x88), _mm256_shuffle_ps(quarters[0], quarters[1], 0xdd))}};
}

/// The last step of transpose_square.
inline void store_columns(const Floats* a, float* out, int64_t ldo) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    store(out + i * ldo, _mm256_permute2f128_ps(a[i], a[i + 4], 0x20));
    store(out + (i + 4) * ldo, _mm256_permute2f128_ps(a[i], a[i + 4], 0x31));
  }
}

}  // namespace
}  // namespace slip

#include "kernels/isa/x86/vec_x86.h"

namespace slip {
namespace {

/// The lower and the upper bf16 of every word as f32.
inline Words widened_low(Words w) { return _mm256_slli_epi32(w, 16); }
inline Words widened_high(Words w) { return _mm256_and_si256(w, _mm256_set1_epi32(static_cast<int>(0xffff0000u))); }
/// sum += a b, in place. As an intrinsic, g++ 12 keeps all that it has loaded and moves sums through copies and the stack.
inline void add_product(Words& sum, Words a, Words b) { asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); }
struct DotI8 {
  // Widened to 16 bits: vpmaddubsw would saturate, 2 * 255 * 127 > 32767. Activations lie in memory as 16-bit numbers, first and third
  // of a word, then second and fourth, so that only the weights are widened here: 38 instructions for 8 words, not 46.
  static constexpr int kWords = 2;
  struct Pairs {
    Words even, odd;
  };
  static inline Pairs at(const Word* x, int64_t s) { return {splat_word(x + 2 * s), splat_word(x + 2 * s + 1)}; }
  static inline Words dot(Words sum, Pairs x, Words w) {
    const __m256i w_even = _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8), w_odd = _mm256_srai_epi16(w, 8);
    return _mm256_add_epi32(_mm256_add_epi32(sum, _mm256_madd_epi16(x.even, w_even)), _mm256_madd_epi16(x.odd, w_odd));
  }
};
/// With int8 weights: |w| times x with the sign of w, so that a pair of products fits 16 bits (2 * 128 * 127 < 32768). Of the four
/// instructions per dot product two multiply, as with DotI8, but weights cost one (|w|, for all rows), not three. AVX-VNNI has one
/// instruction for the last three, which does not saturate.
struct DotWeightI8 : WordByWord {
  static constexpr int kOffset = 0;
  static inline Words dot(Words sum, Words x, Words w) {
#if defined(__AVXVNNI__)
    return _mm256_dpbusd_avx_epi32(sum, _mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
#else
    const Words pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
  }
};

/// Factors of the codes of columns 8 v .. 8 v + 7, twice per column.
inline Words int4_factors(const char* codes, int64_t v) {
  const __m256i table = _mm256_broadcastsi128_si256(_mm_packus_epi16(
      _mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Factors)), _mm_setzero_si128()));  // 128 is a byte, unsigned
  const Words pairs = _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes + 8 * (v % 4))));
  const Words code = _mm256_and_si256(v < 4 ? pairs : _mm256_srli_epi32(pairs, 4), _mm256_set1_epi32(7));
  const Words both = _mm256_or_si256(code, _mm256_slli_epi32(code, 16));
  return _mm256_shuffle_epi8(table, _mm256_or_si256(both, _mm256_set1_epi32(static_cast<int>(0x80008000u))));
}
/// 32 int8 weights of the levels in the low halves of q.
inline Words int4_values(Words q, Words factors) {
  const __m256i levels = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(kInt4Levels)));
  const Words b = _mm256_shuffle_epi8(levels, _mm256_and_si256(q, _mm256_set1_epi8(15)));
  const Words even = _mm256_mulhrs_epi16(_mm256_slli_epi16(b, 8), factors);
  const Words odd = _mm256_mulhrs_epi16(_mm256_and_si256(b, _mm256_set1_epi16(static_cast<short>(0xff00))), factors);
  return _mm256_or_si256(_mm256_and_si256(even, _mm256_set1_epi16(0xff)), _mm256_slli_epi16(odd, 8));
}
/// A chunk of int4 weights as int8 words, [steps][64].
inline void unpack_int4(const char* chunk, int64_t steps, Word* words) {
  const char* line = chunk + int4_code_bytes(steps);
  for (int64_t s = 0; s < steps; s += kInt4GroupSteps, line += 4 * 256) {
    for (int64_t v = 0; v < kBlockColumns / kLanes; v++) {
      const Words factors = int4_factors(chunk + s / kInt4GroupSteps * 32, v);
      for (int64_t p = 0; p < kInt4GroupSteps / 2; p++) {
        const Words q = load_words(line + p * 256 + v * 32);
        Word* out = words + (s + 2 * p) * kBlockColumns + v * kLanes;
        store_words(out, int4_values(q, factors));
        store_words(out + kBlockColumns, int4_values(_mm256_srli_epi16(q, 4), factors));
      }
    }
  }
}

/// What int4 products of one row need (body/int4.h). A half of a vector is 16 bytes.
/// The 4 x 4 words in each half of r[0] .. r[3], transposed: r[i] gets what stood at i in each.
inline void transpose_halves(Words* r) {
  const Words ab = _mm256_unpacklo_epi32(r[0], r[1]), AB = _mm256_unpackhi_epi32(r[0], r[1]);
  const Words cd = _mm256_unpacklo_epi32(r[2], r[3]), CD = _mm256_unpackhi_epi32(r[2], r[3]);
  r[0] = _mm256_unpacklo_epi64(ab, cd);
  r[1] = _mm256_unpackhi_epi64(ab, cd);
  r[2] = _mm256_unpacklo_epi64(AB, CD);
  r[3] = _mm256_unpackhi_epi64(AB, CD);
}
/// Where the tables of columns i and i + 4 of each eight begin in kInt4Pairs, for the 64 columns of a group.
inline void int4_pairs(const char* codes, uint16_t* pairs) {
  const Words both = load_words(codes), seven = _mm256_set1_epi8(7), low_byte = _mm256_set1_epi16(0xff);
  const Words order = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15));
  for (int half = 0; half < 2; half++) {
    const Words two = _mm256_shuffle_epi8(_mm256_and_si256(half ? _mm256_srli_epi16(both, 4) : both, seven), order);
    const Words lower = _mm256_slli_epi16(_mm256_and_si256(two, low_byte), 5);
    store_words(pairs + 16 * half, _mm256_or_si256(lower, _mm256_andnot_si256(low_byte, two)));
  }
}
/// Words 0, 2, 4, 6 of eight in both halves; with words 1, 3, 5, 7 for `odd`.
inline Words every_other(const Word* x, bool odd) {
  const Words even = _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6);
  return _mm256_permutevar8x32_epi32(load_words(x), odd ? _mm256_or_si256(even, _mm256_set1_epi32(1)) : even);
}
/// Bytes of each half's table, by the lower and by the upper four bits of q.
inline Words look_up_low(Words table, Words q) { return _mm256_shuffle_epi8(table, _mm256_and_si256(q, _mm256_set1_epi8(15))); }
inline Words look_up_high(Words table, Words q) { return look_up_low(table, _mm256_srli_epi16(q, 4)); }
/// One row's numbers as int4_columns takes them: how large they are, and, where one is negative, the bits that turn its weight's level about.
struct Int4Row {
  Words even, odd, flips;
  bool fits;  // four products with weights of at most 127 are a number of 16 bits
};
inline Int4Row int4_row(Words even, Words odd) {
  const Words none = no_words(), low = _mm256_set1_epi8(0x0f);
  const Words lower = _mm256_and_si256(low, _mm256_cmpgt_epi8(none, even));
  const Words upper = _mm256_andnot_si256(low, _mm256_cmpgt_epi8(none, odd));
  const Words e = _mm256_abs_epi8(even), o = _mm256_abs_epi8(odd), one = _mm256_set1_epi8(1);
  const Words four = _mm256_add_epi16(_mm256_maddubs_epi16(e, one), _mm256_maddubs_epi16(o, one));
  return {e, o, _mm256_or_si256(lower, upper), _mm256_movemask_epi8(_mm256_cmpgt_epi16(four, _mm256_set1_epi16(32767 / 127))) == 0};
}
inline Words int4_turned(Words q, const Int4Row& x) { return _mm256_xor_si256(q, x.flips); }
/// Products with weights whose levels were turned: four of them added as numbers of 16 bits where they fit.
template <bool kFits>
inline Words add_turned(Words sum, const Int4Row& x, Words even, Words odd) {
#if defined(__AVXVNNI__)
  return _mm256_dpbusd_avx_epi32(_mm256_dpbusd_avx_epi32(sum, x.even, even), x.odd, odd);
#else
  const Words one = _mm256_set1_epi16(1), a = _mm256_maddubs_epi16(x.even, even), b = _mm256_maddubs_epi16(x.odd, odd);
  if (kFits) return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_add_epi16(a, b), one));
  return _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(a, one), _mm256_madd_epi16(b, one)));
#endif
}
/// Word i of each half: the sum of the words in that half of v[i].
inline Words add_across_halves(const Words* v) {
  return _mm256_hadd_epi32(_mm256_hadd_epi32(v[0], v[1]), _mm256_hadd_epi32(v[2], v[3]));
}
inline Words add_words(Words a, Words b) { return _mm256_add_epi32(a, b); }

}  // namespace
}  // namespace slip
