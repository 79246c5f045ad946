// SPDX-License-Identifier: Apache-2.0
// Words of two bf16 for attention, any processor.
#pragma once
#include "kernels/isa/vec_portable.h"

namespace slip {
namespace {

/// bf16 of each lane in its lower half: ties to even, NaN stays NaN.
inline Words round_to_bf16(Floats x) {
  const Words u = (Words)x, nan = (Words)(x != x);
  return (((u + 0x7fffu + ((u >> 16) & 1u)) & ~nan) | ((u | 0x400000u) & nan)) >> 16;
}
/// The numbers of low, then those of high, rounded to bf16 (ties to even, NaN stays NaN), two to a word.
inline Words pack_pairs(Floats low, Floats high) {
  const Words a = round_to_bf16(low), b = round_to_bf16(high);
  return Words{a[0] | a[1] << 16, a[2] | a[3] << 16, b[0] | b[1] << 16, b[2] | b[3] << 16};
}

/// a[i] | b[i] << 16, rounded, lane by lane.
inline Words pair_lanes(Floats a, Floats b) { return round_to_bf16(a) | round_to_bf16(b) << 16; }

/// out[i] = a[i] | b[i] << 16 for i < n; b null: zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, int64_t n, Word* out, int64_t) {
  for (int64_t i = 0; i < n; i++) out[i] = a[i] | (b ? static_cast<uint32_t>(b[i]) << 16 : 0u);
}

inline void add_dot(Words& sum, Words x, Words w) { sum = DotBF16::dot(sum, x, w); }

/// The lower number of every word; the upper one becomes 0.
inline Words lower_of(Words w) { return w & 0xffffu; }
/// 1 in both halves of every word.
inline Words ones() { return Words{0x3f803f80u, 0x3f803f80u, 0x3f803f80u, 0x3f803f80u}; }

}  // namespace
}  // namespace slip

#include "kernels/isa/pairs_as_words.h"
