// SPDX-License-Identifier: Apache-2.0
// The one inner loop of all products: up to 4 rows x kTileVectors vectors of sums stay in registers while the words of
// the inner dimension pass by in ascending order. Which rows and columns share a tile changes no sum: every sum is one
// chain. Included after a vec_*.h, once per instruction set.
#pragma once

namespace slip {
namespace {

/// sums[r][v] += x[r][s] . w[s][v] for s ascending; from zero when `fresh`. Fetches kFetch lines of 64 bytes per step from
/// `ahead`.
template <class Dot, int kRows, int kVectors, int kFetch>
[[gnu::noinline]] void tile(Word* sums, int64_t lds, const Word* x, int64_t ldx, const Word* w, int64_t ldw, int64_t steps,
                            bool fresh, const char* ahead) {
  Words a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) a[r][v] = fresh ? no_words() : load_words(sums + r * lds + v * kLanes);
  for (int64_t s = 0; s < steps; s++) {
    Words b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) b[v] = load_words(w + s * ldw + v * kLanes);
#pragma GCC unroll 4
    for (int f = 0; f < kFetch; f++) __builtin_prefetch(ahead + (s * kFetch + f) * 64);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const Words xr = splat_word(x + r * ldx + s);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) a[r][v] = Dot::dot(a[r][v], xr, b[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) store_words(sums + r * lds + v * kLanes, a[r][v]);
}

using Tile = void (*)(Word*, int64_t, const Word*, int64_t, const Word*, int64_t, int64_t, bool, const char*);

template <class Dot, int kVectors, int kFetch, int kMost>
Tile tile_of_rows(int64_t rows) {
  if constexpr (kMost > 1)
    if (rows < kMost) return tile_of_rows<Dot, kVectors, kFetch, kMost - 1>(rows);
  return tile<Dot, kMost, kVectors, kFetch>;
}

template <class Dot>
Tile tile_of(int64_t rows, int64_t vectors) {
  if constexpr (kTileVectors == 4) {
    if (vectors == 4) return tile_of_rows<Dot, kTileVectors, 0, 4>(rows);
    if (vectors == 3) return tile_of_rows<Dot, kTileVectors - 1, 0, 4>(rows);
  }
  return vectors == 2 ? tile_of_rows<Dot, 2, 0, 4>(rows) : tile_of_rows<Dot, 1, 0, 4>(rows);
}

/// sums (rows x vectors of kLanes) = x w, any number of rows and vectors.
template <class Dot>
void multiply(Word* sums, int64_t lds, int64_t rows, int64_t vectors, const Word* x, int64_t ldx, const Word* w, int64_t ldw,
              int64_t steps) {
  // 5 vectors go as 3 + 2: a tile of one vector has 4 chains, a quarter of what two FMA units need.
  const int64_t tiles = (vectors + kTileVectors - 1) / kTileVectors, each = (vectors + tiles - 1) / tiles;
  for (int64_t r = 0; r < rows; r += 4) {
    const int64_t n = rows - r < 4 ? rows - r : 4;
    for (int64_t v = 0; v < vectors; v += each) {
      const int64_t m = vectors - v < each ? vectors - v : each;
      tile_of<Dot>(n, m)(sums + r * lds + v * kLanes, lds, x + r * ldx, ldx, w + v * kLanes, ldw, steps, true, nullptr);
    }
  }
}

/// The tile that also fetches its share of the next chunk: all of it for one row tile, a quarter each for four and
/// more.
template <class Dot>
Tile fetching_tile(int64_t rows, int64_t index, int64_t count) {
  if (count == 1) return tile_of_rows<Dot, kTileVectors, 4, kTileRows>(rows);
  if (count < 4)
    return index < 2 ? tile_of_rows<Dot, kTileVectors, 2, kTileRows>(rows) : tile_of_rows<Dot, kTileVectors, 0, kTileRows>(rows);
  return index < 4 ? tile_of_rows<Dot, kTileVectors, 1, kTileRows>(rows) : tile_of_rows<Dot, kTileVectors, 0, kTileRows>(rows);
}

/// Rows cut into tiles. A tile of 1 to 3 rows takes about as long as one of 4 (the latency of a dot product), so where
/// registers allow, 9 rows go as 5 + 4, not 4 + 4 + 1.
struct RowTiles {
  explicit RowTiles(int64_t rows)
      : rows(rows),
        count(kTileRows < 6 || rows == 7 ? (rows + 3) / 4
              : rows < 4                 ? 1
                                         : rows / 4),
        more(rows - 4 * count) {}
  int64_t first(int64_t i) const { return more > 0 ? i * (rows / count) + (i < rows % count ? i : rows % count) : 4 * i; }
  int64_t size(int64_t i) const { return (i + 1 < count ? first(i + 1) : rows) - first(i); }
  int64_t rows, count, more;
};

/// Steps [s, s + steps) of a block.
template <class Dot>
void product_chunk(const ProductArgs& a, int64_t s, int64_t steps) {
  const Word* w = a.w + s * kBlockColumns;
  if (kTileVectors == 4 && a.columns <= 2 * kLanes) {  // a ragged last block: half the columns, twice the rows
    for (int64_t r = 0; r < a.rows; r += 8) {
      const int64_t n = a.rows - r < 8 ? a.rows - r : 8;
      tile_of_rows<Dot, 2, 0, kTileVectors == 4 ? 8 : 4>(n)(a.sums + r * kBlockColumns, kBlockColumns, a.x + r * a.ldx + s, a.ldx,
                                                            w, kBlockColumns, steps, s == 0, nullptr);
    }
    return;
  }
  const Word* next = w + steps * kBlockColumns;
  const bool fetch = next + steps * kBlockColumns <= a.w_end;
  const RowTiles tiles(a.rows);
  for (int64_t t = 0; t < tiles.count; t++) {
    const int64_t r = tiles.first(t), n = tiles.size(t);
    const int64_t lines_each = tiles.count == 1 ? 4 : tiles.count < 4 ? 2 : 1;
    const char* ahead = reinterpret_cast<const char*>(next) + t * lines_each * steps * 64;
    for (int64_t c = 0; c < a.columns; c += kTileVectors * kLanes) {
      const Tile f = fetch && c == 0 ? fetching_tile<Dot>(n, t, tiles.count) : tile_of_rows<Dot, kTileVectors, 0, kTileRows>(n);
      f(a.sums + r * kBlockColumns + c, kBlockColumns, a.x + r * a.ldx + s, a.ldx, w + c, kBlockColumns, steps, s == 0, ahead);
    }
  }
}

template <class Dot>
void product(const ProductArgs& a) {
  for (int64_t s = 0; s < a.steps; s += kChunkSteps)
    product_chunk<Dot>(a, s, a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps);
}

void finish_float(const FinishArgs& a) {
  for (int64_t r = 0; r < a.rows; r++) {
    const Word* sums = a.sums + r * kBlockColumns;
    float* out = a.out + r * a.ldo;
    __builtin_memcpy(out, sums, static_cast<size_t>(a.columns) * sizeof(float));
    if (a.bias)
      for (int64_t c = 0; c < a.columns; c++) out[c] += a.bias[c];
  }
}

void finish_int8(const FinishArgs& a) {
  for (int64_t r = 0; r < a.rows; r++) {
    const Word* sums = a.sums + r * kBlockColumns;
    float* out = a.out + r * a.ldo;
    for (int64_t c = 0; c < a.columns; c++)
      out[c] = static_cast<float>(static_cast<int32_t>(sums[c]) - a.w_sums[c]) * (a.x_scales[r] * a.w_scales[c]);
    if (a.bias)
      for (int64_t c = 0; c < a.columns; c++) out[c] += a.bias[c];
  }
}

/// Round to nearest even, as to_bf16 of core/dtype.h (which is inline, so not for these files).
inline uint32_t bf16_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  return (u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}

void pack_bf16(const float* x_TK, int64_t rows, int64_t k, int64_t ldx, Word* words, int64_t ldw, float*) {
  for (int64_t t = 0; t < rows; t++) {
    const float* x = x_TK + t * ldx;
    Word* out = words + t * ldw;
    for (int64_t i = 0; i < k / 2; i++) out[i] = bf16_bits(x[2 * i]) | bf16_bits(x[2 * i + 1]) << 16;
    if (k % 2) out[k / 2] = bf16_bits(x[k - 1]);
  }
}

/// x = scale * q, q = round_half_even(x * (127 / max|x|)), stored as q + 128; a row with an inf or NaN gets a NaN
/// scale.
void pack_int8(const float* x_TK, int64_t rows, int64_t k, int64_t ldx, Word* words, int64_t ldw, float* scales_T) {
  for (int64_t t = 0; t < rows; t++) {
    const float* x = x_TK + t * ldx;
    uint32_t top = 0;
    for (int64_t i = 0; i < k; i++) {
      uint32_t u;
      __builtin_memcpy(&u, x + i, 4);
      u &= 0x7fffffffu;
      top = u > top ? u : top;
    }
    float largest;
    __builtin_memcpy(&largest, &top, 4);
    // Below 2^-100 the inverse would overflow; such a row is zero in any pass that means something.
    const bool usable = top < 0x7f800000u && largest > 7.9e-31F;
    const float inverse = usable ? 127.0F / largest : 0.0F;
    scales_T[t] = usable ? largest / 127.0F : top < 0x7f800000u ? 0.0F : __builtin_nanf("");
    unsigned char* out = reinterpret_cast<unsigned char*>(words + t * ldw);
    for (int64_t i = 0; i < k; i++) {
      const float shifted = x[i] * inverse + 12583040.0F;  // 1.5 * 2^23 + 128: the last mantissa byte is q + 128, rounded to even
      uint32_t u;
      __builtin_memcpy(&u, &shifted, 4);
      out[i] = static_cast<unsigned char>(u);
    }
    for (int64_t i = k; i < (k + 3) / 4 * 4; i++) out[i] = 0;
  }
}

}  // namespace
}  // namespace slip
