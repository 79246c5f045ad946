// SPDX-License-Identifier: Apache-2.0
// The 128 numbers that an int4 weight can be: 8 codes (one per column and group of 32 along k) x 16 levels. A weight is channel
// scale * int4_value(code, level), so that a group's scale costs nothing in the product: levels and codes become int8 once, sums are
// exact int32 as with int8 weights.
//
// Levels are 0.6 u + 0.4 u^3 for u = +-1/15, +-3/15 .. +-1 (normal numbers cut off at their group's largest are dense in the middle),
// codes are factors 1.2^(code - 7) in 128ths. The lowest is 35, not 36: with 36 one number lies half-way between two integers, and
// rounding would break that level 15 - u is the negative of level u, which products rely on. Error on normal numbers 8.4 % rms against
// 9.7 % of absmax groups of 32 with f32 scales, on heavy tails 10.0 against 12.3 % (docs/lab/0007). There is no level zero: a group of
// zeros is +-1/127 of its channel's largest.
#pragma once
#include <cstdint>

namespace slip {

constexpr int64_t kInt4Group = 32;                   // numbers along k that share a code
constexpr int64_t kInt4GroupSteps = kInt4Group / 4;  // words
constexpr int kInt4Codes = 8;
// Of a chunk of `steps` words (packed_layout.h); internal linkage, because files with machine flags include this.
static constexpr int64_t int4_code_bytes(int64_t steps) { return (steps / kInt4GroupSteps * 32 + 63) / 64 * 64; }
static constexpr int64_t int4_chunk_bytes(int64_t steps) { return int4_code_bytes(steps) + steps * 128; }

constexpr int8_t kInt4Levels[16] = {-127, -99, -76, -57, -41, -27, -16, -5, 5, 16, 27, 41, 57, 76, 99, 127};
constexpr int16_t kInt4Factors[kInt4Codes] = {35, 43, 51, 62, 74, 89, 107, 128};  // / 128

/// All of them, at 16 * code + level: level * factor / 128, halves rounded up, which is what pmulhrsw makes of level * 256.
struct Int4Values {
  int8_t at[16 * kInt4Codes];
};
constexpr Int4Values kInt4Values = [] {
  Int4Values out{};
  for (int code = 0; code < kInt4Codes; code++)
    for (int level = 0; level < 16; level++)
      out.at[16 * code + level] = static_cast<int8_t>((kInt4Levels[level] * kInt4Factors[code] + 64) >> 7);
  return out;
}();
static_assert([] {
  for (int i = 0; i < 16 * kInt4Codes; i++)
    if (kInt4Values.at[i] != -kInt4Values.at[i / 16 * 16 + 15 - i % 16]) return false;
  return true;
}());

}  // namespace slip
