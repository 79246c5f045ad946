// SPDX-License-Identifier: Apache-2.0
// Products with int4 weights (int4.h, packed_layout.h). Sums are exact integers, so all forms give the same bits: few rows unpack
// in registers while the weights pass by (AVX-512: up to eight; AVX2 and NEON: one); more share one unpacking into the L1. Included
// after body/product.h.
#pragma once

namespace slip {
namespace {

/// A chunk becomes int8 in the L1 once, for all rows.
void product_int4_unpacked(const ProductArgs& a) {
  alignas(64) Word words[kChunkSteps * kBlockColumns];
  const char* chunk = static_cast<const char*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    unpack_int4(chunk, steps, words);
    chunk += int4_chunk_bytes(steps);
    product_chunk<DotWeightI8>(a, s, steps, words, s + steps == a.steps ? static_cast<const char*>(a.next) : chunk, 2);
  }
}

#if defined(__AVX512F__)
/// One chunk for kRows rows and vectors first .. first + kVectors - 1 of the columns; kFetch lines of 64 bytes per step from `ahead`.
template <int kRows, int kVectors, int kFetch>
[[gnu::noinline]] void int4_tile(Word* sums, const Word* x, int64_t ldx, const char* chunk, int64_t steps, int64_t first,
                                 bool fresh, const char* ahead) {
  Words a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) a[r][v] = fresh ? no_words() : load_words(sums + r * kBlockColumns + (first + v) * kLanes);
  const Int4Table table = int4_table();
  const char* line = chunk + int4_code_bytes(steps) + first * 64;
  for (int64_t s = 0; s < steps; s += kInt4GroupSteps) {
    Words starts[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) starts[v] = int4_starts(chunk + s / kInt4GroupSteps * 32, first + v);
#pragma GCC unroll 1
    for (int64_t p = 0; p < kInt4GroupSteps; p += 2, line += 256) {
#pragma GCC unroll 4
      for (int f = 0; f < 2 * kFetch; f++) __builtin_prefetch(ahead + ((s + p) * kFetch + f) * 64);
      Words low[kVectors], high[kVectors];
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) {
        const Words q = load_words(line + v * 64);
        low[v] = int4_values(q, starts[v], table);
        high[v] = int4_values(_mm512_srli_epi16(q, 4), starts[v], table);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r++) {
        const Words x0 = splat_word(x + r * ldx + s + p);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; v++) a[r][v] = DotWeightI8::dot(a[r][v], x0, low[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r++) {
        const Words x1 = splat_word(x + r * ldx + s + p + 1);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; v++) a[r][v] = DotWeightI8::dot(a[r][v], x1, high[v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) store_words(sums + r * kBlockColumns + (first + v) * kLanes, a[r][v]);
}

template <int kRows>
void int4_rows(const ProductArgs& a, int64_t s, int64_t steps, const char* chunk, const char* ahead) {
  const Word* x = a.x + s / kChunkSteps * a.chunk;
  if constexpr (kRows <= 4) {
    (ahead ? int4_tile<kRows, 4, 2> : int4_tile<kRows, 4, 0>)(a.sums, x, a.ldx, chunk, steps, 0, s == 0, ahead);
  } else {
    (ahead ? int4_tile<kRows, 2, 1> : int4_tile<kRows, 2, 0>)(a.sums, x, a.ldx, chunk, steps, 0, s == 0, ahead);
    (ahead ? int4_tile<kRows, 2, 1> : int4_tile<kRows, 2, 0>)(a.sums, x, a.ldx, chunk, steps, 2, s == 0,
                                                              ahead ? ahead + steps * 64 : nullptr);
  }
}

void product_int4(const ProductArgs& a) {
  constexpr void (*kRows[8])(const ProductArgs&, int64_t, int64_t, const char*, const char*) = {
      int4_rows<1>, int4_rows<2>, int4_rows<3>, int4_rows<4>, int4_rows<5>, int4_rows<6>, int4_rows<7>, int4_rows<8>};
  if (a.rows > 8) return product_int4_unpacked(a);
  const char* chunk = static_cast<const char*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    const char* after = chunk + int4_chunk_bytes(steps);
    kRows[a.rows - 1](a, s, steps, chunk, s + steps == a.steps ? static_cast<const char*>(a.next) : after);
    chunk = after;
  }
}
#else
#if defined(__AVX2__) || defined(__ARM_FEATURE_DOTPROD)
/// The tables of two columns, at 32 * (8 * code of the upper + code of the lower).
struct Int4Pairs {
  alignas(64) int8_t at[kInt4Codes * kInt4Codes * 32];
};
constexpr Int4Pairs kInt4Pairs = [] {
  Int4Pairs out{};
  for (int pair = 0; pair < kInt4Codes * kInt4Codes; pair++)
    for (int level = 0; level < 16; level++) {
      out.at[32 * pair + level] = kInt4Values.at[16 * (pair % kInt4Codes) + level];
      out.at[32 * pair + 16 + level] = kInt4Values.at[16 * (pair / kInt4Codes) + level];
    }
  return out;
}();

/// A group of a chunk, as one row takes it.
struct Int4Group {
  Int4Row row;
  uint16_t pairs[kBlockColumns / 2];  // int4_pairs
};

/// One row, 8 columns of a chunk: the words of 4 lines are transposed, so that 16 bytes belong to one column and find their numbers in
/// a table of 16. A sum's parts lie in the four words of half a vector until the end. Where a number of the row is negative its weight's
/// level is turned about instead (Int4Row), 64 of them by one instruction, which saves the sign in each product. kFits: of all groups' rows.
template <bool kFits, bool kFetch>
inline Words int4_columns(const Int4Group* groups, int64_t count, const char* line, int64_t column, const char* ahead) {
  Words sums[4] = {no_words(), no_words(), no_words(), no_words()};
  for (int64_t g = 0; g < count; g++, line += 4 * 256) {
    if constexpr (kFetch) {  // the next chunk into the L1, the one behind it into the L2
      const char* next = ahead + g * 128;
      __builtin_prefetch(next);
      __builtin_prefetch(next + 64);
      __builtin_prefetch(next + 2 * int4_chunk_bytes(kChunkSteps), 0, 2);
      __builtin_prefetch(next + 2 * int4_chunk_bytes(kChunkSteps) + 64, 0, 2);
    }
    Words q[4] = {load_words(line), load_words(line + 256), load_words(line + 512), load_words(line + 768)};
    transpose_halves(q);
    const uint16_t* pairs = groups[g].pairs + column / 2;
#pragma GCC unroll 4
    for (int64_t i = 0; i < 4; i++) {
      const Words table = load_words(kInt4Pairs.at + pairs[i]), levels = int4_turned(q[i], groups[g].row);
      sums[i] = add_turned<kFits>(sums[i], groups[g].row, look_up_low(table, levels), look_up_high(table, levels));
    }
  }
  return add_across_halves(sums);
}

/// All columns of a chunk. Eight turns over them fetch what a chunk has: 2 lines of 64 bytes per step.
template <bool kFits>
void int4_chunk(const ProductArgs& a, const Int4Group* groups, int64_t count, const char* lines, const char* ahead, bool fresh) {
  for (int64_t c = 0; c < a.columns; c += kLanes) {
    const char* line = lines + c * 4;
    const Words sum = ahead ? int4_columns<kFits, true>(groups, count, line, c, ahead + c * 2 * count * kInt4GroupSteps)
                            : int4_columns<kFits, false>(groups, count, line, c, nullptr);
    store_words(a.sums + c, fresh ? sum : add_words(load_words(a.sums + c), sum));
  }
}

void product_int4_row(const ProductArgs& a) {
  const char* chunk = static_cast<const char*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps, count = steps / kInt4GroupSteps;
    const Word* x = a.x + s / kChunkSteps * a.chunk;
    Int4Group groups[kChunkSteps / kInt4GroupSteps];
    bool fits = true;
    for (int64_t g = 0; g < count; g++) {
      groups[g].row = int4_row(every_other(x + g * kInt4GroupSteps, false), every_other(x + g * kInt4GroupSteps, true));
      int4_pairs(chunk + g * 32, groups[g].pairs);
      fits = fits && groups[g].row.fits;
    }
    const char* after = chunk + int4_chunk_bytes(steps);
    const char* ahead = s + steps == a.steps ? static_cast<const char*>(a.next) : after;
    (fits ? int4_chunk<true> : int4_chunk<false>)(a, groups, count, chunk + int4_code_bytes(steps), ahead, s == 0);
    chunk = after;
  }
}
void product_int4(const ProductArgs& a) { a.rows == 1 ? product_int4_row(a) : product_int4_unpacked(a); }
#else
void product_int4(const ProductArgs& a) { product_int4_unpacked(a); }
#endif
#endif

}  // namespace
}  // namespace slip
