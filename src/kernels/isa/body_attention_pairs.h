// SPDX-License-Identifier: Apache-2.0
// Span attention over bf16 keys and values, with bf16 dot products. Queries lie in the lanes of a vector while scores are made: a key's
// pairs are broadcast from where the key lies in the cache, the queries are transposed once per piece, and maximum, exponential
// and sum of a query never cross a lane. Values are gathered per block of 64 keys, the pairs of neighbouring keys interleaved, and
// weighed with the numbers of the head in the lanes.
//
// Contract W: a row's keys are cut into blocks of 64 counted along its own span list. A score is one chain over pairs of the head
// width; a value sum is one chain over pairs of keys as the row sees them (the block's first two, the next two, ...), an odd last key
// with 0 beside it; so is the sum of the probabilities. The query times scale / ln 2 is rounded to bf16, and so are the probabilities
// 2^(score - maximum), before they weigh values and before they are added up: what is divided by is the sum of what was multiplied
// with. attention_test.cc derives the error bound.
#pragma once
#include "kernels/isa/body_keys.h"

namespace slip {
namespace {

constexpr int64_t kPairBlock = kKeyBlock / 2;
constexpr int64_t kInWork = 2 * kLanes;                  // queries whose scores are in work at a time: 8 keys x 2 vectors of sums
constexpr int64_t kLineQueries = kMaxQueries + kInWork;  // of the transposed queries; whole vectors are read from any query on

struct AttendPairs {
  explicit AttendPairs(const AttendArgs& args) : a(args), walk(args) {}           // not zeroed, as Attend
  static constexpr int64_t kNumberBytes = 2, kTilesPerGroup = kKeyBlock / 8 + 2;  // between which the next block is fetched
  const AttendArgs& a;
  Walk walk;
  int64_t queries, padded, steps;  // padded: head width in whole vectors; steps: pairs of a head
  float top[kLineQueries], total[kLineQueries];
  alignas(64) Word q_KQ[kMaxHeadWidth / 2 * kLineQueries];
  alignas(64) float sums[kMaxQueries * kMaxHeadWidth];
  alignas(64) Word values_PK[kPairBlock * kMaxHeadWidth];
  alignas(64) float scores_SQ[kKeyBlock * kInWork];
  alignas(64) Word weights_PQ[kPairBlock * kInWork];
  alignas(64) float keep[kInWork];
  int64_t at[kKeyBlock + kLanes];
  int64_t fetch_at[kKeyBlock + kLanes];     // where the next block's keys lie
  int64_t fetch_keys, fetched, fetch_each;  // how many; halves of them (keys, values) fetched, and to fetch at a time
};

constexpr int64_t kTilesOfKeys = 8;  // keys of a score tile

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
  const int64_t groups = (s.queries + kInWork - 1) / kInWork, tiles = groups * S::kTilesPerGroup;
  s.fetch_each = (2 * s.fetch_keys + tiles - 1) / tiles;
}

/// Starts fetching some of the next block's keys and values. Called between tiles: a burst of fetches would stand in the way of loads.
template <class S>
inline void fetch_ahead(S& s) {
  const int64_t lines = (s.a.width * S::kNumberBytes + 63) / 64, head = s.a.kv_head * s.a.head_stride;
  const int64_t end = s.fetched + s.fetch_each < 2 * s.fetch_keys ? s.fetched + s.fetch_each : 2 * s.fetch_keys;
  for (; s.fetched < end; s.fetched++) {
    const void* base = s.fetched % 2 ? s.a.values_SGK : s.a.keys_SGK;
    const char* from = static_cast<const char*>(base) + (head + s.fetch_at[s.fetched / 2]) * S::kNumberBytes;
    for (int64_t i = 0; i < lines; i++) __builtin_prefetch(from + i * 64, 0, 2);
  }
}

/// Values of neighbouring keys interleaved to words; keys stay where they are.
void gather(AttendPairs& s, const Cursor& c, int64_t lead) {
  plan_fetch(s, c, lead);
  const int64_t width = s.a.width;
  const auto* values = static_cast<const uint16_t*>(s.a.values_SGK) + s.a.kv_head * s.a.head_stride;
  slots_of(c, s.a.slot_stride, s.at);
  for (int64_t j = 0; j < c.count; j += 2) {
    Word* out = s.values_PK + j / 2 * s.padded;
    interleave(values + s.at[j], j + 1 < c.count ? values + s.at[j + 1] : nullptr, width, out);
    for (int64_t k = width; k < s.padded; k++) out[k] = 0;
  }
}

/// 2^x for x <= 0 (or NaN), relative error below 3.5e-6; exactly 1 at 0; 0 below -126. x = n + r, |r| <= 1/2; 1 + c1 r .. c4 r^4 is
/// the minimax fit with that form (Lawson's iteration, 30 digits: 2.83e-6), a thousandth of what rounding to bf16 costs afterwards.
inline Floats exp2_down_v(Floats x) {
  const Floats magic = splat(12582912.0F);
  const Floats shifted = add_v(x, magic);
  const Floats r = sub_v(x, sub_v(shifted, magic));
  Floats p = splat(0.00958285108F);
  p = fma_v(p, r, splat(0.0559064299F));
  p = fma_v(p, r, splat(0.240240991F));
  p = fma_v(p, r, splat(0.693124175F));
  p = fma_v(p, r, splat(1.0F));
  return add_to_exponent_or_zero(p, shifted, x, splat(-126.0F));
}

/// scores[key][query] for kKeys keys and kVectors vectors of queries; most[] gets the largest so far.
template <int kKeys, int kVectors>
[[gnu::noinline]] void score_tile(const uint16_t* keys, const int64_t* at, const Word* q_KQ, int64_t steps, float* scores,
                                  float* most) {
  Words sum[kKeys][kVectors];
  const Word* key[kKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++) key[j] = reinterpret_cast<const Word*>(keys + at[j]);
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++)
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) sum[j][v] = no_words();
  for (int64_t s = 0; s < steps; s++) {
    Words q[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) q[v] = load_words(q_KQ + s * kLineQueries + v * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; j++) {
      const Words k = splat_word(key[j] + s);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v++) add_dot(sum[j][v], k, q[v]);
    }
  }
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v++) {
    Floats top = load(most + v * kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; j++) {
      Floats x;
      __builtin_memcpy(&x, &sum[j][v], sizeof x);
      store(scores + j * kInWork + v * kLanes, x);
      top = max_v(top, x);
    }
    store(most + v * kLanes, top);
  }
}

/// The same for 16 keys that lie `stride` words apart and one vector of queries: 16 sums in flight hide the latency of a dot product,
/// 8 do not. Every third key has a pointer of its own, the others their distance from it.
[[gnu::noinline]] void score_run(const Word* first, int64_t stride, const Word* q_KQ, int64_t steps, float* scores, float* most) {
  constexpr int kKeys = 2 * kTilesOfKeys;
  Words sum[kKeys];
  const Word* key[kKeys / 3 + 1];
#pragma GCC unroll 6
  for (int i = 0; i <= kKeys / 3; i++) key[i] = first + 3 * i * stride;
#pragma GCC unroll 16
  for (int j = 0; j < kKeys; j++) sum[j] = no_words();
  for (int64_t s = 0; s < steps; s++) {
    const Words q = load_words(q_KQ + s * kLineQueries);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; j++) add_dot(sum[j], splat_word(key[j / 3] + j % 3 * stride + s), q);
  }
  Floats top = load(most);
#pragma GCC unroll 16
  for (int j = 0; j < kKeys; j++) {
    Floats x;
    __builtin_memcpy(&x, &sum[j], sizeof x);
    store(scores + j * kInWork, x);
    top = max_v(top, x);
  }
  store(most, top);
}

using ScoreTile = void (*)(const uint16_t*, const int64_t*, const Word*, int64_t, float*, float*);

template <int kVectors, int kMost = kTilesOfKeys>
ScoreTile score_tile_of(int64_t keys) {
  if constexpr (kMost > 1)
    if (keys < kMost) return score_tile_of<kVectors, kMost - 1>(keys);
  return score_tile<kMost, kVectors>;
}

/// Scores of one vector or two of queries with all keys of the block.
void score_all(AttendPairs& s, const Word* q_KQ, bool narrow, int64_t count, float* most) {
  const auto* keys = static_cast<const uint16_t*>(s.a.keys_SGK) + s.a.kv_head * s.a.head_stride;
  const int64_t stride = s.a.slot_stride;
  int64_t j = 0;
  for (; narrow && kTileVectors == 4 && j + 2 * kTilesOfKeys <= count; j += 2 * kTilesOfKeys) {
    bool run = true;
    for (int64_t i = 1; i < 2 * kTilesOfKeys; i++) run &= s.at[j + i] - s.at[j + i - 1] == stride;
    if (!run) break;
    fetch_ahead(s);
    fetch_ahead(s);
    score_run(reinterpret_cast<const Word*>(keys + s.at[j]), stride / 2, q_KQ, s.steps, s.scores_SQ + j * kInWork, most);
  }
  for (; j < count; j += kTilesOfKeys) {
    const int64_t m = count - j < kTilesOfKeys ? count - j : kTilesOfKeys;
    fetch_ahead(s);
    (narrow ? score_tile_of<1>(m) : score_tile_of<2>(m))(keys, s.at + j, q_KQ, s.steps, s.scores_SQ + j * kInWork, most);
  }
}

/// Scores of kVectors vectors of queries become probabilities relative to their running maxima, a pair of keys to a word; keep: what
/// earlier sums are scaled by; totals are brought up to date. `most`: the block's largest scores.
template <int kVectors>
void soften(AttendPairs& s, int64_t count, const float* top_before, const float* total_before, const float* most, float* top_after,
            float* total_after) {
  for (int v = 0; v < kVectors; v++) {
    const float* scores = s.scores_SQ + v * kLanes;
    Word* out = s.weights_PQ + v * kLanes;
    const Floats before = load(top_before + v * kLanes), top = max_v(before, load(most + v * kLanes));
    Words sum = no_words();
    for (int64_t j = 0; j < count / 2; j++) {
      const float* two = scores + j * 2 * kInWork;
      const Words w = pair_lanes(exp2_down_v(sub_v(load(two), top)), exp2_down_v(sub_v(load(two + kInWork), top)));
      store_words(out + j * kInWork, w);
      add_dot(sum, w, ones());
    }
    if (count % 2) {
      const Words w = pair_lanes(exp2_down_v(sub_v(load(scores + (count - 1) * kInWork), top)), zeros());
      store_words(out + count / 2 * kInWork, w);
      add_dot(sum, w, ones());
    }
    const Floats kept = exp2_down_v(sub_v(before, top));
    Floats added;
    __builtin_memcpy(&added, &sum, sizeof added);
    store(s.keep + v * kLanes, kept);
    store(top_after + v * kLanes, top);
    store(total_after + v * kLanes, add_v(mul_v(load(total_before + v * kLanes), kept), added));
  }
}

/// sums[query][number] = keep sums[query][number] + weights[pair][query] values[pair][number], one chain per sum over the pairs.
template <int kRows, int kVectors>
[[gnu::noinline]] void weigh_tile(float* sums, int64_t lds, const float* keep, const Word* weights_PQ, const Word* values,
                                  int64_t ldv, int64_t pairs) {
  Words a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) {
      const Floats so_far = mul_v(load(sums + r * lds + v * kLanes), splat(keep[r]));
      __builtin_memcpy(&a[r][v], &so_far, sizeof so_far);
    }
  for (int64_t j = 0; j < pairs; j++) {
    Words b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) b[v] = load_words(values + j * ldv + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const Words w = splat_word(weights_PQ + j * kInWork + r);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) add_dot(a[r][v], w, b[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) store_words(sums + r * lds + v * kLanes, a[r][v]);
}

using WeighTile = void (*)(float*, int64_t, const float*, const Word*, const Word*, int64_t, int64_t);

template <int kVectors, int kMost>
WeighTile weigh_tile_of(int64_t rows) {
  if constexpr (kMost > 1)
    if (rows < kMost) return weigh_tile_of<kVectors, kMost - 1>(rows);
  return weigh_tile<kMost, kVectors>;
}

/// Weighted values of n <= kInWork queries, added to s.keep times what they have so far.
void weigh(AttendPairs& s, float* sums, int64_t n, const Word* weights, const Word* values, int64_t pairs) {
  constexpr int64_t kWide = kTileVectors == 4 ? 2 : 1;  // vectors at which 8 queries fill the registers
  const int64_t vectors = s.padded / kLanes;
  for (int64_t v = 0; v < vectors;) {
    const int64_t left = vectors - v, m = left >= kTileVectors && left != kTileVectors + 1 ? kTileVectors : left < 2 ? 1 : 2;
    const int64_t rows_each = m <= kWide ? 8 : 4;
    for (int64_t r = 0; r < n; r += rows_each) {
      const int64_t rows = n - r < rows_each ? n - r : rows_each;
      fetch_ahead(s);
      const WeighTile f = m == 1 ? weigh_tile_of<1, 8>(rows) : m == 2 ? weigh_tile_of < 2,
                      kWide == 2 ? 8 : 4 > (rows) : weigh_tile_of<kTileVectors, 4>(rows);
      f(sums + r * s.padded + v * kLanes, s.padded, s.keep + r, weights + r, values + v * kLanes, s.padded, pairs);
    }
    v += m;
  }
}

void add_values(AttendPairs& s, float* sums, int64_t n, int64_t count) {
  weigh(s, sums, n, s.weights_PQ, s.values_PK, count / 2);
  if (count % 2 == 0) return;
  // Beside the last key lies one that this row does not see: its value may be anything.
  alignas(64) Word alone[kMaxHeadWidth];
  for (int64_t k = 0; k < s.padded; k += kLanes)
    store_words(alone + k, lower_of(load_words(s.values_PK + count / 2 * s.padded + k)));
  for (float& x : s.keep) x = 1.0F;
  weigh(s, sums, n, s.weights_PQ + count / 2 * kInWork, alone, 1);
}

/// Queries [begin, end) that all see `count` keys of the block. What stands in the lanes behind `end` is computed and dropped.
void add_queries(AttendPairs& s, int64_t begin, int64_t end, int64_t count) {
  for (int64_t i = begin; i < end; i += kInWork) {
    const int64_t n = end - i < kInWork ? end - i : kInWork;
    const bool narrow = n <= kLanes;
    alignas(64) float most[kInWork], top[kInWork], total[kInWork];
    for (int64_t r = 0; r < kInWork; r += kLanes) store(most + r, splat(-__builtin_inff()));
    score_all(s, s.q_KQ + i, narrow, count, most);
    if (narrow)
      soften<1>(s, count, s.top + i, s.total + i, most, top, total);
    else
      soften<2>(s, count, s.top + i, s.total + i, most, top, total);
    __builtin_memcpy(s.top + i, top, static_cast<size_t>(n) * sizeof(float));
    __builtin_memcpy(s.total + i, total, static_cast<size_t>(n) * sizeof(float));
    add_values(s, s.sums + i * s.padded, n, count);
  }
}

/// out = the bf16 words of x * factor, n even.
inline void pack_query(const float* x, float factor, int64_t n, Word* out) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes)
    store_words(out + i / 2, pack_pairs(mul_v(load(x + i), splat(factor)), mul_v(load(x + i + kLanes), splat(factor))));
  for (; i < n; i += 2) out[i / 2] = bf16_bits(x[i] * factor) | bf16_bits(x[i + 1] * factor) << 16;
}

/// Queries in words, transposed; lanes behind the last query repeat one, so that no number in them is a trap.
void take_queries(AttendPairs& s) {
  const AttendArgs& a = s.a;
  alignas(64) Word words[kLanes][kMaxHeadWidth / 2];
  const float* rows[kLanes];
  for (int64_t i = 0; i < kLanes; i++) rows[i] = reinterpret_cast<const float*>(words[i]);
  for (int64_t first = 0; first < s.queries; first += kLanes) {
    const int64_t n = s.queries - first < kLanes ? s.queries - first : kLanes;
    for (int64_t i = 0; i < n; i++) {
      const int64_t t = (first + i) / a.head_count, h = (first + i) % a.head_count;
      const float scale = a.scale * 1.44269504F, factor = a.q_scale_T ? a.q_scale_T[a.row_begin + t] * scale : scale;
      pack_query(query_of(a, t, h), factor, a.width, words[i]);
    }
    for (int64_t i = n; i < kLanes; i++) rows[i] = rows[0];
    int64_t k = 0;
    for (; k + kLanes <= s.steps; k += kLanes)
      transpose_square(rows, k, reinterpret_cast<float*>(s.q_KQ) + k * kLineQueries + first, kLineQueries);
    for (; k < s.steps; k++)
      for (int64_t i = 0; i < kLanes; i++) s.q_KQ[k * kLineQueries + first + i] = words[i < n ? i : 0][k];
  }
  const int64_t filled = (s.queries + kLanes - 1) / kLanes * kLanes;
  for (int64_t k = 0; k < s.steps; k++) {
    store_words(s.q_KQ + k * kLineQueries + filled, no_words());
    store_words(s.q_KQ + k * kLineQueries + filled + kLanes, no_words());
  }
}

void to_f32(const float* x, int64_t n, void* out) { __builtin_memcpy(out, x, static_cast<size_t>(n) * sizeof(float)); }

void to_bf16_all(const float* x, int64_t n, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) store_words(to + i, pack_pairs(load(x + i), load(x + i + kLanes)));
  for (; i < n; i++) to[i] = static_cast<uint16_t>(bf16_bits(x[i]));
}

void attend_pairs(const AttendArgs& a) {
  AttendPairs s(a);
  s.queries = s.walk.rows * a.head_count;
  s.padded = (a.width + kLanes - 1) / kLanes * kLanes;
  s.steps = a.width / 2;
  take_queries(s);
  for (int64_t i = 0; i < kLineQueries; i++) {
    s.top[i] = -__builtin_inff();
    s.total[i] = 0;
  }
  __builtin_memset(s.sums, 0, static_cast<size_t>(s.queries * s.padded) * sizeof(float));
  while (step(s)) {
  }
  write_out(s);
}

}  // namespace
}  // namespace slip
