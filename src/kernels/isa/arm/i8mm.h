// SPDX-License-Identifier: Apache-2.0
// Products of bytes by ARM's i8mm: one instruction adds to 2 x 2 sums the products of 8 bytes of two rows with 8 bytes of two columns, twice
// what a dot product does. Weights of two steps are zipped to that form as they pass by, for up to eight rows. Sums are exact, so the bits are
// those of NEON's dot products, which one row goes on taking. Included after table.h.
#pragma once

namespace slip {
namespace {

constexpr int64_t kPairTile = 8;  // rows of a tile at most, and its columns: 16 sums of four, 4 vectors of weights and 4 of rows

struct PairTile {
  Word* sums;
  const Word* x;
  int64_t ldx;
  const Word* w;
  int64_t steps;
  bool fresh;
  const char* ahead;  // a line of 64 bytes is fetched per two steps; may be null
};

inline int8x16_t as_bytes(uint32x4_t v) { return vreinterpretq_s8_u32(v); }

/// Two words of each of two rows; the second row or the second word may be missing, and is zero then.
inline int8x16_t two_rows(const Word* x, int64_t ldx, bool second_row, bool second_word) {
  const uint32x2_t none = vdup_n_u32(0);
  const auto words = [&](const Word* p) { return second_word ? vld1_u32(p) : vset_lane_u32(*p, none, 0); };
  return as_bytes(vcombine_u32(words(x), second_row ? words(x + ldx) : none));
}

template <int kRows>
inline void add_two_steps(int32x4_t (&a)[(kRows + 1) / 2][4], const PairTile& t, int64_t s, bool second) {
  const uint32x4_t none = vdupq_n_u32(0);
  const Word* w = t.w + s * kBlockColumns;
  const uint32x4_t low = vld1q_u32(w), high = vld1q_u32(w + 4);
  const uint32x4_t low_next = second ? vld1q_u32(w + kBlockColumns) : none,
                   high_next = second ? vld1q_u32(w + kBlockColumns + 4) : none;
  const int8x16_t b[4] = {as_bytes(vzip1q_u32(low, low_next)), as_bytes(vzip2q_u32(low, low_next)),
                          as_bytes(vzip1q_u32(high, high_next)), as_bytes(vzip2q_u32(high, high_next))};
#pragma GCC unroll 4
  for (int p = 0; p < (kRows + 1) / 2; p++) {
    const int8x16_t rows = two_rows(t.x + 2 * p * t.ldx + s, t.ldx, 2 * p + 1 < kRows, second);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) a[p][i] = vmmlaq_s32(a[p][i], rows, b[i]);
  }
}

/// Sums of two rows and four columns, row by row, as the unit has them two by two, and back.
inline void pair_up(int32x4_t first, int32x4_t second, int32x4_t* a) {
  a[0] = vreinterpretq_s32_s64(vtrn1q_s64(vreinterpretq_s64_s32(first), vreinterpretq_s64_s32(second)));
  a[1] = vreinterpretq_s32_s64(vtrn2q_s64(vreinterpretq_s64_s32(first), vreinterpretq_s64_s32(second)));
}

template <int kRows>
void pair_tile(const PairTile& t) {
  constexpr int kPairs = (kRows + 1) / 2;
  int32x4_t a[kPairs][4];
  auto* sums = reinterpret_cast<int32_t*>(t.sums);
  const int32x4_t none = vdupq_n_s32(0);
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; p++)
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      const int32_t* first = sums + 2 * p * kBlockColumns + 4 * h;
      const bool two = 2 * p + 1 < kRows;
      pair_up(t.fresh ? none : vld1q_s32(first), t.fresh || !two ? none : vld1q_s32(first + kBlockColumns), &a[p][2 * h]);
    }
  int64_t s = 0;
  for (; s + 2 <= t.steps; s += 2) {
    if (t.ahead) __builtin_prefetch(t.ahead + s / 2 * 64);
    add_two_steps<kRows>(a, t, s, true);
  }
  if (s < t.steps) add_two_steps<kRows>(a, t, s, false);
#pragma GCC unroll 4
  for (int p = 0; p < kPairs; p++)
#pragma GCC unroll 2
    for (int h = 0; h < 2; h++) {
      int32x4_t row[2];
      pair_up(a[p][2 * h], a[p][2 * h + 1], row);
      int32_t* first = sums + 2 * p * kBlockColumns + 4 * h;
      vst1q_s32(first, row[0]);
      if (2 * p + 1 < kRows) vst1q_s32(first + kBlockColumns, row[1]);
    }
}

/// `steps` of a block from step s on, whose int8 words are at w; `ahead`: what comes next, `lines` of 64 bytes.
void chunk_in_pairs(const ProductArgs& a, int64_t s, int64_t steps, const Word* w, const char* ahead, int64_t lines) {
  static constexpr void (*kTiles[kPairTile])(const PairTile&) = {pair_tile<1>, pair_tile<2>, pair_tile<3>, pair_tile<4>,
                                                                 pair_tile<5>, pair_tile<6>, pair_tile<7>, pair_tile<8>};
  const Word* x = a.x + s / kChunkSteps * a.chunk;
  for (int64_t r = 0; r < a.rows; r += kPairTile) {
    const int64_t rows = a.rows - r < kPairTile ? a.rows - r : kPairTile;
    for (int64_t c = 0; c < a.columns; c += kPairTile) {
      // The first rows' tiles fetch what the next chunk has, each its part.
      const int64_t from = c / kPairTile * (steps / 2);
      const char* part = ahead && r == 0 && from < lines ? ahead + from * 64 : nullptr;
      kTiles[rows - 1]({a.sums + r * kBlockColumns + c, x + r * a.ldx, a.ldx, w + c, steps, s == 0, part});
    }
  }
}

void product_int8_i8mm(const ProductArgs& a) {
  if (a.rows == 1) return product<DotWeightI8>(a);
  const Word* w = static_cast<const Word*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    const Word* after = w + (s + steps) * kBlockColumns;
    chunk_in_pairs(a, s, steps, w + s * kBlockColumns,
                   s + steps == a.steps ? static_cast<const char*>(a.next) : reinterpret_cast<const char*>(after), 4 * kChunkSteps);
  }
}

/// A chunk becomes int8 in the L1 once, for all rows.
void product_int4_i8mm(const ProductArgs& a) {
  if (a.rows == 1) return product_int4(a);
  alignas(64) Word words[kChunkSteps * kBlockColumns];
  const char* w = static_cast<const char*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    unpack_int4(w, steps, words);
    w += int4_chunk_bytes(steps);
    chunk_in_pairs(a, s, steps, words, s + steps == a.steps ? static_cast<const char*>(a.next) : w, 2 * kChunkSteps);
  }
}

}  // namespace
}  // namespace slip
