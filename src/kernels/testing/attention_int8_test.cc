// SPDX-License-Identifier: Apache-2.0
// Int8 keys and values: what is stored, what attention over it may be wrong by, and that channels a hundred times as large as the
// others, and numbers that are none, do the harm that is promised and no other.
#include <algorithm>

#include "kernels/testing/attention_testing.h"

namespace slip {
namespace {

/// x by the orthonormal Walsh-Hadamard transform of its largest power of two, then of the rest, by the definition: sign of bits shared.
std::vector<double> spread_ref(std::span<const float> x) {
  std::vector<double> out(x.size(), 0.0);
  for (size_t first = 0, n = 1; first < x.size(); first += n) {
    for (n = 1; 2 * n <= x.size() - first;) n *= 2;
    for (size_t i = 0; i < n; i++)
      for (size_t j = 0; j < n; j++) out[first + i] += (__builtin_popcountll(i & j) % 2 ? -1.0 : 1.0) * x[first + j];
    for (size_t i = 0; i < n; i++) out[first + i] /= std::sqrt(static_cast<double>(n));
  }
  return out;
}

/// A head's key (spread) or value as it is stored.
struct Stored {
  std::vector<float> numbers;  // integers
  float scale = 0;
  Stored(std::span<const float> x, bool key) {
    std::vector<uint8_t> bytes(x.size());
    to_kv_i8(x.data(), static_cast<int64_t>(x.size()), key, bytes.data(), &scale);
    for (const uint8_t b : bytes) numbers.push_back(key ? b - 128.0F : static_cast<float>(static_cast<int8_t>(b)));
  }
};

/// Of number k over the block of keys [first, end), before it is divided by the sum of the probabilities; derived below.
double error_of_shares(const std::vector<double>& p, const std::vector<Stored>& value, size_t k, size_t first, size_t end) {
  double sum_u = 0, most_u = 0, sum_uv = 0, distance = 0;
  for (size_t s = first; s < end; s++) {
    const double u = p[s] * value[s].scale;
    sum_u += u;
    most_u = std::max(most_u, u);
    sum_uv += u * value[s].numbers[k];
  }
  if (sum_u == 0) return 0;
  for (size_t s = first; s < end; s++) distance += std::fabs(value[s].numbers[k] - sum_uv / sum_u);
  const double half = most_u / 255 * (0.5 + 0x1p-15);
  return half / (1 - 64 * half / sum_u) * distance;
}

/// One query over int8 keys, in double from the integers that are really multiplied (a query is quantised as a key), with the bound of
/// a right f32 version.
///
/// Probabilities: p (1 + d), |d| at most the sum of: two f32 products per score and its difference to the top, 2^x (1.02e-4, also in
/// every rescaling of an earlier block), as for bf16 keys; numerator and denominator share them.
/// Shares: with u = p * value's scale, a block's bytes are w = u / s + e, s = largest u / 255, |e| <= 1/2 (and 2^-15 for u / s being
/// rounded), and what is multiplied is w (sum u / sum w). That differs from u by s (e - (u / sum u) sum e) / (1 + s sum e / sum u), so
/// a value's sum by at most s / 2 / (1 - 64 s / 2 / sum u) * sum over the block of |v - v's mean with weights u|, v the integers.
/// Then f32 sums, as for bf16 keys, over blocks of what are exact integers.
std::vector<Bounded> attention_quads_ref(std::span<const float> q_K, float factor, const std::vector<const float*>& keys,
                                         const std::vector<const float*>& values) {
  const size_t width = q_K.size(), seen = keys.size();
  std::vector<Bounded> out(width);
  if (seen == 0) return out;
  std::vector<float> scaled(q_K.begin(), q_K.end());
  for (float& x : scaled) x *= factor;
  const Stored q(scaled, true);
  std::vector<double> p(seen);
  std::vector<Stored> value;
  double top = -INFINITY, score_error = 0, total = 0, apart = 0;
  for (size_t s = 0; s < seen; s++) {
    const Stored key({keys[s], width}, true);
    double sum = 0;
    for (size_t k = 0; k < width; k++) sum += double{key.numbers[k]} * q.numbers[k];
    p[s] = sum * key.scale * q.scale;
    top = std::max(top, p[s]);
    score_error = std::max(score_error, gamma(2) * std::fabs(p[s]));
    value.emplace_back(std::span(values[s], width), false);
  }
  for (double& x : p) {
    apart = std::max(apart, top - x);
    x = std::exp2(x - top);
    total += x;
  }
  const double n = static_cast<double>(seen), blocks = std::ceil(n / 64), exp_error = 1.02e-4;
  const double weight = std::expm1(std::log(2.0) * (2 * score_error + (1 + blocks) * kRoundoff * apart)) + (1 + blocks) * exp_error;
  for (size_t k = 0; k < width; k++) {
    double mean = 0, size = 0, spread = 0, largest = 0;
    const auto number = [&](size_t s) { return double{value[s].scale} * value[s].numbers[k]; };
    for (size_t s = 0; s < seen; s++) {
      mean += p[s] / total * number(s);
      size += p[s] / total * std::fabs(number(s));
      largest = std::max(largest, std::fabs(number(s)));
    }
    for (size_t s = 0; s < seen; s++) spread += p[s] / total * std::fabs(number(s) - mean);
    double shares = 0;
    for (size_t first = 0; first < seen; first += 64) shares += error_of_shares(p, value, k, first, std::min(seen, first + 64));
    const double sums = 2 * gamma(2 * n + 4 * blocks + 16);
    out[k] = {mean, (weight * spread + (1 + weight) * shares / total) / (1 - weight) + sums * (size + shares / total) +
                        0x1p-98 * n * (1 + largest)};  // flushed: probabilities below 2^-126, blocks below 2^-100
  }
  return out;
}

std::vector<const float*> of_head(const Problem& p, const std::vector<float>& x, int64_t row, int64_t head) {
  std::vector<const float*> out;
  for (const SlotSpan s : p.sees[row])
    for (int32_t i = s.begin; i < s.end; i++) out.push_back(&x[(i * p.shape.kv_heads + head) * p.shape.width]);
  return out;
}

TEST(Int8Keys, AreTheSpreadKeyToHalfAStep) {
  on_every_isa([&](Isa) {
    for (const int64_t width : {4, 12, 40, 64, 80, 128, 256}) {
      std::vector<float> x = numbers(width, static_cast<uint32_t>(width));
      const auto want = spread_ref(x);
      double norm = 0, largest = 0;
      for (const float v : x) norm += double{v} * v;
      const double rounding = gamma(10) * std::sqrt(norm * static_cast<double>(width));  // 8 stages, the norm's root and product
      for (const double v : want) largest = std::max(largest, std::fabs(v));
      const Stored key(x, true), value(x, false);
      EXPECT_NEAR(key.scale, largest / 127, rounding);
      const float most =
          std::fabs(*std::max_element(x.begin(), x.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); }));
      EXPECT_FLOAT_EQ(value.scale, most / 127);
      for (int64_t k = 0; k < width; k++) {
        EXPECT_NEAR(key.scale * key.numbers[k], want[k], key.scale * 0.5 + 2 * rounding);
        EXPECT_NEAR(value.scale * value.numbers[k], x[k], value.scale * (0.5 + 0x1p-14));
        EXPECT_LE(std::fabs(key.numbers[k]), 127.0F);
      }
    }
  });
}

TEST(Int8Keys, StayWithinTheDerivedBound) {
  ThreadPool pool(2);
  on_every_isa([&](Isa) {
    for (const Shape shape : shapes(KvType::kI8)) {
      Problem p(shape, KvType::kI8, 150, mixed_lists(150, 12, 41), 42);
      p.q_scale = plain_numbers(p.rows(), 43);
      const auto out = p.run(pool);
      for (int64_t t = 0; t < p.rows(); t++)
        for (int64_t h = 0; h < shape.heads; h++) {
          const int64_t g = h * shape.kv_heads / shape.heads, at = t * p.row_numbers() + h * shape.width;
          const auto want =
              attention_quads_ref({&p.q[at], static_cast<size_t>(shape.width)}, p.q_scale[t] * (p.scale() * 1.44269504F),
                                  of_head(p, p.keys, t, g), of_head(p, p.values, t, g));
          for (int64_t k = 0; k < shape.width; k++)
            ASSERT_TRUE(within(out[at + k], want[k])) << "width " << shape.width << " row " << t << " head " << h;
        }
    }
  });
}

TEST(Int8Keys, HaveABoundThatNoticesQuadsOfTheWrongKeys) {
  ThreadPool pool(1);
  Problem p({1, 1, 32}, KvType::kI8, 64, {{{0, 64}}}, 44);
  p.values = plain_numbers(64 * 32, 45);
  const Problem right = p;
  for (int64_t k = 0; k < 32; k++) std::swap(p.values[10 * 32 + k], p.values[11 * 32 + k]);
  const auto out = p.run(pool);
  const auto want = attention_quads_ref(right.q, right.scale() * 1.44269504F, of_head(right, right.keys, 0, 0),
                                        of_head(right, right.values, 0, 0));
  int wrong = 0;
  for (int64_t k = 0; k < 32; k++) wrong += !within(out[k], want[k]);
  EXPECT_GT(wrong, 8);
}

TEST(Int8Keys, GiveTheSameBitsOnEveryInstructionSet) {
  ThreadPool pool(2);
  for (const Shape shape : shapes(KvType::kI8)) {
    std::vector<float> first;
    Problem p(shape, KvType::kI8, 300, causal(40, 200), 46);
    for (const SpanList& list : mixed_lists(300, 12, 47)) p.sees.push_back(list);
    p.q = plain_numbers(p.rows() * p.row_numbers(), 48);
    on_every_isa([&](Isa) {
      const auto out = p.run(pool);
      if (first.empty()) first = out;
      ASSERT_TRUE(same_bits(out, first)) << "width " << shape.width;
    });
  }
}

/// Root mean square of the error against attention in f32, over that of the values' own deviation from their mean.
double error_of(KvType type, const Problem& f32, ThreadPool& pool) {
  Problem p = f32;
  p.type = type;
  if (type == KvType::kBF16)
    for (std::vector<float>* x : {&p.keys, &p.values})
      for (float& v : *x) v = to_float(to_bf16(v));
  const auto right = f32.run(pool), got = p.run(pool);
  double error = 0, size = 0;
  for (size_t i = 0; i < right.size(); i++) {
    error += double{right[i] - got[i]} * (right[i] - got[i]);
    size += double{right[i]} * right[i];
  }
  return std::sqrt(error / size);
}

// Keys as Qwen2.5's: a few channels that all keys share, a hundred times as large as what tells keys apart. Without spreading, the step
// would be as large as the others' deviation (100 / 127).
TEST(Int8Keys, ManageChannelsAHundredTimesAsLarge) {
  ThreadPool pool(2);
  const Shape shape{8, 1, 128};
  Problem p(shape, KvType::kF32, 600, {{{0, 600}}, {{0, 100}, {300, 500}}}, 49);
  p.q = plain_numbers(2 * 8 * 128, 50, 2);
  p.values = plain_numbers(600 * 128, 51);
  const double plain = error_of(KvType::kI8, p, pool);
  for (int64_t s = 0; s < 600; s++)
    for (const int64_t k : {61, 62, 125, 126}) p.keys[s * 128 + k] += k % 2 ? 100.0F : -70.0F;
  const double outliers = error_of(KvType::kI8, p, pool), pairs = error_of(KvType::kBF16, p, pool);
  RecordProperty("int8", std::to_string(plain) + " " + std::to_string(outliers) + ", bf16 " + std::to_string(pairs));
  EXPECT_LT(plain, 0.03);
  EXPECT_LT(outliers, 0.15);
}

TEST(Int8Keys, MakeNaNOfWhatIsNoNumberForThoseThatSeeItOnly) {
  ThreadPool pool(1);
  for (const float bad : {NAN, INFINITY, -INFINITY})
    for (const bool key : {true, false})
      on_every_isa([&](Isa) {
        Problem p({2, 2, 24}, KvType::kI8, 200, {{{0, 100}}, {{0, 150}}, {{120, 140}}}, 52);
        const auto clean = p.run(pool);
        (key ? p.keys : p.values)[(130 * 2 + 1) * 24 + 5] = bad;  // head 1 of slot 130
        const auto out = p.run(pool);
        ASSERT_TRUE(same_bits({out.data(), 48}, {clean.data(), 48}));
        for (int64_t t = 1; t < 3; t++) {
          ASSERT_TRUE(same_bits({&out[t * 48], 24}, {&clean[t * 48], 24})) << "the other head";
          for (int64_t k = 24; k < 48; k++) ASSERT_TRUE(std::isnan(out[t * 48 + k]));
        }
      });
}

TEST(Int8Keys, CountKeysWhoseValuesAreZero) {
  ThreadPool pool(1);
  on_every_isa([&](Isa) {
    Problem p({1, 1, 16}, KvType::kI8, 128, {{{0, 64}}, {{0, 128}}}, 53);
    std::fill(p.q.begin(), p.q.end(), 0.0F);  // every key weighs the same
    std::fill(p.values.begin(), p.values.end(), 0.0F);
    for (const float x : p.run(pool)) ASSERT_EQ(x, 0.0F);
    for (int64_t k = 0; k < 16; k++) p.values[5 * 16 + k] = 1;
    const auto out = p.run(pool);
    for (int64_t k = 0; k < 32; k++) ASSERT_NEAR(out[k], k < 16 ? 1.0 / 64 : 1.0 / 128, 1e-6);
  });
}

}  // namespace
}  // namespace slip
