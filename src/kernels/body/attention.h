// SPDX-License-Identifier: Apache-2.0
// Span attention over f32 keys for up to kMaxQueries queries (rows x heads of one key/value head): 64 keys at a time are gathered and
// transposed once for all queries that see them, then scores and weighted values are the products of body/product.h
// with a running softmax in between [Dao et al., FlashAttention, for the running maximum].
#pragma once
#include "kernels/body/keys.h"
#include "kernels/body/rows.h"

namespace slip {
namespace {

constexpr int64_t kTileQueries = 8;  // whose scores (2 KiB) are in work at a time

struct Attend : AttentionState {
  using AttentionState::AttentionState;
  alignas(64) float q[kMaxQueries * kMaxHeadWidth];
  alignas(64) float keys_KS[kMaxHeadWidth * kKeyBlock];
  alignas(64) float values_SK[kKeyBlock * kMaxHeadWidth];
  const float*
      values;  // of the block in hand, s.at says where: in place, or values_SK where the head width is no whole number of vectors
};

/// Keys transposed, columns up to the next whole vector repeat the last key (finite, and never used); values where they lie.
void gather(Attend& s, const Cursor& c, int64_t) {
  const int64_t width = s.a.width, stride = s.a.slot_stride;
  const float* keys = static_cast<const float*>(s.a.keys_SGK) + s.a.kv_head * s.a.head_stride;
  const float* values = static_cast<const float*>(s.a.values_SGK) + s.a.kv_head * s.a.head_stride;
  const int64_t filled = slots_of(c, stride, s.at);
  for (int64_t j = 0; j < filled; j += kLanes) {
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; i++) rows[i] = keys + s.at[j + i];
    transpose(rows, width, s.keys_KS + j, kKeyBlock);
  }
  s.values = values;
  if (s.padded == width) return;
  for (int64_t j = 0; j < c.count; j++) {
    __builtin_memcpy(s.values_SK + j * s.padded, values + s.at[j], static_cast<size_t>(width) * sizeof(float));
    for (int64_t k = width; k < s.padded; k++) s.values_SK[j * s.padded + k] = 0;
    s.at[j] = j * s.padded;
  }
  s.values = s.values_SK;
}

/// e^x for x <= 0. Of a NaN exp_to_88_v takes the last bits for an exponent; zero times x, or times -1 where x is lower, leaves what is none.
inline Floats exp_down_v(Floats x) { return fma_v(max_v(splat(-1.0F), x), zeros(), exp_to_88_v(x)); }

/// Scores of n <= 8 queries from query i on become probabilities relative to their running maxima; keep[]: what earlier sums are
/// scaled by. Places after the last key hold -inf to the end of their vector; vectors after that would add +0 to a sum and are
/// left out.
template <int kVectors>
void soften(Attend& s, int64_t i, int64_t n, float* p, float* keep) {
  Floats folded[kTileQueries];
  const Floats scale = splat(s.a.scale);
  for (int64_t r = 0; r < n; r++) {
    float* row = p + r * kKeyBlock;
    Floats most;
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; v++) {
      const Floats x = mul_v(load(row + v * kLanes), scale);
      store(row + v * kLanes, x);
      most = v == 0 ? x : max_v(most, x);
    }
    folded[r] = most;
  }
  for (int64_t r = n; r < kTileQueries; r++) folded[r] = zeros();
  // One number per query from here on, in registers: through memory these would be narrow stores read by wide loads.
  Eight tops = max_lanes_of_8(folded), kept;
  for (int e = 0; e < kEight; e++) {
    const Floats before = load(s.top + i + e * kLanes);
    tops.v[e] = max_v(before, tops.v[e]);
    kept.v[e] = exp_to_88_v(sub_v(before, tops.v[e]));
  }
  store_first(s.top + i, tops, n);
  store_first(keep, kept, kTileQueries);
  for (int64_t r = 0; r < n; r++) {
    float* row = p + r * kKeyBlock;
    const Floats top = splat_lane(tops, r);
    Floats sum = zeros();
#pragma GCC unroll 16
    for (int v = 0; v < kVectors; v++) {
      const Floats e = exp_down_v(sub_v(load(row + v * kLanes), top));
      store(row + v * kLanes, e);
      sum = add_to_chain(sum, e);
    }
    folded[r] = sum;
  }
  Eight totals = sum_lanes_of_8(folded);
  for (int e = 0; e < kEight; e++) totals.v[e] = add_v(mul_v(load(s.total + i + e * kLanes), kept.v[e]), totals.v[e]);
  store_first(s.total + i, totals, n);
}

using Soften = void (*)(Attend&, int64_t, int64_t, float*, float*);

template <int kMost = kKeyBlock / kLanes>
Soften soften_of(int64_t vectors) {
  if constexpr (kMost > 1)
    if (vectors < kMost) return soften_of<kMost - 1>(vectors);
  return soften<kMost>;
}

/// sums = sums * keep + p values, one chain per sum over the keys in their order.
template <int kRows, int kVectors>
[[gnu::noinline]] void weigh(float* sums, int64_t lds, const float* keep, const float* p, const float* values, const int64_t* at,
                             int64_t count) {
  Floats a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) a[r][v] = mul_v(load(sums + r * lds + v * kLanes), splat(keep[r]));
  for (int64_t j = 0; j < count; j++) {
    const float* row = values + at[j];
    Floats b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) b[v] = load(row + v * kLanes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const Floats pr = splat(p[r * kKeyBlock + j]);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) a[r][v] = fma_v(pr, b[v], a[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) store(sums + r * lds + v * kLanes, a[r][v]);
}

using Weigh = void (*)(float*, int64_t, const float*, const float*, const float*, const int64_t*, int64_t);

template <int kVectors>
Weigh weigh_of_rows(int64_t rows) {
  static constexpr Weigh kFew[4] = {weigh<1, kVectors>, weigh<2, kVectors>, weigh<3, kVectors>, weigh<4, kVectors>};
  if constexpr (kVectors * 8 <= kSumsInFlight) {
    static constexpr Weigh kMany[4] = {weigh<5, kVectors>, weigh<6, kVectors>, weigh<7, kVectors>, weigh<8, kVectors>};
    if (rows > 4) return kMany[rows - 5];
  }
  return kFew[rows - 1];
}

/// Weighted values of n <= 8 queries whose probabilities stand in p.
void add_values(const Attend& s, float* sums, int64_t n, const float* keep, const float* p, int64_t count) {
  for_value_tiles(s.padded / kLanes, n, [&](int64_t v, int64_t m, int64_t r, int64_t rows) {
    const Weigh f = m == 1 ? weigh_of_rows<1>(rows) : m == 2 ? weigh_of_rows<2>(rows) : weigh_of_rows<kTileVectors>(rows);
    f(sums + r * s.padded + v * kLanes, s.padded, keep + r, p + r * kKeyBlock, s.values + v * kLanes, s.at, count);
  });
}

/// Queries [begin, end) that all see `count` keys of the gathered block, eight at a time, so that their scores stay in the L1.
void add_queries(Attend& s, int64_t begin, int64_t end, int64_t count) {
  alignas(64) float p[kTileQueries * kKeyBlock], keep[kTileQueries];
  const int64_t vectors = (count + kLanes - 1) / kLanes;
  const Soften soften = soften_of(vectors);
  for (int64_t i = begin; i < end; i += kTileQueries) {
    const int64_t n = end - i < kTileQueries ? end - i : kTileQueries;
    multiply<DotF32>(reinterpret_cast<Word*>(p), kKeyBlock, n, vectors, reinterpret_cast<const Word*>(s.q + i * s.a.width),
                     s.a.width, reinterpret_cast<const Word*>(s.keys_KS), kKeyBlock, s.a.width);
    if (count < vectors * kLanes)
      for (int64_t r = 0; r < n; r++)
        for (int64_t j = count; j < vectors * kLanes; j++) p[r * kKeyBlock + j] = -__builtin_inff();
    soften(s, i, n, p, keep);
    add_values(s, s.sums + i * s.padded, n, keep, p, count);
  }
}

void take_queries(Attend& s) {
  float* out = s.q;
  for (int64_t t = 0; t < s.walk.rows; t++)
    for (int64_t h = 0; h < s.a.head_count; h++, out += s.a.width) {
      const Query q = query_of(s.a, t, h);
      for (int64_t k = 0; k < s.a.width; k++) out[k] = q.x[k] * q.scale;
    }
}

}  // namespace
}  // namespace slip
