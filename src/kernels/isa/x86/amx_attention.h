// SPDX-License-Identifier: Apache-2.0
// Attention over bf16 keys and values (body/attention_pairs.h) with its products on the matrix unit (amx_tiles.h); the softmax between them
// is that of AVX-512. Keys are the first factor as they lie in the cache, 16 at a time, where they lie one behind the other; the queries'
// words, transposed once per piece, are the second. Of values it is the other way round: words of two neighbouring keys are the second
// factor, and the weights are transposed to be the first.
//
// Contract W: a score goes through panels of 32 numbers of the head, a value sum through panels of 32 keys of the block as the row sees
// them, with zeros behind the last of either; inside of a panel the order is the unit's. A key that is in the block and not seen by this row
// has weight 0, and 0 times its value adds nothing, unless it is no finite number: then the row gets a copy of the values without it.
#pragma once
#include "kernels/isa/x86/amx_tiles.h"

namespace slip {
namespace {

constexpr int64_t kKeyTiles = kKeyBlock / kTileSize, kPairPanel = kTileSize, kBlockPairs = kKeyBlock / 2;

struct AttendTiles : AttendPairs {
  using AttendPairs::AttendPairs;
  struct Keys {
    const char* first;
    int64_t stride;  // bytes from a key to the next
  };
  const int64_t panels = (steps + kTileSize - 1) / kTileSize;  // of a head
  Keys keys[kKeyTiles];
  bool finite;                                              // whether all values of the block are
  alignas(64) Word keys_SK[kKeyBlock * kMaxHeadWidth / 2];  // those that do not lie one behind the other
  alignas(64) Word weights_QN[kTileSize * kBlockPairs];
  alignas(64) Word seen_NK[kBlockPairs * kMaxHeadWidth];
  alignas(64) float few_QK[kTileSize * kMaxHeadWidth];
};

void take_queries(AttendTiles& s) {
  take_queries(static_cast<AttendPairs&>(s));
  for (int64_t k = s.steps; k < s.panels * kTileSize; k++)
    for (int64_t i = 0; i < kLineQueries; i += kLanes) store_words(s.q_KQ + k * kLineQueries + i, no_words());
  set_tiles();
}

/// 16 keys from key j of the block on, in place or in a row.
inline void take_keys(AttendTiles& s, int64_t j) {
  const auto* keys = static_cast<const uint16_t*>(s.a.keys_SGK) + s.a.kv_head * s.a.head_stride;
  const int64_t stride = s.a.slot_stride, line = s.panels * kTileSize;
  AttendTiles::Keys& out = s.keys[j / kTileSize];
  bool run = s.steps % kTileSize == 0;
  for (int64_t e = 1; e < kTileSize; e++) run &= s.at[j + e] - s.at[j + e - 1] == stride;
  if (run) {
    out = {reinterpret_cast<const char*>(keys + s.at[j]), stride * 2};
    return;
  }
  Word* to = s.keys_SK + j * line;
  out = {reinterpret_cast<const char*>(to), line * 4};
  for (int64_t e = 0; e < kTileSize; e++) take_row(reinterpret_cast<const Word*>(keys + s.at[j + e]), s.steps, to + e * line, line);
}

void gather(AttendTiles& s, const Cursor& c, int64_t lead) {
  gather(static_cast<AttendPairs&>(s), c, lead);
  // Behind the last key `at` repeats it, up to a whole tile.
  for (int64_t j = 0; j < c.count; j += kTileSize) take_keys(s, j);
  const int64_t pairs = (c.count + 1) / 2, whole = (pairs + kPairPanel - 1) / kPairPanel * kPairPanel;
  const Words exponent = _mm512_set1_epi32(0x7f807f80);
  __mmask32 infinite = 0;
  for (int64_t i = 0; i < pairs * s.padded; i += kLanes)
    infinite |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(load_words(s.values_NK + i), exponent), exponent);
  for (int64_t i = pairs * s.padded; i < whole * s.padded; i += kLanes) store_words(s.values_NK + i, no_words());
  s.finite = infinite == 0;
}

/// Up to four tiles of keys with one vector of queries.
inline void score_narrow(const AttendTiles& s, const char* q, int64_t tiles, char* scores) {
  constexpr int64_t kLineQ = kLineQueries * 4, kLineS = kInWork * 4, kNext = kTileSize * kLineS;
  clear_sums();
  for (int64_t k = 0; k < s.panels; k++) {
    const int64_t at = k * 64;
    load_tile<6>(q + k * kTileSize * kLineQ, kLineQ);
    load_tile<4>(s.keys[0].first + at, s.keys[0].stride);
    TilesBF16::add<0, 4, 6>();
    if (tiles > 1) {
      load_tile<5>(s.keys[1].first + at, s.keys[1].stride);
      TilesBF16::add<1, 5, 6>();
    }
    if (tiles > 2) {
      load_tile<4>(s.keys[2].first + at, s.keys[2].stride);
      TilesBF16::add<2, 4, 6>();
    }
    if (tiles > 3) {
      load_tile<5>(s.keys[3].first + at, s.keys[3].stride);
      TilesBF16::add<3, 5, 6>();
    }
  }
  store_tile<0>(scores, kLineS);
  if (tiles > 1) store_tile<1>(scores + kNext, kLineS);
  if (tiles > 2) store_tile<2>(scores + 2 * kNext, kLineS);
  if (tiles > 3) store_tile<3>(scores + 3 * kNext, kLineS);
}
/// Two tiles of keys (or one) from tile t on with two vectors of queries.
inline void score_wide(const AttendTiles& s, const char* q, int64_t t, bool two, char* scores) {
  constexpr int64_t kLineQ = kLineQueries * 4, kLineS = kInWork * 4, kNext = kTileSize * kLineS;
  clear_sums();
  for (int64_t k = 0; k < s.panels; k++) {
    const char* q_k = q + k * kTileSize * kLineQ;
    load_tile<4>(s.keys[t].first + k * 64, s.keys[t].stride);
    load_tile<6>(q_k, kLineQ);
    TilesBF16::add<0, 4, 6>();
    load_tile<7>(q_k + 64, kLineQ);
    TilesBF16::add<1, 4, 7>();
    if (!two) continue;
    load_tile<5>(s.keys[t + 1].first + k * 64, s.keys[t + 1].stride);
    TilesBF16::add<2, 5, 6>();
    TilesBF16::add<3, 5, 7>();
  }
  store_tile<0>(scores, kLineS);
  store_tile<1>(scores + 64, kLineS);
  if (!two) return;
  store_tile<2>(scores + kNext, kLineS);
  store_tile<3>(scores + kNext + 64, kLineS);
}

void score_all(AttendTiles& s, int64_t i, bool narrow, int64_t count, float* most) {
  const char* q = reinterpret_cast<const char*>(s.q_KQ + i);
  char* scores = reinterpret_cast<char*>(s.scores_SQ);
  const int64_t tiles = (count + kTileSize - 1) / kTileSize;
  for (int64_t e = 0; e < kKeyBlock / Pairs::kWideKeys; e++) fetch_ahead(s);
  if (narrow)
    score_narrow(s, q, tiles, scores);
  else
    for (int64_t t = 0; t < tiles; t += 2) score_wide(s, q, t, t + 1 < tiles, scores + t * kTileSize * kInWork * 4);
  for (int64_t v = 0; v < (narrow ? 1 : 2) * kLanes; v += kLanes) {
    Floats top = load(most + v);
    for (int64_t j = 0; j < count; j++) top = max_v(top, load(s.scores_SQ + j * kInWork + v));
    store(most + v, top);
  }
}

/// The block's values without those that stand behind the first `count` keys.
[[gnu::noinline]] const Word* seen_values(AttendTiles& s, int64_t count) {
  for (int64_t j = 0; j < kBlockPairs; j++) {
    const Word* from = s.values_NK + j * s.padded;
    Word* to = s.seen_NK + j * s.padded;
    for (int64_t k = 0; k < s.padded; k += kLanes)
      store_words(to + k, 2 * j + 1 < count ? load_words(from + k) : 2 * j < count ? lower_of(load_words(from + k)) : no_words());
  }
  return s.seen_NK;
}

/// 16 queries' sums, `vectors` (up to four) of numbers of the head, += weights times values.
inline void weigh_tiles(const char* weights, const char* values, int64_t line, int64_t panels, int64_t vectors, char* sums) {
  load_tile<0>(sums, line);
  if (vectors > 1) load_tile<1>(sums + 64, line);
  if (vectors > 2) load_tile<2>(sums + 128, line);
  if (vectors > 3) load_tile<3>(sums + 192, line);
  for (int64_t p = 0; p < panels; p++, weights += 64, values += kPairPanel * line) {
    load_tile<4>(weights, kBlockPairs * 4);
    load_tile<6>(values, line);
    TilesBF16::add<0, 4, 6>();
    if (vectors > 1) {
      load_tile<7>(values + 64, line);
      TilesBF16::add<1, 4, 7>();
    }
    if (vectors > 2) {
      load_tile<6>(values + 128, line);
      TilesBF16::add<2, 4, 6>();
    }
    if (vectors > 3) {
      load_tile<7>(values + 192, line);
      TilesBF16::add<3, 4, 7>();
    }
  }
  store_tile<0>(sums, line);
  if (vectors > 1) store_tile<1>(sums + 64, line);
  if (vectors > 2) store_tile<2>(sums + 128, line);
  if (vectors > 3) store_tile<3>(sums + 192, line);
}

/// Weights of 16 queries from query r of those in work on, a query's words in a row, zeros behind the last pair.
inline void take_weights(AttendTiles& s, int64_t r, int64_t pairs, int64_t panels) {
  alignas(64) static constexpr float kNothing[kLanes] = {};
  for (int64_t p = 0; p < panels; p++) {
    const float* rows[kLanes];
    for (int64_t e = 0; e < kLanes; e++) {
      const int64_t pair = p * kPairPanel + e;
      rows[e] = pair < pairs ? reinterpret_cast<const float*>(s.weights_NQ + pair * kInWork + r) : kNothing;
    }
    transpose_square(rows, 0, reinterpret_cast<float*>(s.weights_QN) + p * kPairPanel, kBlockPairs);
  }
}

void add_values(AttendTiles& s, float* sums, int64_t n, int64_t count) {
  const int64_t pairs = (count + 1) / 2, panels = (pairs + kPairPanel - 1) / kPairPanel, line = s.padded * 4;
  const Word* values = s.finite ? s.values_NK : seen_values(s, count);
  for (int64_t r = 0; r < n; r += kTileSize) {
    const int64_t rows = n - r < kTileSize ? n - r : kTileSize;
    fetch_ahead(s);
    take_weights(s, r, pairs, panels);
    // What is behind the last query belongs to others.
    float *of_rows = sums + r * s.padded, *out = rows == kTileSize ? of_rows : s.few_QK;
    for (int64_t e = 0; e < rows; e++)
      for (int64_t k = 0; k < s.padded; k += kLanes)
        store(out + e * s.padded + k, mul_v(load(of_rows + e * s.padded + k), splat(s.keep[r + e])));
    for (int64_t v = 0; v < s.padded / kLanes; v += 4)
      weigh_tiles(reinterpret_cast<const char*>(s.weights_QN), reinterpret_cast<const char*>(values + v * kLanes), line, panels,
                  s.padded / kLanes - v, reinterpret_cast<char*>(out + v * kLanes));
    if (out != of_rows) copy_some(out, rows * s.padded, of_rows);
  }
}

}  // namespace
}  // namespace slip
