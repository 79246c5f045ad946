// SPDX-License-Identifier: Apache-2.0
// Span attention over int8 keys and values, with int8 dot products: body_attention_pairs.h with quads of bytes in place of pairs of bf16.
//
// Keys and queries are spread by an orthonormal Walsh-Hadamard transform of the head width (its largest power of two, then that of the
// rest, ...), which no score notices, and which leaves no channel much larger than the others: Qwen2.5's key biases stand 100 times
// above the rest in a few channels, whose step would swallow the others [Ashkboos et al., QuaRot, 2024]. Then a key is scale * (byte -
// 128), a query scale * signed byte, a value scale * signed byte, each with a scale of its own per slot (or row) and head.
//
// Probabilities 2^(score - maximum) times their values' scales are quantised to 0 .. 255 once more per query and block of 64 keys,
// relative to the largest of the block, and the block's exact integer sums are multiplied by (sum of these products before / after
// rounding): what a block weighs in all is not rounded, only how it is shared out. Denominators are sums of the probabilities as they
// are: a key with a small value may have a large one.
//
// Contract W: integer sums are exact, so their order is free. All f32 sums are chains over the keys as the row sees them, and over
// blocks of 64. No fused multiply-add, so that all instruction sets agree in every bit. A number that is not finite makes a NaN scale,
// and what sees that slot NaN.
#pragma once
#include "kernels/isa/body_attention_pairs.h"
#include "kernels/isa/body_quads.h"

namespace slip {
namespace {

constexpr int64_t kQuadBlock = kKeyBlock / 4;
constexpr int64_t kQuadKeys = kTileVectors == 4 ? 8 : 4;  // keys of a score tile with 2 vectors of queries; with one, 8
constexpr int64_t kPlanes = DotI8::kWords;                // words in memory of a quad in the lanes, or of one of weights

struct AttendQuads {
  explicit AttendQuads(const AttendArgs& args) : a(args), walk(args) {}  // not zeroed, as Attend
  static constexpr int64_t kNumberBytes = 1, kTilesPerGroup = kKeyBlock / kQuadKeys + 2;
  const AttendArgs& a;
  Walk walk;
  int64_t queries, padded, steps;  // padded: head width in whole vectors; steps: quads of a head
  float top[kLineQueries], total[kLineQueries];
  alignas(64) float q_scale[kLineQueries];
  alignas(64) int32_t start[kLineQueries];  // -128 * sum of a query's numbers: what 128 on every key's number adds
  alignas(64) Word q_KQ[kMaxHeadWidth / 4 * kPlanes * kLineQueries];
  alignas(64) float sums[kMaxQueries * kMaxHeadWidth];
  alignas(64) Word values_QK[kQuadBlock * kPlanes * kMaxHeadWidth];
  alignas(64) float scores_SQ[kKeyBlock * kInWork];
  alignas(64) Word weights_QQ[kQuadBlock * kPlanes * kInWork];  // quad of keys, query
  alignas(64) float keep[kInWork], gain[kInWork];               // factors of the sums so far and of the block's
  float key_scale[kKeyBlock], value_scale[kKeyBlock];
  int64_t at[kKeyBlock + kLanes];
  int64_t fetch_at[kKeyBlock + kLanes];
  int64_t fetch_keys, fetched, fetch_each;
};

/// x = H x / sqrt(n) for every block of n = 2^i numbers of a head; number k is the `run` floats from x + k * run on.
inline void spread(float* x, int64_t width, int64_t run) {
  for (int64_t first = 0, n = 1; first < width; first += n) {
    for (n = 1; 2 * n <= width - first; n *= 2) {
    }
    float* block = x + first * run;
    for (int64_t h = n / 2; h > 0; h /= 2)
      for (int64_t i = 0; i < n; i += 2 * h) {
        float *low = block + i * run, *high = low + h * run;
#pragma GCC ivdep
        for (int64_t e = 0; e < h * run; e++) {
          const float p = low[e], q = high[e];
          low[e] = p + q;
          high[e] = p - q;
        }
      }
    const float norm = __builtin_sqrtf(1.0F / static_cast<float>(n));
    for (int64_t e = 0; e < n * run; e++) block[e] *= norm;
  }
}

/// Scales, and values of four neighbouring keys interleaved to words; keys stay where they are.
void gather(AttendQuads& s, const Cursor& c, int64_t lead) {
  plan_fetch(s, c, lead);
  const int64_t width = s.a.width, head = s.a.kv_head * s.a.head_stride, each = s.a.slot_stride / width;
  for (int64_t i = 0, j = 0; i < c.runs; i++) {
    const int64_t from = (c.run[i].begin * s.a.slot_stride + head) / width;
    for (int64_t e = 0; e < c.run[i].count; e++, j++) {
      s.key_scale[j] = s.a.key_scales_SG[from + e * each];
      s.value_scale[j] = s.a.value_scales_SG[from + e * each];
    }
  }
  slots_of(c, s.a.slot_stride, s.at);
  const auto* values = static_cast<const uint8_t*>(s.a.values_SGK) + head;
  for (int64_t j = 0; j < c.count; j += 4) {
    const uint8_t* four[4];  // those behind the last key weigh nothing
    for (int64_t i = 0; i < 4; i++) four[i] = values + s.at[j + i < c.count ? j + i : c.count - 1];
    Word* out = s.values_QK + j / 4 * kPlanes * s.padded;
    interleave_bytes(four[0], four[1], four[2], four[3], width, out, s.padded);
    for (int64_t i = 0; i < kPlanes; i++)
      for (int64_t k = width; k < s.padded; k++) out[i * s.padded + k] = 0;
  }
}

/// 2^x for x <= 0, or little above (or NaN), relative error below 1.02e-4; 0 below -126. As exp2_down_v, one power less.
inline Floats exp2_rough_v(Floats x) {
  const Floats magic = splat(12582912.0F);
  const Floats shifted = add_v(x, magic);
  const Floats r = sub_v(x, sub_v(shifted, magic));
  Floats p = add_v(mul_v(splat(0.0550090217F), r), splat(0.242211312F));
  p = add_v(mul_v(p, r), splat(0.693282956F));
  p = add_v(mul_v(p, r), splat(1.0F));
  return add_to_exponent_or_zero(p, shifted, x, splat(-126.0F));
}

/// What follows a tile of sums: times the keys' scales (not yet the queries'), and the largest so far.
template <int kKeys, int kVectors>
inline void store_scores(const Words (&sum)[kKeys][kVectors], const float* key_scale, float* scores, float* most) {
#pragma GCC unroll 2
  for (int v = 0; v < kVectors; v++) {
    Floats top = load(most + v * kLanes);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; j++) {
      const Floats x = mul_v(to_floats(sum[j][v]), splat(key_scale[j]));
      store(scores + j * kInWork + v * kLanes, x);
      top = max_v(top, x);
    }
    store(most + v * kLanes, top);
  }
}

/// scores[key][query] / query's scale for kKeys keys and kVectors vectors of queries.
template <int kKeys, int kVectors>
[[gnu::noinline]] void score_quads(const uint8_t* keys, const int64_t* at, const float* key_scale, const Word* q_KQ,
                                   const int32_t* start, int64_t steps, float* scores, float* most) {
  Words sum[kKeys][kVectors];
  const Word* key[kKeys];
#pragma GCC unroll 8
  for (int j = 0; j < kKeys; j++) {
    key[j] = reinterpret_cast<const Word*>(keys + at[j]);
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) sum[j][v] = load_words(start + v * kLanes);
  }
  for (int64_t s = 0; s < steps; s++) {
    decltype(lanes_at(q_KQ, 0)) q[kVectors];
#pragma GCC unroll 2
    for (int v = 0; v < kVectors; v++) q[v] = lanes_at(q_KQ + s * kPlanes * kLineQueries + v * kLanes, kLineQueries);
#pragma GCC unroll 8
    for (int j = 0; j < kKeys; j++) {
      const auto k = quad_at(key[j] + s);
#pragma GCC unroll 2
      for (int v = 0; v < kVectors; v++) add_quad(sum[j][v], k, q[v]);
    }
  }
  store_scores<kKeys, kVectors>(sum, key_scale, scores, most);
}

/// As score_run: 16 keys that lie `stride` words apart and one vector of queries.
[[gnu::noinline]] void score_quads_run(const Word* first, int64_t stride, const float* key_scale, const Word* q_KQ,
                                       const int32_t* start, int64_t steps, float* scores, float* most) {
  constexpr int kKeys = 16;
  Words sum[kKeys][1];
  const Word* key[kKeys / 3 + 1];
#pragma GCC unroll 6
  for (int i = 0; i <= kKeys / 3; i++) key[i] = first + 3 * i * stride;
#pragma GCC unroll 16
  for (int j = 0; j < kKeys; j++) sum[j][0] = load_words(start);
  for (int64_t s = 0; s < steps; s++) {
    const auto q = lanes_at(q_KQ + s * kPlanes * kLineQueries, kLineQueries);
#pragma GCC unroll 16
    for (int j = 0; j < kKeys; j++) add_quad(sum[j][0], quad_at(key[j / 3] + j % 3 * stride + s), q);
  }
  store_scores<kKeys, 1>(sum, key_scale, scores, most);
}

using ScoreQuads = void (*)(const uint8_t*, const int64_t*, const float*, const Word*, const int32_t*, int64_t, float*, float*);

template <int kVectors, int kMost = kVectors == 1 ? 8 : kQuadKeys>
ScoreQuads score_quads_of(int64_t keys) {
  if constexpr (kMost > 1)
    if (keys < kMost) return score_quads_of<kVectors, kMost - 1>(keys);
  return score_quads<kMost, kVectors>;
}

/// Scores of the one vector or two of queries from query i on with all keys of the block.
void score_all(AttendQuads& s, int64_t i, bool narrow, int64_t count, float* most) {
  const auto* keys = static_cast<const uint8_t*>(s.a.keys_SGK) + s.a.kv_head * s.a.head_stride;
  const int64_t stride = s.a.slot_stride;
  const Word* q_KQ = s.q_KQ + i;
  int64_t j = 0;
  for (; narrow && kTileVectors == 4 && j + 16 <= count; j += 16) {
    bool run = true;
    for (int64_t e = 1; e < 16; e++) run &= s.at[j + e] - s.at[j + e - 1] == stride;
    if (!run) break;
    fetch_ahead(s);
    fetch_ahead(s);
    score_quads_run(reinterpret_cast<const Word*>(keys + s.at[j]), stride / 4, s.key_scale + j, q_KQ, s.start + i, s.steps,
                    s.scores_SQ + j * kInWork, most);
  }
  const int64_t each = narrow ? 8 : kQuadKeys;
  for (; j < count; j += each) {
    const int64_t m = count - j < each ? count - j : each;
    fetch_ahead(s);
    (narrow ? score_quads_of<1>(m) : score_quads_of<2>(m))(keys, s.at + j, s.key_scale + j, q_KQ, s.start + i, s.steps,
                                                           s.scores_SQ + j * kInWork, most);
  }
}

/// Products of a block in the lanes of one vector: their sum before rounding, and the largest.
struct Shares {
  Floats sum, largest;
};

/// Scores of a vector of queries become probabilities relative to `top`, times their values' scales; `total` gets the probabilities.
inline Shares share_out(const AttendQuads& s, float* scores, int64_t count, Floats q_scale, Floats top, Floats& total) {
  Shares out = {zeros(), zeros()};
  for (int64_t j = 0; j < count; j++) {
    const Floats p = exp2_rough_v(sub_v(mul_v(load(scores + j * kInWork), q_scale), top));
    const Floats u = mul_v(p, splat(s.value_scale[j]));
    total = add_v(total, p);
    out.sum = add_v(out.sum, u);
    out.largest = max_v(out.largest, u);
    store(scores + j * kInWork, u);
  }
  for (int64_t j = count; j % 4 != 0; j++) store(scores + j * kInWork, zeros());
  return out;
}

/// The products as bytes, rounded to nearest even; returns the sum of them.
inline Floats to_weights(const float* scores, int64_t count, Floats inverse, Word* out) {
  const Floats magic = splat(12582912.0F);  // 1.5 * 2^23: the last byte is the rounded number
  Floats whole = zeros();
  for (int64_t j = 0; j < count; j += 4, scores += 4 * kInWork, out += kPlanes * kInWork) {
    Floats x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      x[i] = add_v(mul_v(load(scores + i * kInWork), inverse), magic);
      whole = add_v(whole, sub_v(x[i], magic));  // exact, so in any order
    }
    store_quads(x[0], x[1], x[2], x[3], out, kInWork);
  }
  return whole;
}

/// Scores of kVectors vectors of queries become weights; s.keep, s.gain, `top` and `total` are brought up to date. `most`: the block's
/// largest scores.
template <int kVectors>
void soften(AttendQuads& s, int64_t i, int64_t count, const float* most, float* top_after, float* total_after) {
  constexpr float kLeast = 0x1p-100F;  // whose inverse is finite; a block that weighs less weighs nothing
  for (int v = 0; v < kVectors; v++) {
    const int64_t q = i + v * kLanes, lane = v * kLanes;
    const Floats scale = load(s.q_scale + q), before = load(s.top + q);
    const Floats top = max_v(before, mul_v(load(most + lane), scale)), kept = exp2_rough_v(sub_v(before, top));
    Floats total = mul_v(load(s.total + q), kept);
    const Shares shares = share_out(s, s.scores_SQ + lane, count, scale, top, total);
    alignas(64) float inverse[kLanes], before_rounding[kLanes], whole[kLanes];
    store(inverse, shares.largest);
    for (int l = 0; l < kLanes; l++) inverse[l] = 255.0F / (inverse[l] > kLeast ? inverse[l] : kLeast);
    store(whole, to_weights(s.scores_SQ + lane, count, load(inverse), s.weights_QQ + lane));
    store(before_rounding, shares.sum);
    for (int l = 0; l < kLanes; l++) s.gain[lane + l] = before_rounding[l] / (whole[l] > 1.0F ? whole[l] : 1.0F);
    store(s.keep + lane, kept);
    store(top_after + lane, top);
    store(total_after + lane, total);
  }
}

/// sums[query][number] = keep * sums[query][number] + gain * (weights[quad][query] . values[quad][number]).
template <int kRows, int kVectors>
[[gnu::noinline]] void weigh_quads(float* sums, int64_t lds, const float* keep, const float* gain, const Word* weights,
                                   const Word* values, int64_t ldv, int64_t quads) {
  Words a[kRows][kVectors];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) a[r][v] = no_words();
  for (int64_t j = 0; j < quads; j++) {
    decltype(lanes_at(values, 0)) b[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) b[v] = lanes_at(values + j * kPlanes * ldv + v * kLanes, ldv);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; r++) {
      const auto w = stored_quad_at(weights + j * kPlanes * kInWork + r, kInWork);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; v++) add_quad(a[r][v], w, b[v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; r++)
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; v++) {
      float* at = sums + r * lds + v * kLanes;
      store(at, add_v(mul_v(load(at), splat(keep[r])), mul_v(to_floats(a[r][v]), splat(gain[r]))));
    }
}

using WeighQuads = void (*)(float*, int64_t, const float*, const float*, const Word*, const Word*, int64_t, int64_t);

template <int kVectors, int kMost>
WeighQuads weigh_quads_of(int64_t rows) {
  if constexpr (kMost > 1)
    if (rows < kMost) return weigh_quads_of<kVectors, kMost - 1>(rows);
  return weigh_quads<kMost, kVectors>;
}

/// Weighted values of n <= kInWork queries, times s.gain, added to s.keep times what they have so far.
void weigh(AttendQuads& s, float* sums, int64_t n, int64_t quads) {
  constexpr int64_t kWide = kTileVectors == 4 ? 2 : 1;  // vectors at which 8 queries fill the registers
  const int64_t vectors = s.padded / kLanes;
  for (int64_t v = 0; v < vectors;) {
    const int64_t left = vectors - v, m = left >= kTileVectors && left != kTileVectors + 1 ? kTileVectors : left < 2 ? 1 : 2;
    const int64_t rows_each = m <= kWide ? 8 : 4;
    for (int64_t r = 0; r < n; r += rows_each) {
      const int64_t rows = n - r < rows_each ? n - r : rows_each;
      fetch_ahead(s);
      const WeighQuads f = m == 1   ? weigh_quads_of<1, 8>(rows)
                           : m == 2 ? weigh_quads_of<2, (kWide == 2 ? 8 : 4)>(rows)
                                    : weigh_quads_of<kTileVectors, 4>(rows);
      f(sums + r * s.padded + v * kLanes, s.padded, s.keep + r, s.gain + r, s.weights_QQ + r, s.values_QK + v * kLanes, s.padded,
        quads);
    }
    v += m;
  }
}

/// Queries [begin, end) that all see `count` keys of the block. What stands in the lanes behind `end` is computed and dropped.
void add_queries(AttendQuads& s, int64_t begin, int64_t end, int64_t count) {
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
    __builtin_memcpy(s.top + i, top, static_cast<size_t>(n) * sizeof(float));
    __builtin_memcpy(s.total + i, total, static_cast<size_t>(n) * sizeof(float));
    weigh(s, s.sums + i * s.padded, n, (count + 3) / 4);
  }
}

/// Number of the scale, 127 / largest, and the scale; both 0 for what is all but zero, NaN beside a number that is not finite.
inline void query_scales(const float* largest, const float* bad, float* inverse, float* scale) {
  for (int l = 0; l < kLanes; l++) {
    const bool usable = largest[l] > 7.9e-31F;  // as PackInt
    inverse[l] = usable ? 127.0F / largest[l] : 0.0F;
    scale[l] = (usable ? largest[l] / 127.0F : 0.0F) + bad[l];
  }
}

/// kLanes spread queries, in the lanes of x_KL, to words from `words` on.
void quantise_queries(const float* x_KL, int64_t width, Word* words, float* q_scale, int32_t* start) {
  static constexpr Word kSigns = 0x80808080u;
  const Floats magic = splat(12583040.0F);  // 1.5 * 2^23 + 128
  Floats largest = zeros(), bad = zeros(), sum = zeros();
  for (int64_t k = 0; k < width; k++) {
    const Floats x = load(x_KL + k * kLanes);
    largest = max_v(max_v(x, sub_v(zeros(), x)), largest);
    bad = add_v(bad, sub_v(x, x));
  }
  alignas(64) float a[kLanes], b[kLanes], inverse[kLanes], sums[kLanes];
  store(a, largest);
  store(b, bad);
  query_scales(a, b, inverse, q_scale);
  for (int64_t k = 0; k < width; k += 4) {
    Floats x[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      x[i] = add_v(max_v(mul_v(load(x_KL + (k + i) * kLanes), load(inverse)), splat(-127.0F)), magic);  // NaN becomes -127
      sum = add_v(sum, sub_v(x[i], magic));
    }
    store_lanes(bytes_of(x[0], x[1], x[2], x[3]) ^ splat_word(&kSigns), words + k / 4 * kPlanes * kLineQueries, kLineQueries);
  }
  store(sums, sum);
  for (int l = 0; l < kLanes; l++) start[l] = -128 * static_cast<int32_t>(sums[l]);
}

/// Queries times scale / ln 2, spread, in words, transposed; lanes behind the last query repeat one or see nothing.
void take_queries(AttendQuads& s) {
  const AttendArgs& a = s.a;
  alignas(64) float x_KL[kMaxHeadWidth * kLanes], factor[kLanes];
  const float* rows[kLanes];
  for (int64_t i = 0; i < kLineQueries; i++) s.q_scale[i] = 0, s.start[i] = 0;
  for (int64_t first = 0; first < s.queries; first += kLanes) {
    const int64_t n = s.queries - first < kLanes ? s.queries - first : kLanes;
    for (int64_t i = 0; i < kLanes; i++) {
      const int64_t t = (first + (i < n ? i : 0)) / a.head_count, h = (first + (i < n ? i : 0)) % a.head_count;
      const float scale = a.scale * 1.44269504F;
      rows[i] = query_of(a, t, h);
      factor[i] = a.q_scale_T ? a.q_scale_T[a.row_begin + t] * scale : scale;
    }
    int64_t k = 0;
    for (; k + kLanes <= a.width; k += kLanes) transpose_square(rows, k, x_KL + k * kLanes, kLanes);
    for (; k < a.width; k++)
      for (int64_t i = 0; i < kLanes; i++) x_KL[k * kLanes + i] = rows[i][k];
    for (k = 0; k < a.width; k++) store(x_KL + k * kLanes, mul_v(load(x_KL + k * kLanes), load(factor)));
    spread(x_KL, a.width, kLanes);
    quantise_queries(x_KL, a.width, s.q_KQ + first, s.q_scale + first, s.start + first);
  }
  const int64_t filled = (s.queries + kLanes - 1) / kLanes * kLanes;
  for (int64_t k = 0; k < s.steps * kPlanes; k++) {
    store_words(s.q_KQ + k * kLineQueries + filled, no_words());
    store_words(s.q_KQ + k * kLineQueries + filled + kLanes, no_words());
  }
}

/// A key (spread, as byte + 128) or a value (signed bytes), and its scale.
void to_bytes(const float* x, int64_t n, bool key, uint8_t* out, float* scale) {
  alignas(64) float spread_K[kMaxHeadWidth];
  __builtin_memcpy(spread_K, x, static_cast<size_t>(n) * sizeof(float));
  if (key) spread(spread_K, n, 1);
  const float inverse = PackInt::prepare(Plain{spread_K}, n, scale);
  const uint32_t flip = key ? 0 : 0x80;
  for (int64_t i = 0; i < n; i++) {
    const float shifted = spread_K[i] * inverse + 12583040.0F;
    out[i] = static_cast<uint8_t>(to_bits(shifted) ^ flip);
  }
}

void attend_quads(const AttendArgs& a) {
  AttendQuads s(a);
  s.queries = s.walk.rows * a.head_count;
  s.padded = (a.width + kLanes - 1) / kLanes * kLanes;
  s.steps = a.width / 4;
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
