// SPDX-License-Identifier: Apache-2.0
// What attention over bf16 and over int8 share (body/attention_pairs.h, body/attention_quads.h). Queries lie in the lanes of a vector
// while scores are made: a key's words, pairs of bf16 or quads of bytes, are broadcast from where the key lies in the cache, the queries
// are transposed once per piece, and maximum, exponential and sum of a query never cross a lane. Values are rearranged per block of 64
// keys, a word for one number of two or four neighbouring keys, and weighed with the numbers of the head in the lanes.
//
// What such words are and how they are multiplied is a Kind:
//   Number, kNumbers       of the cache; how many make a word
//   kWideKeys              keys of a score tile with two vectors of queries
//   kPlanes                words in memory of a word in the lanes, or of one of weights; `plane` words apart
//   kHalves                parts of a word that a tile multiplies one after the other, for all its keys or queries each
//   key_at, weight_at      a (part of a) word of a key or of weights, in every lane
//   lanes_at               (parts of) words of queries or of values
//   add, add_both          sum += their products; with kHalves 2, those of both halves of a key's word
//   Scores                 of a tile: what their sums start at, what becomes of them
//   Sums                   of values of a tile's queries: what they start at, how they are stored
// The last two are passed by value and hold two pointers at most: with four, which go through memory, int8 attention was 8 % slower at
// a head width of 32 (Zen 3).
#pragma once
#include "kernels/body/keys.h"

namespace slip {
namespace {

constexpr int64_t kInWork = 2 * kLanes;  // queries whose scores are in work at a time
constexpr int64_t kNarrowKeys = 8;       // of a score tile with one vector of queries
constexpr int64_t kRunKeys = 16;         // of score_run

template <class K>
struct LanesState : AttentionState {
  using Kind = K;
  using AttentionState::AttentionState;
  static constexpr int64_t kBlockWords = kKeyBlock / Kind::kNumbers * Kind::kPlanes;
  const int64_t steps = a.width / Kind::kNumbers;  // words of a head
  alignas(64) Word q_KQ[kMaxHeadWidth / Kind::kNumbers * Kind::kPlanes * kLineQueries];
  alignas(64) Word values_NK[kBlockWords * kMaxHeadWidth];  // N: neighbouring keys
  alignas(64) float scores_SQ[kKeyBlock * kInWork];
  alignas(64) Word weights_NQ[kBlockWords * kInWork];
  alignas(64) float keep[kInWork];
  int64_t fetch_at[kKeyBlock + kLanes];     // where the next block's keys lie
  int64_t fetch_keys, fetched, fetch_each;  // how many; halves of them (keys, values) fetched, and to fetch at a time
};

constexpr int64_t kFetchWidth = 64;  // narrower heads' caches are small, and the planning would be an eighth of a single row's work

/// What the leading row sees next will be fetched while this block is worked on.
template <class S>
void plan_fetch(S& s, const Cursor& c, int64_t t) {
  s.fetch_keys = s.fetched = s.fetch_each = 0;
  if (s.a.width < kFetchWidth) return;
  Cursor next;
  next.span = c.span;
  next.offset = c.offset;
  next_block(s.a, s.a.row_begin + t, next);
  s.fetch_keys = next.count;
  if (next.count > 0) slots_of(next, s.a.slot_stride, s.fetch_at);
  const int64_t groups = (s.queries + kInWork - 1) / kInWork, tiles = groups * (kKeyBlock / S::Kind::kWideKeys + 2);
  s.fetch_each = (2 * s.fetch_keys + tiles - 1) / tiles;
}

/// Starts fetching some of the next block's keys and values. Called between tiles: a burst of fetches would stand in the way of loads.
template <class S>
inline void fetch_ahead(S& s) {
  constexpr int64_t kBytes = sizeof(typename S::Kind::Number);
  const int64_t lines = (s.a.width * kBytes + 63) / 64, head = s.a.kv_head * s.a.head_stride;
  const int64_t end = s.fetched + s.fetch_each < 2 * s.fetch_keys ? s.fetched + s.fetch_each : 2 * s.fetch_keys;
  for (; s.fetched < end; s.fetched++) {
    const void* base = s.fetched % 2 ? s.a.values_SGK : s.a.keys_SGK;
    const char* from = static_cast<const char*>(base) + (head + s.fetch_at[s.fetched / 2]) * kBytes;
    for (int64_t i = 0; i < lines; i++) __builtin_prefetch(from + i * 64, 0, 2);
  }
}

/// Sums become scores; most[] gets the largest so far.
template <class Scores, int kKeys, int kVectors>
inline void store_scores(const Words (&sum)[kKeys][kVectors], const Scores& of, float* scores, float* most) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v++) {
    Floats top = load(most + v * kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; j++) {
      const Floats x = of.score(sum[j][v], j);
      store(scores + j * kInWork + v * kLanes, x);
      top = max_v(top, x);
    }
    store(most + v * kLanes, top);
  }
}

/// Part kHalf of a step of score_tile.
template <class Kind, int kHalf, int kKeys, int kVectors>
inline void score_half(Words (&sum)[kKeys][kVectors], const Word* const (&key)[kKeys], int64_t s, const Word* q_Q) {
  decltype(Kind::template lanes_at<kHalf>(q_Q, 0)) q[kVectors];
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v++) q[v] = Kind::template lanes_at<kHalf>(q_Q + v * kLanes, kLineQueries);
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++) {
    const auto k = Kind::template key_at<kHalf>(key[j] + s);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) Kind::add(sum[j][v], k, q[v]);
  }
}

/// scores[key][query] for kKeys keys and kVectors vectors of queries.
template <class Kind, int kKeys, int kVectors>
[[gnu::noinline]] void score_tile(const typename Kind::Number* keys, const int64_t* at, typename Kind::Scores of, const Word* q_KQ,
                                  int64_t steps, float* scores, float* most) {
  Words sum[kKeys][kVectors];
  const Word* key[kKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++) key[j] = reinterpret_cast<const Word*>(keys + at[j]);
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) sum[j][v] = of.start(v);
  for (int64_t s = 0; s < steps; s++) {
    const Word* q_Q = q_KQ + s * Kind::kPlanes * kLineQueries;
    if constexpr (Kind::kHalves == 2 && kVectors == 1) {
      const Words low = load_words(q_Q), high = load_words(q_Q + kLineQueries);
#pragma GCC unroll 8
      for (int j = 0; j < kKeys; j++) Kind::add_both(sum[j][0], key[j] + s, low, high);
      continue;
    }
    score_half<Kind, 0>(sum, key, s, q_Q);
    if constexpr (Kind::kHalves == 2) score_half<Kind, 1>(sum, key, s, q_Q);
  }
  store_scores(sum, of, scores, most);
}

/// The same for kRunKeys keys that lie `stride` words apart and one vector of queries: 16 sums in flight hide the latency of a dot
/// product, 8 do not. Every third key has a pointer of its own, the others their distance from it.
template <class Kind>
[[gnu::noinline]] void score_run(const Word* first, int64_t stride, typename Kind::Scores of, const Word* q_KQ, int64_t steps,
                                 float* scores, float* most) {
  Words sum[kRunKeys][1];
  const Word* key[kRunKeys / 3 + 1];
#pragma GCC unroll 6
  for (int i = 0; i <= kRunKeys / 3; i++) key[i] = first + 3 * i * stride;
#pragma GCC unroll 16
  for (int j = 0; j < kRunKeys; j++) sum[j][0] = of.start(0);
  for (int64_t s = 0; s < steps; s++) {
    const Word* q_Q = q_KQ + s * Kind::kPlanes * kLineQueries;
    if constexpr (Kind::kHalves == 2) {
      const Words low = load_words(q_Q), high = load_words(q_Q + kLineQueries);
#pragma GCC unroll 16
      for (int j = 0; j < kRunKeys; j++) Kind::add_both(sum[j][0], key[j / 3] + j % 3 * stride + s, low, high);
      continue;
    }
    const auto q = Kind::template lanes_at<0>(q_Q, kLineQueries);
#pragma GCC unroll 16
    for (int j = 0; j < kRunKeys; j++) Kind::add(sum[j][0], Kind::template key_at<0>(key[j / 3] + j % 3 * stride + s), q);
  }
  store_scores(sum, of, scores, most);
}

template <class Kind>
using ScoreTile = void (*)(const typename Kind::Number*, const int64_t*, typename Kind::Scores, const Word*, int64_t, float*,
                           float*);

template <class Kind, int kVectors, int kMost = kVectors == 1 ? kNarrowKeys : Kind::kWideKeys>
ScoreTile<Kind> score_tile_of(int64_t keys) {
  if constexpr (kMost > 1)
    if (keys < kMost) return score_tile_of<Kind, kVectors, kMost - 1>(keys);
  return score_tile<Kind, kMost, kVectors>;
}

/// Scores of one vector (narrow) or two of queries from query i on with all keys of the block.
template <class S>
void score_all(S& s, int64_t i, bool narrow, int64_t count, float* most) {
  using Kind = typename S::Kind;
  const auto* keys = static_cast<const typename Kind::Number*>(s.a.keys_SGK) + s.a.kv_head * s.a.head_stride;
  const int64_t stride = s.a.slot_stride;
  const Word* q_KQ = s.q_KQ + i;
  int64_t j = 0;
  for (; narrow && kTileVectors == 4 && j + kRunKeys <= count; j += kRunKeys) {
    bool run = true;
    for (int64_t e = 1; e < kRunKeys; e++) run &= s.at[j + e] - s.at[j + e - 1] == stride;
    if (!run) break;
    fetch_ahead(s);
    fetch_ahead(s);
    score_run<Kind>(reinterpret_cast<const Word*>(keys + s.at[j]), stride / Kind::kNumbers, scores_of(s, j, i), q_KQ, s.steps,
                    s.scores_SQ + j * kInWork, most);
  }
  const int64_t each = narrow ? kNarrowKeys : Kind::kWideKeys;
  for (; j < count; j += each) {
    const int64_t m = count - j < each ? count - j : each;
    fetch_ahead(s);
    const ScoreTile<Kind> f = narrow ? score_tile_of<Kind, 1>(m) : score_tile_of<Kind, 2>(m);
    f(keys, s.at + j, scores_of(s, j, i), q_KQ, s.steps, s.scores_SQ + j * kInWork, most);
  }
}

/// Part kHalf of a step of weigh_tile.
template <class Kind, int kHalf, int kRows, int kVectors>
inline void weigh_half(Words (&a)[kRows][kVectors], const Word* weights, const Word* values, int64_t ldv) {
  decltype(Kind::template lanes_at<kHalf>(values, 0)) b[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; v++) b[v] = Kind::template lanes_at<kHalf>(values + v * kLanes, ldv);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++) {
    const auto w = Kind::template weight_at<kHalf>(weights + r);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) Kind::add(a[r][v], w, b[v]);
  }
}

/// What `so_far` makes of sums[query][number] and of weights[word][query] . values[word][number], added up over the words.
template <class Kind, int kRows, int kVectors>
[[gnu::noinline]] void weigh_tile(typename Kind::Sums so_far, float* sums, int64_t lds, const Word* weights, const Word* values,
                                  int64_t ldv, int64_t words) {
  Words a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) a[r][v] = so_far.start(r, sums + r * lds + v * kLanes);
  for (int64_t j = 0; j < words; j++) {
    const Word *w = weights + j * Kind::kPlanes * kInWork, *b = values + j * Kind::kPlanes * ldv;
    weigh_half<Kind, 0>(a, w, b, ldv);
    if constexpr (Kind::kHalves == 2) weigh_half<Kind, 1>(a, w, b, ldv);
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) so_far.store_sum(r, a[r][v], sums + r * lds + v * kLanes);
}

template <class Kind>
using WeighTile = void (*)(typename Kind::Sums, float*, int64_t, const Word*, const Word*, int64_t, int64_t);

template <class Kind, int kVectors, int kMost>
WeighTile<Kind> weigh_tile_of(int64_t rows) {
  if constexpr (kMost > 1)
    if (rows < kMost) return weigh_tile_of<Kind, kVectors, kMost - 1>(rows);
  return weigh_tile<Kind, kMost, kVectors>;
}

/// Weighted values of n <= kInWork queries, added to what `sums` have so far.
template <class S>
[[gnu::noinline]] void weigh(S& s, float* sums, int64_t n, const Word* weights, const Word* values, int64_t words) {
  using Kind = typename S::Kind;
  for_value_tiles(s.padded / kLanes, n, [&](int64_t v, int64_t m, int64_t r, int64_t rows) {
    fetch_ahead(s);
    const WeighTile<Kind> f = m == 1 ? weigh_tile_of<Kind, 1, 8>(rows) : m == 2 ? weigh_tile_of < Kind, 2,
                          kTileVectors == 4 ? 8 : 4 > (rows) : weigh_tile_of<Kind, kTileVectors, 4>(rows);
    f(sums_of(s, r), sums + r * s.padded + v * kLanes, s.padded, weights + r, values + v * kLanes, s.padded, words);
  });
}

/// n numbers. (Of a number of bytes that is not known g++ makes `rep movs`, which takes longer to begin than these few take.)
inline void copy_some(const float* from, int64_t n, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(to + i, load(from + i));
#pragma GCC unroll 1
  for (; i < n; i++) to[i] = from[i];
}

/// Queries [begin, end) that all see `count` keys of the block. What stands in the lanes behind `end` is computed and dropped.
template <class S>
void add_queries(S& s, int64_t begin, int64_t end, int64_t count) {
  for (int64_t i = begin; i < end; i += kInWork) {
    const int64_t n = end - i < kInWork ? end - i : kInWork;
    const bool narrow = n <= kLanes;
    alignas(64) float most[kInWork], top[kInWork], total[kInWork];
    for (int64_t r = 0; r < kInWork; r += kLanes) store(most + r, splat(-__builtin_inff()));
    score_all(s, i, narrow, count, most);
    if (narrow)
      soften<1>(s, i, count, most, top, total);
    else
      soften<2>(s, i, count, most, top, total);
    copy_some(top, n, s.top + i);
    copy_some(total, n, s.total + i);
    add_values(s, s.sums + i * s.padded, n, count);
  }
}

/// Zeros in the lanes behind the last vector that holds a query.
template <class S>
void clear_behind(S& s) {
  const int64_t filled = (s.queries + kLanes - 1) / kLanes * kLanes;
  for (int64_t k = 0; k < s.steps * S::Kind::kPlanes; k++) {
    store_words(s.q_KQ + k * kLineQueries + filled, no_words());
    store_words(s.q_KQ + k * kLineQueries + filled + kLanes, no_words());
  }
}

}  // namespace
}  // namespace slip
