// SPDX-License-Identifier: Apache-2.0
// Products with int4 weights (int4.h, packed_layout.h). Sums are exact integers, so the two forms give the same bits: few rows unpack
// in registers while the weights pass by; many rows share one unpacking into the L1. Included after body_product.h.
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
    product_chunk<DotI8>(a, s, steps, words, s + steps == a.steps ? static_cast<const char*>(a.next) : chunk, 2);
  }
}

#if defined(__AVX512VBMI__)
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
        for (int v = 0; v < kVectors; v++) a[r][v] = DotI8::dot(a[r][v], x0, low[v]);
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; r++) {
        const Words x1 = splat_word(x + r * ldx + s + p + 1);
#pragma GCC unroll 4
        for (int v = 0; v < kVectors; v++) a[r][v] = DotI8::dot(a[r][v], x1, high[v]);
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
void product_int4(const ProductArgs& a) { product_int4_unpacked(a); }
#endif

}  // namespace
}  // namespace slip
