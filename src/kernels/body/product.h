// SPDX-License-Identifier: Apache-2.0
// The one inner loop of all products: as many rows x vectors of sums as there are registers stay in them while the words of
// the inner dimension pass by in ascending order. Which rows and columns share a tile changes no sum: every sum is one
// chain. Included after a vec_*.h, once per instruction set.
#pragma once

namespace slip {
namespace {

/// Whether a word's two numbers are multiplied one after the other, each by all rows (vec_avx2.h says why).
template <class Dot>
concept InHalves = requires {
  Dot::kInHalves;
};

/// a[r][v] += x[r][s] . w[v], one chain per sum.
template <class Dot, int kRows, int kVectors>
inline void add_step(Words (&a)[kRows][kVectors], const Word* x, int64_t ldx, const Word* w, int64_t s) {
  Words b[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) b[v] = load_words(w + v * kLanes);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
    const auto xr = Dot::at(x + r * ldx, s);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) a[r][v] = Dot::dot(a[r][v], xr, b[v]);
  }
}

/// The same, first all lower numbers of the words, then all upper ones: the sums and half of the weights fill the registers. One or two
/// rows keep both halves of theirs and go through the weights once.
template <InHalves Dot, int kRows, int kVectors>
inline void add_step(Words (&a)[kRows][kVectors], const Word* x, int64_t ldx, const Word* w, int64_t s) {
  if constexpr (kRows <= 2) {
    Words low[kRows], high[kRows];
#pragma GCC unroll 2
    for (int r = 0; r < kRows; r++) {
      low[r] = Dot::low_at(x + r * ldx, s);
      high[r] = Dot::high_at(x + r * ldx, s);
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) {
      const Words both = load_words(w + v * kLanes), b = Dot::low_of(both), c = Dot::high_of(both);
#pragma GCC unroll 2
      for (int r = 0; r < kRows; r++) {
        Dot::add_half(a[r][v], low[r], b);
        Dot::add_half(a[r][v], high[r], c);
      }
    }
    return;
  }
  Words b[kVectors];
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) b[v] = Dot::low_of(load_words(w + v * kLanes));
#pragma GCC unroll 12
  for (int r = 0; r < kRows; r++) {
    const Words xr = Dot::low_at(x + r * ldx, s);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) Dot::add_half(a[r][v], xr, b[v]);
  }
#pragma GCC unroll 8
  for (int v = 0; v < kVectors; v++) b[v] = Dot::high_of(load_words(w + v * kLanes));
#pragma GCC unroll 12
  for (int r = 0; r < kRows; r++) {
    const Words xr = Dot::high_at(x + r * ldx, s);
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) Dot::add_half(a[r][v], xr, b[v]);
  }
}

/// sums[r][v] += x[r][s] . w[s][v] for s ascending; from zero when `fresh`. Fetches |kFetch| lines of 64 bytes per step from
/// `ahead`, into the L1 where kFetch is above 0, else into the L2.
template <class Dot, int kRows, int kVectors, int kFetch>
[[gnu::noinline]] void tile(Word* sums, int64_t lds, const Word* x, int64_t ldx, const Word* w, int64_t ldw, int64_t steps,
                            bool fresh, const char* ahead) {
  Words a[kRows][kVectors];
#pragma GCC unroll 12
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) a[r][v] = fresh ? no_words() : load_words(sums + r * lds + v * kLanes);
  for (int64_t s = 0; s < steps; s++) {
    constexpr int kLines = kFetch < 0 ? -kFetch : kFetch;
#pragma GCC unroll 4
    for (int f = 0; f < kLines; f++) __builtin_prefetch(ahead + (s * kLines + f) * 64, 0, kFetch < 0 ? 2 : 3);
    add_step<Dot>(a, x, ldx, w + s * ldw, s);
  }
#pragma GCC unroll 12
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; v++) store_words(sums + r * lds + v * kLanes, a[r][v]);
}

using Tile = void (*)(Word*, int64_t, const Word*, int64_t, const Word*, int64_t, int64_t, bool, const char*);

template <class Dot, int kVectors, int kFetch, int kMost, int kLeast = 1>
Tile tile_of_rows(int64_t rows) {
  if constexpr (kMost > kLeast)
    if (rows < kMost) return tile_of_rows<Dot, kVectors, kFetch, kMost - 1, kLeast>(rows);
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

/// What a tile fetches of the next chunk: so many lines of 64 bytes per step (0: none), and how many shares lie before its own.
struct FetchShare {
  int each;
  int64_t before;
};
/// Tile number `index` of `count` fetches its share of the next chunk, of which `lines` of 64 bytes come to a step of this one: all of one, half
/// of two or three, one line of more, and at most four. Of twice as many tiles as lines those that fetch stand apart: side by side they asked
/// for more than a core may wait for at once, and for what the others need meanwhile (docs/lab/0007).
inline FetchShare fetch_share(int64_t index, int64_t count, int64_t lines) {
  const int64_t share = count == 1 ? lines : count < 4 ? (lines + 1) / 2 : 1, each = share > 2 ? 4 : share;
  const int64_t apart = each == 1 && count >= 2 * lines ? count / lines : 1, before = index / apart;
  return {index % apart == 0 && before * each < lines ? static_cast<int>(each) : 0, before};
}
/// Rows of the highest tile: in halves, 12 sums, one half of two vectors of weights and a row's number fill 16 registers, and 24 sums of four
/// vectors or of two 32 registers.
template <class Dot>
constexpr int kRowsOf = InHalves<Dot> ? 6 : kTileRows;
/// In halves, weights are widened once for all rows of a tile: with 32 registers, more rows than two tiles have share those of narrow, high
/// ones.
template <class Dot>
constexpr bool kHighTiles = InHalves<Dot>&& kTileVectors == 4;

/// One line a step goes into the L2: several row tiles share the weights. Two and four go into the L1, where the next chunk is read but
/// once or twice, if it finds room there beside this one (docs/lab/0007).
template <class Dot>
Tile fetching_tile(int64_t rows, int fetch, bool room) {
  constexpr int kMost = kRowsOf<Dot>;
  if (fetch == 4) return (room ? tile_of_rows<Dot, kTileVectors, 4, kMost> : tile_of_rows<Dot, kTileVectors, -4, kMost>)(rows);
  if (fetch == 2) return (room ? tile_of_rows<Dot, kTileVectors, 2, kMost> : tile_of_rows<Dot, kTileVectors, -2, kMost>)(rows);
  if (fetch == 1) return tile_of_rows<Dot, kTileVectors, -1, kMost>(rows);
  return tile_of_rows<Dot, kTileVectors, 0, kMost>(rows);
}
/// A narrow one of 6 to 12 rows, of which there are four and more to a chunk: one line each at most.
template <class Dot>
Tile high_tile(int64_t rows, int fetch) {
  constexpr int kVectors = kTileVectors / 2, kLeast = kRowsOf<Dot>, kMost = 2 * kRowsOf<Dot>;
  return (fetch ? tile_of_rows<Dot, kVectors, -1, kMost, kLeast> : tile_of_rows<Dot, kVectors, 0, kMost, kLeast>)(rows);
}
/// Two chunks of weights are 32 KB. A first-level cache that is no larger keeps both only beside the few sums of a single tile of four rows.
inline bool room_for_two_chunks(const ProductArgs& a) { return a.rows <= 4 || a.l1_bytes > 2 * kChunkSteps * kBlockColumns * 4; }

/// Rows cut into tiles. A tile of 1 to 3 rows takes about as long as one of 4 (the latency of a dot product), so where
/// registers allow, 9 rows go as 5 + 4, not 4 + 4 + 1. `highest` above 0: tiles of up to so many rows, as evenly as can be.
struct RowTiles {
  RowTiles(int64_t rows, int64_t highest)
      : rows(rows),
        count(highest > 0                  ? (rows + highest - 1) / highest
              : kTileRows < 6 || rows == 7 ? (rows + 3) / 4
              : rows < 4                   ? 1
                                           : rows / 4),
        more(rows - 4 * count) {}
  int64_t first(int64_t i) const { return more > 0 ? i * (rows / count) + (i < rows % count ? i : rows % count) : 4 * i; }
  int64_t size(int64_t i) const { return (i + 1 < count ? first(i + 1) : rows) - first(i); }
  int64_t rows, count, more;
};

/// Steps [s, s + steps) of a block, whose words are at w; `ahead` (may be null) is what the next chunk will read, `lines` of 64
/// bytes per step.
template <class Dot>
void product_chunk(const ProductArgs& a, int64_t s, int64_t steps, const Word* w, const char* ahead, int64_t lines) {
  const Word* x = a.x + s / kChunkSteps * a.chunk;
  if (kTileVectors == 4 && a.columns <= 2 * kLanes) {  // a ragged last block: half the columns, twice the rows
    for (int64_t r = 0; r < a.rows; r += 8) {
      const int64_t n = a.rows - r < 8 ? a.rows - r : 8;
      tile_of_rows<Dot, 2, 0, kTileVectors == 4 ? 8 : 4>(n)(a.sums + r * kBlockColumns, kBlockColumns, x + r * a.ldx, a.ldx, w,
                                                            kBlockColumns, steps, s == 0, nullptr);
    }
    return;
  }
  if constexpr (kTileVectors == 2) {
    if (a.rows == 1) {  // of the narrow tile it would be two chains of dot products
      for (int64_t c = 0; c < a.columns; c += 8 * kLanes)
        (c == 0 && ahead ? tile<Dot, 1, 8, 4> : tile<Dot, 1, 8, 0>)(a.sums + c, kBlockColumns, x, a.ldx, w + c, kBlockColumns,
                                                                    steps, s == 0, ahead);
      return;
    }
  }
  if constexpr (InHalves<Dot> && kTileVectors == 2)
    if (a.rows == 2) {  // of the narrow tile they would be four chains
      constexpr int kWide = 4, kLines = 2;
      for (int64_t c = 0; c < a.columns; c += kWide * kLanes)
        (ahead ? tile<Dot, 2, kWide, kLines>
               : tile<Dot, 2, kWide, 0>)(a.sums + c, kBlockColumns, x, a.ldx, w + c, kBlockColumns, steps, s == 0,
                                         ahead ? ahead + c / (kWide * kLanes) * kLines * steps * 64 : nullptr);
      return;
    }
  const bool high = kHighTiles<Dot> && a.rows > 2 * kRowsOf<Dot>;
  const int64_t wide = (high ? kTileVectors / 2 : kTileVectors) * kLanes;
  const RowTiles tiles(a.rows, high ? 2 * kRowsOf<Dot> : InHalves<Dot> ? kRowsOf<Dot> : 0);
  const int64_t count = tiles.count * ((a.columns + wide - 1) / wide);
  const bool room = room_for_two_chunks(a);
  int64_t i = 0;
  for (int64_t t = 0; t < tiles.count; t++) {
    const int64_t r = tiles.first(t), n = tiles.size(t);
    for (int64_t c = 0; c < a.columns; c += wide, i++) {
      const FetchShare fetch = ahead ? fetch_share(i, count, lines) : FetchShare{0, 0};
      Tile f = nullptr;
      if constexpr (kHighTiles<Dot>)
        f = high ? high_tile<Dot>(n, fetch.each) : fetching_tile<Dot>(n, fetch.each, room);
      else
        f = fetching_tile<Dot>(n, fetch.each, room);
      f(a.sums + r * kBlockColumns + c, kBlockColumns, x + r * a.ldx, a.ldx, w + c, kBlockColumns, steps, s == 0,
        fetch.each ? ahead + fetch.before * fetch.each * steps * 64 : nullptr);
    }
  }
}

template <class Dot>
void product(const ProductArgs& a) {
  const Word* w = static_cast<const Word*>(a.w);
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    const Word* chunk = w + s * kBlockColumns;
    const bool last = s + steps == a.steps;
    const void* after = last ? a.next : chunk + steps * kBlockColumns;
    // The next chunk may be a whole one behind a short one: a block of 896 numbers ends with half a chunk.
    const int64_t rest = last ? a.steps : a.steps - s - steps, next = rest < kChunkSteps ? rest : kChunkSteps;
    product_chunk<Dot>(a, s, steps, chunk, static_cast<const char*>(after), (4 * next + steps - 1) / steps);
  }
}

/// Whole vectors at a time, straight from the sums: through a copy, it was 4 % of an answer of models/demo-cot (docs/lab/0025).
inline void write_row(const FinishArgs& a, const float* values, float* out) {
  int64_t c = 0;
  for (; c + kLanes <= a.columns; c += kLanes) {
    Floats x = load(values + c);
    if (a.bias) x = add_v(x, load(a.bias + c));
    store(out + c, a.accumulate ? add_v(load(out + c), x) : x);
  }
  for (; c < a.columns; c++) {
    const float x = a.bias ? values[c] + a.bias[c] : values[c];
    out[c] = a.accumulate ? out[c] + x : x;
  }
}

void finish_float(const FinishArgs& a) {
  for (int64_t r = 0; r < a.rows; r++) {
    // Sums are words of memory that alias anything; as floats they are read by loads that do too.
    write_row(a, reinterpret_cast<const float*>(a.sums + r * kBlockColumns), a.out + r * a.ldo);
  }
}

/// Scales and sums of padding columns are there (packed_layout.h), so all 64 are computed. w_sums takes off an offset of 128.
void finish_int(const FinishArgs& a) {
  for (int64_t r = 0; r < a.rows; r++) {
    const Word* sums = a.sums + r * kBlockColumns;
    const float x_scale = a.x_scales[r];
    float values[kBlockColumns];
    for (int64_t c = 0; c < kBlockColumns; c++) {
      const Word offset = DotWeightI8::kOffset ? static_cast<Word>(a.w_sums[c]) : 0;
      values[c] = static_cast<float>(static_cast<int32_t>(sums[c] - offset)) * (x_scale * a.w_scales[c]);
    }
    write_row(a, values, a.out + r * a.ldo);
  }
}

}  // namespace
}  // namespace slip
