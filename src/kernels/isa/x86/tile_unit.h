// SPDX-License-Identifier: Apache-2.0
// The matrix unit's operations, one function each: eight tiles of 16 rows of 64 bytes, all at their full size. Where SLIP_EMULATED_TILES is
// defined AVX-512 computes them as the manual says, so that a processor without the unit has its bits (amx_test.cc holds both to the manual).
// Included after table.h.
#pragma once

namespace slip {
namespace {

constexpr int64_t kTileSize = 16;  // rows of a tile, words of its row

#ifdef SLIP_EMULATED_TILES

struct alignas(64) EmulatedTile {
  int32_t words[kTileSize][16];
};
thread_local constinit EmulatedTile g_tiles[8]{};

template <int kTile>
inline void load_tile(const char* p, int64_t stride) {
  for (int64_t r = 0; r < kTileSize; r++) _mm512_store_si512(g_tiles[kTile].words[r], _mm512_loadu_si512(p + r * stride));
}
template <int kTile>
inline void store_tile(char* p, int64_t stride) {
  for (int64_t r = 0; r < kTileSize; r++) _mm512_storeu_si512(p + r * stride, _mm512_load_si512(g_tiles[kTile].words[r]));
}
template <int kTile>
inline void clear_tile() {
  for (int64_t r = 0; r < kTileSize; r++) _mm512_store_si512(g_tiles[kTile].words[r], _mm512_setzero_si512());
}
/// Subnormal numbers count as zero.
inline __m512 without_subnormal(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x);
  const __mmask16 small = _mm512_testn_epi32_mask(bits, _mm512_set1_epi32(0x7f800000));
  return _mm512_castsi512_ps(_mm512_mask_and_epi32(bits, small, bits, _mm512_set1_epi32(INT32_MIN)));
}
inline __m512 next_in_chain(__m512 sum, __m512 x, __m512 w) {
  return without_subnormal(_mm512_fmadd_ps(without_subnormal(x), without_subnormal(w), sum));
}
struct TilesBF16 {
  static inline __m512 lower(__m512i words) { return _mm512_castsi512_ps(_mm512_slli_epi32(words, 16)); }
  static inline __m512 upper(__m512i words) {
    return _mm512_castsi512_ps(_mm512_and_si512(words, _mm512_set1_epi32(static_cast<int32_t>(0xffff0000U))));
  }
  template <int kSum, int kRow, int kColumn>
  static inline void add() {
    for (int64_t r = 0; r < kTileSize; r++) {
      __m512 low = _mm512_setzero_ps(), high = _mm512_setzero_ps();
      for (int64_t k = 0; k < kTileSize; k++) {
        const __m512i x = _mm512_set1_epi32(g_tiles[kRow].words[r][k]), w = _mm512_load_si512(g_tiles[kColumn].words[k]);
        low = next_in_chain(low, lower(x), lower(w));
        high = next_in_chain(high, upper(x), upper(w));
      }
      int32_t* sum = g_tiles[kSum].words[r];
      const __m512 both = without_subnormal(_mm512_add_ps(low, high));
      const __m512 before = without_subnormal(_mm512_castsi512_ps(_mm512_load_si512(sum)));
      const __m512 all = without_subnormal(_mm512_add_ps(before, both));
      _mm512_store_si512(sum, _mm512_castps_si512(all));
    }
  }
};
struct TilesI8 {
  static_assert(DotWeightI8::kOffset == 128 && DotWeightI8::kWords == 1);
  template <int kSum, int kRow, int kColumn>
  static inline void add() {
    for (int64_t r = 0; r < kTileSize; r++) {
      __m512i sum = _mm512_load_si512(g_tiles[kSum].words[r]);
      for (int64_t k = 0; k < kTileSize; k++)
        sum = _mm512_dpbusd_epi32(sum, _mm512_set1_epi32(g_tiles[kRow].words[r][k]), _mm512_load_si512(g_tiles[kColumn].words[k]));
      _mm512_store_si512(g_tiles[kSum].words[r], sum);
    }
  }
};
inline void set_tiles() {}

#else

// g++ 12's intrinsics are macros that take no template's argument, and its tile loads and stores do not say that they touch memory.
template <int kTile>
inline void load_tile(const char* p, int64_t stride) {
  asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void store_tile(char* p, int64_t stride) {
  asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(p), "r"(stride), "i"(kTile) : "memory");
}
template <int kTile>
inline void clear_tile() {
  asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
}
struct TilesBF16 {
  template <int kSum, int kRow, int kColumn>
  static inline void add() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kColumn));
  }
};
/// Activations are bytes without sign, with an offset; weights have theirs.
struct TilesI8 {
  static_assert(DotWeightI8::kOffset == 128 && DotWeightI8::kWords == 1);
  template <int kSum, int kRow, int kColumn>
  static inline void add() {
    asm volatile("tdpbusd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kRow), "i"(kColumn));
  }
};

struct alignas(64) TileShapes {
  uint8_t palette = 1, start_row = 0, reserved[14] = {};
  uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};

/// All eight tiles at their full size. Who else computes on this thread may have set them otherwise: asking takes 11 cycles of the time
/// stamp counter, setting 112 (Xeon, Sapphire Rapids).
inline void set_tiles() {
  static constexpr TileShapes kFull;
  TileShapes now;
  asm volatile("sttilecfg %0" : "=m"(now));
  const Words differs = _mm512_xor_si512(load_words(&now), load_words(&kFull));
  if (_mm512_test_epi32_mask(differs, differs) != 0) asm volatile("ldtilecfg %0" ::"m"(kFull));
}

#endif

}  // namespace
}  // namespace slip
