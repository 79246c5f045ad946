// SPDX-License-Identifier: Apache-2.0
// Span attention over int8 keys and values, with int8 dot products: body/attention_pairs.h with quads of bytes in place of pairs of bf16.
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
#include "kernels/body/attention_lanes.h"
#include "kernels/body/quads.h"

namespace slip {
namespace {

struct Quads {
  using Number = uint8_t;
  static constexpr int64_t kNumbers = 4, kWideKeys = kTileVectors == 4 ? 8 : 4, kPlanes = DotI8::kWords, kHalves = 1;
  template <int>
  static inline auto key_at(const Word* p) {
    return quad_at(p);
  }
  template <int>
  static inline auto weight_at(const Word* p) {
    return stored_quad_at(p, kInWork);
  }
  template <int>
  static inline auto lanes_at(const Word* p, int64_t plane) {
    return slip::lanes_at(p, plane);
  }
  template <class Quad, class Lanes>
  static inline void add(Words& sum, Quad x, Lanes w) {
    add_quad(sum, x, w);
  }

  /// Scores are times the keys' scales, not yet the queries'.
  struct Scores {
    const float* scale;
    const int32_t* starts;
    inline Words start(int64_t v) const { return load_words(starts + v * kLanes); }
    inline Floats score(Words sum, int64_t j) const { return mul_v(to_floats(sum), splat(scale[j])); }
  };
  /// sums * keep + (the block's integer sum) * gain.
  struct Sums {
    const float *keep, *gain;
    inline Words start(int64_t, const float*) const { return no_words(); }
    inline void store_sum(int64_t r, Words sum, float* sums) const {
      store(sums, add_v(mul_v(load(sums), splat(keep[r])), mul_v(to_floats(sum), splat(gain[r]))));
    }
  };
};

struct AttendQuads : LanesState<Quads> {
  using LanesState::LanesState;
  alignas(64) float q_scale[kLineQueries];
  alignas(64) int32_t start[kLineQueries];  // -128 * sum of a query's numbers: what 128 on every key's number adds
  alignas(64) float gain[kInWork];          // factors of the block's sums
  float key_scale[kKeyBlock], value_scale[kKeyBlock];
};
inline Quads::Scores scores_of(const AttendQuads& s, int64_t j, int64_t i) { return {s.key_scale + j, s.start + i}; }
inline Quads::Sums sums_of(const AttendQuads& s, int64_t r) { return {s.keep + r, s.gain + r}; }

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
    Word* out = s.values_NK + j / 4 * Quads::kPlanes * s.padded;
    interleave_bytes(four[0], four[1], four[2], four[3], width, out, s.padded);
    for (int64_t i = 0; i < Quads::kPlanes; i++)
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
  for (int64_t j = 0; j < count; j += 4, scores += 4 * kInWork, out += Quads::kPlanes * kInWork) {
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
    store(whole, to_weights(s.scores_SQ + lane, count, load(inverse), s.weights_NQ + lane));
    store(before_rounding, shares.sum);
    for (int l = 0; l < kLanes; l++) s.gain[lane + l] = before_rounding[l] / (whole[l] > 1.0F ? whole[l] : 1.0F);
    store(s.keep + lane, kept);
    store(top_after + lane, top);
    store(total_after + lane, total);
  }
}

void add_values(AttendQuads& s, float* sums, int64_t n, int64_t count) {
  weigh(s, sums, n, s.weights_NQ, s.values_NK, (count + 3) / 4);
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
    store_lanes(bytes_of(x[0], x[1], x[2], x[3]) ^ splat_word(&kSigns), words + k / 4 * Quads::kPlanes * kLineQueries,
                kLineQueries);
  }
  store(sums, sum);
  for (int l = 0; l < kLanes; l++) start[l] = -128 * static_cast<int32_t>(sums[l]);
}

/// Queries times scale / ln 2, spread, in words, transposed; lanes behind the last query repeat one or see nothing.
void take_queries(AttendQuads& s) {
  const int64_t width = s.a.width;
  alignas(64) float x_KL[kMaxHeadWidth * kLanes], factor[kLanes];
  const float* rows[kLanes];
  for (int64_t i = 0; i < kLineQueries; i++) s.q_scale[i] = 0, s.start[i] = 0;
  for (int64_t first = 0; first < s.queries; first += kLanes) {
    for (int64_t i = 0; i < kLanes; i++) {
      const int64_t number = first + i < s.queries ? first + i : first;
      const Query q = query_of(s.a, number / s.a.head_count, number % s.a.head_count);
      rows[i] = q.x;
      factor[i] = q.scale * (s.a.scale * 1.44269504F);
    }
    transpose(rows, width, x_KL, kLanes);
    for (int64_t k = 0; k < width; k++) store(x_KL + k * kLanes, mul_v(load(x_KL + k * kLanes), load(factor)));
    spread(x_KL, width, kLanes);
    quantise_queries(x_KL, width, s.q_KQ + first, s.q_scale + first, s.start + first);
  }
  clear_behind(s);
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

}  // namespace
}  // namespace slip
