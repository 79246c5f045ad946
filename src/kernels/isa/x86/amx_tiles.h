// SPDX-License-Identifier: Apache-2.0
// Products by AMX, the matrix unit of Intel's server processors since Sapphire Rapids: eight tiles of 16 rows of 64 bytes. One instruction
// adds to 16 x 16 sums the products of 16 words of 16 rows with 16 words of 16 columns. A block of 64 columns lies in memory as the unit
// wants its second factor (packed_layout.h: a line of words per step), so tiles are loaded from where the weights are. Included after
// table.h.
//
// Contract W: of bf16 an instruction sums the lower numbers of its 16 words in one chain and the upper ones in another, adds both, and adds
// that to the sum so far [Intel, Software Developer's Manual, TDPBF16PS]. Every sum goes through the steps of its block in ascending
// sixteens, zeros behind the last, whatever rows and columns are its neighbours. The bits differ from those of avx512, whose chain takes
// word by word, so they have a name of their own. Sums of integers are exact, and have the bits of every other instruction set.
#pragma once
#include "kernels/isa/x86/tile_unit.h"

namespace slip {
namespace {

constexpr int64_t kLine = kBlockColumns * 4;       // bytes of a step's weights, and from a row to the next in the sums
constexpr int64_t kTilePanel = kTileSize * kLine;  // bytes of the weights of 16 steps, and of 16 rows of sums

// Tiles 0 .. 3 are sums, 4 and 5 rows, 6 and 7 columns. The third and fourth sum begin `second` bytes behind the first.
inline void load_sums(const char* s, int64_t second) {
  load_tile<0>(s, kLine);
  load_tile<1>(s + 64, kLine);
  load_tile<2>(s + second, kLine);
  load_tile<3>(s + second + 64, kLine);
}
inline void store_sums(char* s, int64_t second) {
  store_tile<0>(s, kLine);
  store_tile<1>(s + 64, kLine);
  store_tile<2>(s + second, kLine);
  store_tile<3>(s + second + 64, kLine);
}
inline void clear_sums() {
  clear_tile<0>();
  clear_tile<1>();
  clear_tile<2>();
  clear_tile<3>();
}
constexpr int64_t kWideSecond = 128, kSquareSecond = kTilePanel;

/// `lines` of 64 bytes at a time into the L2, from `at` on.
struct Fetch {
  const char* at;
  int64_t lines;
  void some() {
    for (int64_t i = 0; i < lines; i++, at += 64) __builtin_prefetch(at, 0, 2);
  }
};

/// 16 rows x 64 columns += the products of `panels` times 16 steps; ldx in bytes.
template <class Tiles>
inline void add_wide(const char* x, int64_t ldx, const char* w, int64_t panels, Fetch& fetch) {
  for (int64_t k = 0; k < panels; k++, x += 64, w += kTilePanel) {
    fetch.some();
    load_tile<4>(x, ldx);
    load_tile<6>(w, kLine);
    Tiles::template add<0, 4, 6>();
    load_tile<7>(w + 64, kLine);
    Tiles::template add<1, 4, 7>();
    load_tile<6>(w + 128, kLine);
    Tiles::template add<2, 4, 6>();
    load_tile<7>(w + 192, kLine);
    Tiles::template add<3, 4, 7>();
  }
}
/// 32 rows x 32 columns: four loads for four products, where 16 x 64 has five.
template <class Tiles>
inline void add_square(const char* x, int64_t ldx, const char* w, int64_t panels, Fetch& fetch) {
  for (int64_t k = 0; k < panels; k++, x += 64, w += kTilePanel) {
    fetch.some();
    load_tile<4>(x, ldx);
    load_tile<6>(w, kLine);
    Tiles::template add<0, 4, 6>();
    load_tile<7>(w + 64, kLine);
    Tiles::template add<1, 4, 7>();
    load_tile<5>(x + kTileSize * ldx, ldx);
    Tiles::template add<2, 5, 6>();
    Tiles::template add<3, 5, 7>();
  }
}

/// `line` words, a multiple of 16: those of `from` and zeros.
inline void take_row(const Word* from, int64_t words, Word* to, int64_t line) {
  for (int64_t s = 0; s < line; s += kLanes) {
    const int64_t left = words - s;
    const auto some = static_cast<__mmask16>(left >= kLanes ? 0xffffu : left > 0 ? (1u << left) - 1 : 0);
    store_words(to + s, _mm512_maskz_loadu_epi32(some, from + s));
  }
}
/// 16 rows of `line` words, of which `rows` x `words` are there and the rest is zero: where a tile would reach beyond what there is.
inline void take_padded(const Word* from, int64_t stride, int64_t rows, int64_t words, Word* to, int64_t line) {
  for (int64_t r = 0; r < kTileSize; r++) take_row(from + r * stride, r < rows ? words : 0, to + r * line, line);
}

/// `steps` of a block from step s on, whose weights are at w.
template <class Tiles>
class TileChunk {
 public:
  TileChunk(const ProductArgs& a, int64_t s, int64_t steps, const Word* w)
      : a_(a), x_(a.x + s / kChunkSteps * a.chunk), steps_(steps), w_(bytes_of(w)), panels_(steps / kTileSize) {
    if (!whole())
      take_padded(w + panels_ * kTileSize * kBlockColumns, kBlockColumns, steps % kTileSize, kBlockColumns, tail_, kBlockColumns);
  }

  /// Up to 16 rows from row r on into tiles 0 to 3, times all columns.
  void add_rows(int64_t r, Fetch& fetch) {
    const Word* x = x_ + r * a_.ldx;
    if (r + kTileSize <= a_.rows && whole()) return add_wide<Tiles>(bytes_of(x), a_.ldx * 4, w_, panels_, fetch);
    take_padded(x, a_.ldx, a_.rows - r, steps_, rows_, kChunkSteps);
    add_wide<Tiles>(bytes_of(rows_), kChunkSteps * 4, w_, panels_, fetch);
    if (!whole()) add_wide<Tiles>(bytes_of(rows_ + panels_ * kTileSize), kChunkSteps * 4, bytes_of(tail_), 1, fetch);
  }

  /// All rows into the sums in memory, which begin here where `fresh`; `ahead` (may be null): `lines` that the next chunk will read.
  void add_all(bool fresh, const char* ahead, int64_t lines) {
    const int64_t squares = whole() ? a_.rows / (2 * kTileSize) : 0, wides = (a_.rows + kTileSize - 1) / kTileSize - 2 * squares;
    const int64_t turns = (2 * squares + wides) * (panels_ + (whole() ? 0 : 1));
    Fetch fetch{ahead, ahead ? (lines + turns - 1) / turns : 0};
    int64_t r = 0;
    for (; r < squares * 2 * kTileSize; r += 2 * kTileSize)
      for (int64_t c = 0; c < 2; c++) {
        char* sums = sums_of(r) + c * 128;
        fresh ? clear_sums() : load_sums(sums, kSquareSecond);
        add_square<Tiles>(bytes_of(x_ + r * a_.ldx), a_.ldx * 4, w_ + c * 128, panels_, fetch);
        store_sums(sums, kSquareSecond);
      }
    for (; r < a_.rows; r += kTileSize) {
      fresh ? clear_sums() : load_sums(sums_of(r), kWideSecond);
      add_rows(r, fetch);
      store_sums(sums_of(r), kWideSecond);
    }
  }

 private:
  static const char* bytes_of(const Word* p) { return reinterpret_cast<const char*>(p); }
  char* sums_of(int64_t r) const { return reinterpret_cast<char*>(a_.sums + r * kBlockColumns); }
  bool whole() const { return steps_ % kTileSize == 0; }

  const ProductArgs& a_;
  const Word* x_;
  int64_t steps_;
  const char* w_;
  int64_t panels_;
  alignas(64) Word rows_[kTileSize * kChunkSteps];
  alignas(64) Word tail_[kTileSize * kBlockColumns];
};

/// next(steps): the words of the next `steps` of the block. ahead(): what comes behind them, `line_bytes` a step.
template <class Tiles, class Next, class Ahead>
inline void product_of_chunks(const ProductArgs& a, const Next& next, const Ahead& ahead, int64_t line_bytes) {
  set_tiles();
  // The sums of few rows stay in tiles to the end. There, what is fetched ahead gets in the way of what is wanted now: 27.6 GB/s without,
  // 19.7 to 22.5 with it.
  const bool few = a.rows <= kTileSize;
  Fetch nothing{nullptr, 0};
  if (few) clear_sums();
  for (int64_t s = 0; s < a.steps; s += kChunkSteps) {
    const int64_t steps = a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps;
    TileChunk<Tiles> chunk(a, s, steps, next(steps));
    if (few)
      chunk.add_rows(0, nothing);
    else
      chunk.add_all(s == 0, s + steps < a.steps ? ahead() : static_cast<const char*>(a.next), kChunkSteps * line_bytes / 64);
  }
  if (few) store_sums(reinterpret_cast<char*>(a.sums), kWideSecond);
}

template <class Tiles>
void product_tiles(const ProductArgs& a) {
  const Word* w = static_cast<const Word*>(a.w);
  product_of_chunks<Tiles>(
      a,
      [&](int64_t steps) {
        const Word* here = w;
        w += steps * kBlockColumns;
        return here;
      },
      [&] { return reinterpret_cast<const char*>(w); }, kLine);
}

/// A chunk becomes int8 in the L1 once, for all rows.
void product_int4_tiles(const ProductArgs& a) {
  alignas(64) Word words[kChunkSteps * kBlockColumns];
  const char* w = static_cast<const char*>(a.w);
  product_of_chunks<TilesI8>(
      a,
      [&](int64_t steps) {
        unpack_int4(w, steps, words);
        w += int4_chunk_bytes(steps);
        return words;
      },
      [&] { return w; }, kLine / 2);
}

}  // namespace
}  // namespace slip
