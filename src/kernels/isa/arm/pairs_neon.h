// SPDX-License-Identifier: Apache-2.0
// Words of two bf16 for attention, 64-bit ARM.
#pragma once
#include "kernels/isa/arm/vec_neon.h"

namespace slip {
namespace {

/// bf16 of each lane in its lower half: ties to even, NaN stays NaN.
inline uint32x4_t round_to_bf16(float32x4_t x) {
  const uint32x4_t u = vreinterpretq_u32_f32(x), number = vceqq_f32(x, x);
  const uint32x4_t even = vandq_u32(vshrq_n_u32(u, 16), vdupq_n_u32(1));
  const uint32x4_t rounded = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), even);
  return vshrq_n_u32(vbslq_u32(number, rounded, vorrq_u32(u, vdupq_n_u32(0x400000))), 16);
}

/// The numbers of low, then those of high, rounded to bf16, two to a word.
inline Words pack_pairs(Floats low, Floats high) {
  const auto narrow = [](Floats x) {
    return vreinterpretq_u32_u16(vcombine_u16(vmovn_u32(round_to_bf16(x.low)), vmovn_u32(round_to_bf16(x.high))));
  };
  return {narrow(low), narrow(high)};
}

/// a[i] | b[i] << 16, rounded to bf16 (ties to even, NaN stays NaN), lane by lane.
inline Words pair_lanes(Floats a, Floats b) {
  return {vsliq_n_u32(round_to_bf16(a.low), round_to_bf16(b.low), 16),
          vsliq_n_u32(round_to_bf16(a.high), round_to_bf16(b.high), 16)};
}

/// out[i] = a[i] | b[i] << 16 for i < n; b null: zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, int64_t n, Word* out, int64_t) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const uint16x8_t x = vld1q_u16(a + i), y = b ? vld1q_u16(b + i) : vdupq_n_u16(0);
    store_words(out + i, {vreinterpretq_u32_u16(vzip1q_u16(x, y)), vreinterpretq_u32_u16(vzip2q_u16(x, y))});
  }
  for (; i < n; i++) out[i] = a[i] | (b ? static_cast<uint32_t>(b[i]) << 16 : 0u);
}

/// As the products do it (vec_neon.h says why without bfdot): the lower numbers' fused multiply-add first. In place: as an intrinsic,
/// g++ 12 copies half of the sums in every turn of a loop.
inline void add_dot(Words& sum, Words x, Words w) {
  const Words x0 = widened_low(x), w0 = widened_low(w), x1 = widened_high(x), w1 = widened_high(w);
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum.low) : "w"(x0.low), "w"(w0.low));
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum.high) : "w"(x0.high), "w"(w0.high));
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum.low) : "w"(x1.low), "w"(w1.low));
  asm("fmla %0.4s, %1.4s, %2.4s" : "+w"(sum.high) : "w"(x1.high), "w"(w1.high));
}

/// The lower number of every word; the upper one becomes 0.
inline Words lower_of(Words w) {
  const uint32x4_t lower = vdupq_n_u32(0xffff);
  return {vandq_u32(w.low, lower), vandq_u32(w.high, lower)};
}
/// 1 in both halves of every word.
inline Words ones() { return {vdupq_n_u32(0x3f803f80), vdupq_n_u32(0x3f803f80)}; }

}  // namespace
}  // namespace slip

#include "kernels/isa/pairs_as_words.h"
