// SPDX-License-Identifier: Apache-2.0
// The vector words of the bodies for 64-bit ARM with dot products of bytes: 8 lanes in two registers, the order of vec_avx2.h in
// every sum, and so the bits of AVX2 in every operation (isa_bits_test.cc). Four lanes would be this processor's own order and would
// save nothing: there are 32 registers, and a tile of 4 rows x 4 of them is what two pipes need.
//
// Of the instructions that came later, none is used. bfdot and bfmmla (FEAT_BF16) round differently: the two products of a pair are
// rounded to odd and added up before the sum takes them, and subnormals are flushed, where AVX2 has two fused multiply-adds; the
// answers of a vehicle and of a workstation would differ. usdot (FEAT_I8MM) would save nothing in products, whose activations are
// signed here. Neither is there on a Cortex-A78AE.
#pragma once
#include <arm_neon.h>

#include <cstddef>

#include "kernels/isa/int4.h"
#include "kernels/isa/ops.h"

namespace slip {
namespace {

constexpr int kLanes = 8;
constexpr int kTileVectors = 2;  // 4 rows x 2 vectors of two registers: 16 sums in flight; two pipes of latency 4 need 8
constexpr int kTileRows = 4;
struct Words {
  uint32x4_t low, high;
};
struct Floats {
  float32x4_t low, high;
  explicit operator Words() const { return {vreinterpretq_u32_f32(low), vreinterpretq_u32_f32(high)}; }
};

inline Words operator^(Words a, Words b) { return {veorq_u32(a.low, b.low), veorq_u32(a.high, b.high)}; }
inline void operator^=(Words& a, Words b) { a = a ^ b; }
inline Words load_words(const void* p) {
  const auto* bytes = static_cast<const uint8_t*>(p);
  return {vreinterpretq_u32_u8(vld1q_u8(bytes)), vreinterpretq_u32_u8(vld1q_u8(bytes + 16))};
}
inline void store_words(void* p, Words v) {
  auto* bytes = static_cast<uint8_t*>(p);
  vst1q_u8(bytes, vreinterpretq_u8_u32(v.low));
  vst1q_u8(bytes + 16, vreinterpretq_u8_u32(v.high));
}
inline Words splat_word(const Word* p) {
  const uint32x4_t v = vdupq_n_u32(*p);
  return {v, v};
}
inline Floats load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4)}; }
inline void store(float* p, Floats v) {
  vst1q_f32(p, v.low);
  vst1q_f32(p + 4, v.high);
}
inline Floats load_part(const float* p, int64_t n) {
  float v[kLanes] = {};
  for (int64_t i = 0; i < n; i++) v[i] = p[i];
  return load(v);
}
inline Floats splat(float a) { return {vdupq_n_f32(a), vdupq_n_f32(a)}; }
inline Floats zeros() { return splat(0); }
inline Floats add_v(Floats a, Floats b) { return {vaddq_f32(a.low, b.low), vaddq_f32(a.high, b.high)}; }
inline Floats sub_v(Floats a, Floats b) { return {vsubq_f32(a.low, b.low), vsubq_f32(a.high, b.high)}; }
inline Floats mul_v(Floats a, Floats b) { return {vmulq_f32(a.low, b.low), vmulq_f32(a.high, b.high)}; }
inline Floats div_v(Floats a, Floats b) { return {vdivq_f32(a.low, b.low), vdivq_f32(a.high, b.high)}; }
/// Whether a number is above `limit`; NaN is not.
inline bool any_above(Floats a, float limit) {
  const float32x4_t most = vdupq_n_f32(limit);
  return vmaxvq_u32(vorrq_u32(vcgtq_f32(a.low, most), vcgtq_f32(a.high, most))) != 0;
}
inline Floats fma_v(Floats a, Floats b, Floats c) { return {vfmaq_f32(c.low, a.low, b.low), vfmaq_f32(c.high, a.high, b.high)}; }
inline float fma_s(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
inline float32x4_t larger(float32x4_t a, float32x4_t b) {
  return vbslq_f32(vcgtq_f32(a, b), a, b);
}  // b where either is NaN, as maxps
inline Floats max_v(Floats a, Floats b) { return {larger(a.low, b.low), larger(a.high, b.high)}; }
inline float sum_lanes(Floats v) {
  const float32x4_t q = vaddq_f32(v.low, v.high);
  const float32x2_t d = vadd_f32(vget_low_f32(q), vget_high_f32(q));
  return vget_lane_f32(d, 0) + vget_lane_f32(d, 1);
}
inline float max_lanes(Floats v) {
  const float32x4_t q = larger(v.low, v.high), d = larger(q, vextq_f32(q, q, 2));
  return vgetq_lane_f32(larger(d, vdupq_laneq_f32(d, 1)), 0);
}

inline Words no_words() { return {vdupq_n_u32(0), vdupq_n_u32(0)}; }
constexpr int kSumsInFlight = 8;  // of two registers each, in attention
inline float32x4_t add_to_exponent_or_zero(float32x4_t a, float32x4_t shifted, float32x4_t x, float32x4_t limit) {
  const uint32x4_t sum = vaddq_u32(vreinterpretq_u32_f32(a), vshlq_n_u32(vreinterpretq_u32_f32(shifted), 23));
  return vreinterpretq_f32_u32(vbicq_u32(sum, vcltq_f32(x, limit)));
}
/// a * 2^n for n in the low bits of `shifted` (exp_s), whose result must be normal; +0 where x < limit.
inline Floats add_to_exponent_or_zero(Floats a, Floats shifted, Floats x, Floats limit) {
  return {add_to_exponent_or_zero(a.low, shifted.low, x.low, limit.low),
          add_to_exponent_or_zero(a.high, shifted.high, x.high, limit.high)};
}

/// One number for each of eight queries.
constexpr int kEight = 1;
struct Eight {
  Floats v[kEight];
};
inline void store_first(float* p, Eight x, int64_t n) { __builtin_memcpy(p, &x, static_cast<size_t>(n) * sizeof(float)); }
inline Floats splat_lane(Eight x, int64_t r) {
  float all[kLanes];
  store(all, x.v[0]);
  return splat(all[r]);
}
/// Number r: the lanes of v[r] folded by `op` in the order of sum_lanes.
template <class Op>
inline Eight fold_lanes_of_8(const Floats* v, Op op) {
  float32x4_t quarters[4], out[2];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {  // lane + lane 4, then + lane 2: two queries side by side
    const float64x2_t a = vreinterpretq_f64_f32(op(v[2 * i].low, v[2 * i].high)),
                      b = vreinterpretq_f64_f32(op(v[2 * i + 1].low, v[2 * i + 1].high));
    quarters[i] = op(vreinterpretq_f32_f64(vtrn1q_f64(a, b)), vreinterpretq_f32_f64(vtrn2q_f64(a, b)));
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++)
    out[i] = op(vuzp1q_f32(quarters[2 * i], quarters[2 * i + 1]), vuzp2q_f32(quarters[2 * i], quarters[2 * i + 1]));
  return {{{out[0], out[1]}}};
}
inline Eight sum_lanes_of_8(const Floats* v) {
  return fold_lanes_of_8(v, [](float32x4_t a, float32x4_t b) { return vaddq_f32(a, b); });
}
inline Eight max_lanes_of_8(const Floats* v) {
  return fold_lanes_of_8(v, [](float32x4_t a, float32x4_t b) { return larger(a, b); });
}

/// How a product takes word s of a row of activations: in the first lane of a register, with which an instruction multiplies all
/// lanes of another. (A load that fills all lanes would take one of the two pipes of the multiplications.) kWords: words of memory
/// per word.
struct DotF32 {
  static constexpr int kWords = 1;
  static inline float32x2_t at(const Word* x, int64_t s) { return vreinterpret_f32_u32(vcreate_u32(x[s])); }
  static inline Words dot(Words sum, float32x2_t x, Words w) { return fma_lane<0>(sum, x, w); }
  /// sum + x[kLane] w. Written out, because g++ 12 makes a copy of the lane in all lanes first.
  template <int kLane>
  static inline Words fma_lane(Words sum, float32x2_t x, Words w) {
    asm("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum.low) : "w"(w.low), "w"(x), "i"(kLane));
    asm("fmla %0.4s, %1.4s, %2.s[%3]" : "+w"(sum.high) : "w"(w.high), "w"(x), "i"(kLane));
    return sum;
  }
};
/// The lower and the upper bf16 of every word as f32.
inline Words widened_low(Words w) { return {vshlq_n_u32(w.low, 16), vshlq_n_u32(w.high, 16)}; }
inline Words widened_high(Words w) {
  const uint32x4_t upper = vdupq_n_u32(0xffff0000u);
  return {vandq_u32(w.low, upper), vandq_u32(w.high, upper)};
}
struct DotBF16 {
  // Activations lie in memory as f32, so that only the weights are widened here: 8 instructions beside 32 fmla for a step of 4 rows.
  static constexpr int kWords = 2;
  static inline float32x2_t at(const Word* x, int64_t s) { return vreinterpret_f32_u32(vld1_u32(x + 2 * s)); }
  static inline Words dot(Words sum, float32x2_t x, Words w) {
    return DotF32::fma_lane<1>(DotF32::fma_lane<0>(sum, x, widened_low(w)), x, widened_high(w));
  }
};
inline uint32x4_t dot_bytes(uint32x4_t sum, uint32x4_t x, uint32x4_t w) {
  return vreinterpretq_u32_s32(vdotq_s32(vreinterpretq_s32_u32(sum), vreinterpretq_s8_u32(x), vreinterpretq_s8_u32(w)));
}
struct DotWeightI8 {
  static constexpr int kWords = 1, kOffset = 0;
  static inline uint32x2_t at(const Word* x, int64_t s) { return vcreate_u32(x[s]); }
  static inline Words dot(Words sum, uint32x2_t x, Words w) { return {dot_lane(sum.low, x, w.low), dot_lane(sum.high, x, w.high)}; }
  static inline Words dot(Words sum, Words x, Words w) {
    return {dot_bytes(sum.low, x.low, w.low), dot_bytes(sum.high, x.high, w.high)};
  }

 private:
  static inline uint32x4_t dot_lane(uint32x4_t sum, uint32x2_t x, uint32x4_t w) {
    return vreinterpretq_u32_s32(vdotq_lane_s32(vreinterpretq_s32_u32(sum), vreinterpretq_s8_u32(w), vreinterpret_s8_u32(x), 0));
  }
};
/// Unsigned bytes of x with signed ones of w, for attention over int8 keys: x w = (x - 128) w + 128 w.
struct DotI8 {
  static constexpr int kWords = 1;
  static inline Words at(const Word* x, int64_t s) {
    const uint32x4_t v = vdupq_n_u32(x[s] ^ 0x80808080u);
    return {v, v};
  }
  static inline Words dot(Words sum, Words x, Words w) { return {dot(sum.low, x.low, w.low), dot(sum.high, x.high, w.high)}; }

 private:
  static inline uint32x4_t dot(uint32x4_t sum, uint32x4_t x, uint32x4_t w) {
    const uint32x4_t sixty_four = vdupq_n_u32(0x40404040u), none = vdupq_n_u32(0);
    const uint32x4_t shift = vshlq_n_u32(dot_bytes(none, sixty_four, w), 1);  // one for all x: leaves the loop over them
    return dot_bytes(vaddq_u32(sum, shift), x, w);
  }
};

/// A chunk of int4 weights as int8 words, [steps][64]: four columns' tables are one of 64 bytes.
inline void unpack_int4(const char* chunk, int64_t steps, Word* words) {
  const auto* codes = reinterpret_cast<const uint8_t*>(chunk);
  const uint8_t* line = codes + int4_code_bytes(steps);
  auto* out = reinterpret_cast<uint8_t*>(words);
  const uint8x16_t starts = vreinterpretq_u8_u32(vmulq_n_u32(uint32x4_t{0, 1, 2, 3}, 0x10101010u));
  const uint8x16_t lower = vdupq_n_u8(15);
  for (int64_t s = 0; s < steps; s += kInt4GroupSteps, codes += 32, line += 4 * 256, out += 8 * 256) {
    for (int64_t c = 0; c < kBlockColumns; c += 4) {
      const uint8_t* code = codes + c % 32;
      const int shift = c < 32 ? 4 : 0;  // 16 * code is where its table begins
      const auto table_of = [&](int64_t i) {
        return vld1q_u8(reinterpret_cast<const uint8_t*>(kInt4Values.at) + (code[i] << shift & 0x70));
      };
      const uint8x16x4_t table{{table_of(0), table_of(1), table_of(2), table_of(3)}};
#pragma GCC unroll 4
      for (int64_t p = 0; p < 4; p++) {
        const uint8x16_t q = vld1q_u8(line + p * 256 + 4 * c);
        vst1q_u8(out + 2 * p * 256 + 4 * c, vqtbl4q_u8(table, vbslq_u8(lower, q, starts)));
        vst1q_u8(out + (2 * p + 1) * 256 + 4 * c, vqtbl4q_u8(table, vsriq_n_u8(starts, q, 4)));
      }
    }
  }
}

/// What int4 products of one row need (body/int4.h). A half of a vector is 16 bytes.
/// The 4 x 4 words in each half of r[0] .. r[3], transposed: r[i] gets what stood at i in each.
inline void transpose_halves(Words* r) {
  const auto transposed = [](uint32x4_t& a, uint32x4_t& b, uint32x4_t& c, uint32x4_t& d) {
    const uint64x2_t even_ab = vreinterpretq_u64_u32(vtrn1q_u32(a, b)), odd_ab = vreinterpretq_u64_u32(vtrn2q_u32(a, b));
    const uint64x2_t even_cd = vreinterpretq_u64_u32(vtrn1q_u32(c, d)), odd_cd = vreinterpretq_u64_u32(vtrn2q_u32(c, d));
    a = vreinterpretq_u32_u64(vtrn1q_u64(even_ab, even_cd));
    b = vreinterpretq_u32_u64(vtrn1q_u64(odd_ab, odd_cd));
    c = vreinterpretq_u32_u64(vtrn2q_u64(even_ab, even_cd));
    d = vreinterpretq_u32_u64(vtrn2q_u64(odd_ab, odd_cd));
  };
  transposed(r[0].low, r[1].low, r[2].low, r[3].low);
  transposed(r[0].high, r[1].high, r[2].high, r[3].high);
}
/// Where the tables of columns i and i + 4 of each eight begin in kInt4Pairs, for the 64 columns of a group.
inline void int4_pairs(const char* codes, uint16_t* pairs) {
  constexpr uint8_t kOrder[16] = {0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15};
  for (int i = 0; i < 4; i++) {
    const uint8x16_t both = vld1q_u8(reinterpret_cast<const uint8_t*>(codes) + 16 * (i % 2));
    const uint8x16_t code = vandq_u8(i < 2 ? both : vshrq_n_u8(both, 4), vdupq_n_u8(7));
    const uint16x8_t two = vreinterpretq_u16_u8(vqtbl1q_u8(code, vld1q_u8(kOrder)));
    vst1q_u16(pairs + 8 * i, vorrq_u16(vshlq_n_u16(vandq_u16(two, vdupq_n_u16(0xff)), 5), vbicq_u16(two, vdupq_n_u16(0xff))));
  }
}
/// Words 0, 2, 4, 6 of eight in both halves; with words 1, 3, 5, 7 for `odd`.
inline Words every_other(const Word* x, bool odd) {
  const uint32x4x2_t v = vld2q_u32(x);
  return {v.val[odd], v.val[odd]};
}
inline uint32x4_t look_up(uint32x4_t table, uint8x16_t at) {
  return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(table), at));
}
/// Bytes of each half's table, by the lower and by the upper four bits of q.
inline Words look_up_low(Words table, Words q) {
  const uint8x16_t lower = vdupq_n_u8(15);
  return {look_up(table.low, vandq_u8(vreinterpretq_u8_u32(q.low), lower)),
          look_up(table.high, vandq_u8(vreinterpretq_u8_u32(q.high), lower))};
}
inline Words look_up_high(Words table, Words q) {
  return {look_up(table.low, vshrq_n_u8(vreinterpretq_u8_u32(q.low), 4)),
          look_up(table.high, vshrq_n_u8(vreinterpretq_u8_u32(q.high), 4))};
}
/// One row's numbers as int4_columns takes them: as they are, for dot products of signed bytes.
struct Int4Row {
  Words even, odd;
  static constexpr bool fits = true;
};
inline Int4Row int4_row(Words even, Words odd) { return {even, odd}; }
inline Words int4_turned(Words q, const Int4Row&) { return q; }
template <bool kFits>
inline Words add_turned(Words sum, const Int4Row& x, Words even, Words odd) {
  return DotWeightI8::dot(DotWeightI8::dot(sum, x.even, even), x.odd, odd);
}
/// Word i of each half: the sum of the words in that half of v[i].
inline Words add_across_halves(const Words* v) {
  return {vpaddq_u32(vpaddq_u32(v[0].low, v[1].low), vpaddq_u32(v[2].low, v[3].low)),
          vpaddq_u32(vpaddq_u32(v[0].high, v[1].high), vpaddq_u32(v[2].high, v[3].high))};
}
inline Words add_words(Words a, Words b) { return {vaddq_u32(a.low, b.low), vaddq_u32(a.high, b.high)}; }

/// out[k][j] = rows[j][k] for kLanes x kLanes numbers.
inline void transpose_square(const float* const* rows, int64_t k, float* out, int64_t ldo) {
#pragma GCC unroll 2
  for (int j = 0; j < 8; j += 4) {
    Words r[4] = {load_words(rows[j] + k), load_words(rows[j + 1] + k), load_words(rows[j + 2] + k), load_words(rows[j + 3] + k)};
    transpose_halves(r);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      vst1q_f32(out + i * ldo + j, vreinterpretq_f32_u32(r[i].low));
      vst1q_f32(out + (i + 4) * ldo + j, vreinterpretq_f32_u32(r[i].high));
    }
  }
}

}  // namespace
}  // namespace slip
