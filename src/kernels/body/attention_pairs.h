// SPDX-License-Identifier: Apache-2.0
// Span attention over bf16 keys and values, with bf16 dot products: body/attention_lanes.h with pairs of bf16, along the head for scores and
// of neighbouring keys for values.
//
// Contract W: a row's keys are cut into blocks of 64 counted along its own span list. A score is one chain over pairs of the head
// width; a value sum is one chain over pairs of keys as the row sees them (the block's first two, the next two, ...), an odd last key
// with 0 beside it; so is the sum of the probabilities. The query times scale / ln 2 is rounded to bf16, and so are the probabilities
// 2^(score - maximum), before they weigh values and before they are added up: what is divided by is the sum of what was multiplied
// with. attention_test.cc derives the error bound.
//
// Where bf16 is multiplied as f32 (pairs_*.h: kPairPlanes 2), queries, values and probabilities are widened once, when they are
// rearranged, and lie in two planes, that of the lower and that of the upper numbers of the pairs; keys are widened as they are read.
#pragma once
#include "kernels/body/attention_lanes.h"

namespace slip {
namespace {

struct Pairs {
  using Number = uint16_t;
  static constexpr int64_t kNumbers = 2, kPlanes = kPairPlanes, kHalves = kPairPlanes;
  static constexpr int64_t kWideKeys = kPairPlanes == 2 && kTileVectors < 4 ? 4 : 8;
  template <int kHalf>
  static inline Words key_at(const Word* p) {
    return pair_at<kHalf>(p);
  }
  template <int kHalf>
  static inline Words weight_at(const Word* p) {
    return splat_word(p + kHalf * kInWork);
  }
  template <int kHalf>
  static inline Words lanes_at(const Word* p, int64_t plane) {
    return load_words(p + kHalf * plane);
  }
  static inline void add(Words& sum, Words x, Words w) { add_pairs(sum, x, w); }
  static inline void add_both(Words& sum, const Word* p, Words low, Words high) {
    add_pairs(sum, pair_at<0>(p), low);
    add_pairs(sum, pair_at<1>(p), high);
  }

  /// Sums hold f32, here and below.
  static inline Floats as_floats(Words sum) {
    Floats x;
    __builtin_memcpy(&x, &sum, sizeof x);
    return x;
  }
  struct Scores {
    inline Words start(int64_t) const { return no_words(); }
    inline Floats score(Words sum, int64_t) const { return as_floats(sum); }
  };
  /// sums * keep goes on: one chain per sum over the pairs.
  struct Sums {
    const float* keep;
    inline Words start(int64_t r, const float* sums) const {
      const Floats so_far = mul_v(load(sums), splat(keep[r]));
      Words w;
      __builtin_memcpy(&w, &so_far, sizeof w);
      return w;
    }
    inline void store_sum(int64_t, Words sum, float* sums) const { store_words(sums, sum); }
  };
};

struct AttendPairs : LanesState<Pairs> {
  using LanesState::LanesState;
};
inline Pairs::Scores scores_of(const AttendPairs&, int64_t, int64_t) { return {}; }
inline Pairs::Sums sums_of(const AttendPairs& s, int64_t r) { return {s.keep + r}; }

/// Values of neighbouring keys interleaved to words; keys stay where they are.
void gather(AttendPairs& s, const Cursor& c, int64_t lead) {
  plan_fetch(s, c, lead);
  const int64_t width = s.a.width;
  const auto* values = static_cast<const uint16_t*>(s.a.values_SGK) + s.a.kv_head * s.a.head_stride;
  slots_of(c, s.a.slot_stride, s.at);
  for (int64_t j = 0; j < c.count; j += 2) {
    Word* out = s.values_NK + j / 2 * Pairs::kPlanes * s.padded;
    interleave(values + s.at[j], j + 1 < c.count ? values + s.at[j + 1] : nullptr, width, out, s.padded);
    for (int64_t i = 0; i < Pairs::kPlanes; i++)
      for (int64_t k = width; k < s.padded; k++) out[i * s.padded + k] = 0;
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

/// Scores of kVectors vectors of queries become probabilities relative to their running maxima, a pair of keys to a word; keep: what
/// earlier sums are scaled by; totals are brought up to date. `most`: the block's largest scores.
template <int kVectors>
void soften(AttendPairs& s, int64_t i, int64_t count, const float* most, float* top_after, float* total_after) {
  for (int v = 0; v < kVectors; v++) {
    const float* scores = s.scores_SQ + v * kLanes;
    Word* out = s.weights_NQ + v * kLanes;
    const Floats before = load(s.top + i + v * kLanes), top = max_v(before, load(most + v * kLanes));
    Words sum = no_words();
    for (int64_t j = 0; j < count / 2; j++) {
      const float* two = scores + j * 2 * kInWork;
      store_and_add(sum, exp2_down_v(sub_v(load(two), top)), exp2_down_v(sub_v(load(two + kInWork), top)),
                    out + j * Pairs::kPlanes * kInWork, kInWork);
    }
    if (count % 2)
      store_and_add(sum, exp2_down_v(sub_v(load(scores + (count - 1) * kInWork), top)), zeros(),
                    out + count / 2 * Pairs::kPlanes * kInWork, kInWork);
    const Floats kept = exp2_down_v(sub_v(before, top));
    store(s.keep + v * kLanes, kept);
    store(top_after + v * kLanes, top);
    store(total_after + v * kLanes, add_v(mul_v(load(s.total + i + v * kLanes), kept), Pairs::as_floats(sum)));
  }
}

void add_values(AttendPairs& s, float* sums, int64_t n, int64_t count) {
  weigh(s, sums, n, s.weights_NQ, s.values_NK, count / 2);
  if (count % 2 == 0) return;
  // Beside the last key lies one that this row does not see: its value may be anything.
  alignas(64) Word alone[Pairs::kPlanes * kMaxHeadWidth];
  const Word* last = s.values_NK + count / 2 * Pairs::kPlanes * s.padded;
  for (int64_t k = 0; k < s.padded; k += kLanes) store_lower(last + k, alone + k, s.padded);
  for (float& x : s.keep) x = 1.0F;
  weigh(s, sums, n, s.weights_NQ + count / 2 * Pairs::kPlanes * kInWork, alone, 1);
}

/// out = the bf16 words of x * factor, n even; in two planes each number as f32.
inline void pack_query(const float* x, float factor, int64_t n, Word* out) {
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes)
    store_numbers(mul_v(load(x + i), splat(factor)), mul_v(load(x + i + kLanes), splat(factor)), out + i * Pairs::kPlanes / 2);
  for (; i < n; i += 2) {
    const uint32_t low = bf16_bits(x[i] * factor), high = bf16_bits(x[i + 1] * factor);
    if (Pairs::kPlanes == 2)
      out[i] = low << 16, out[i + 1] = high << 16;
    else
      out[i / 2] = low | high << 16;
  }
}

/// Queries in words, transposed; lanes behind the last query repeat one, so that no number in them is a trap.
void take_queries(AttendPairs& s) {
  alignas(64) Word words[kLanes][kMaxHeadWidth / 2 * Pairs::kPlanes];
  const float* rows[kLanes];
  for (int64_t first = 0; first < s.queries; first += kLanes) {
    const int64_t n = s.queries - first < kLanes ? s.queries - first : kLanes;
    for (int64_t i = 0; i < n; i++) {
      const Query q = query_of(s.a, (first + i) / s.a.head_count, (first + i) % s.a.head_count);
      pack_query(q.x, q.scale * (s.a.scale * 1.44269504F), s.a.width, words[i]);
    }
    for (int64_t i = 0; i < kLanes; i++) rows[i] = reinterpret_cast<const float*>(words[i < n ? i : 0]);
    transpose(rows, s.steps * Pairs::kPlanes, reinterpret_cast<float*>(s.q_KQ) + first, kLineQueries);
  }
  clear_behind(s);
}

void to_f32(const float* x, int64_t n, void* out) { __builtin_memcpy(out, x, static_cast<size_t>(n) * sizeof(float)); }

void to_bf16_all(const float* x, int64_t n, void* out) {
  auto* to = static_cast<uint16_t*>(out);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) store_words(to + i, pack_pairs(load(x + i), load(x + i + kLanes)));
  for (; i < n; i++) to[i] = static_cast<uint16_t>(bf16_bits(x[i]));
}

}  // namespace
}  // namespace slip
