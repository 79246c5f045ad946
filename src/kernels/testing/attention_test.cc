// SPDX-License-Identifier: Apache-2.0
// Span attention: over f32 and bf16 keys right within the derived bounds on all head shapes, and over all types of keys a row's bits
// depend on the ordered keys it sees alone. attention_int8_test.cc has the bounds of int8 keys.
#include <pthread.h>

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/testing/attention_testing.h"

namespace slip {
namespace {

/// One query over bf16 keys, in double from the numbers that are really multiplied, with the bound of a right f32 version.
///
/// Weights: p~ = p (1 + d), |d| at most the sum of: the score's error and its difference to the top (bases 2), 2^x (3.5e-6, also in
/// every rescaling of an earlier block), the rounding of probabilities to bf16 (2^-8). The same p~ are added up and multiplied, so
/// sum p~ v / sum p~ - sum p v / sum p = sum p d (v - mean) / sum p (1 + d): at most d / (1 - d) times the mean of |v - mean|.
/// Then f32 sums of both: a product and an addition per key, a multiplication per block, and the quotient.
std::vector<Bounded> attention_pairs_ref(std::span<const float> q_K, float factor, const std::vector<const float*>& keys,
                                         const std::vector<const float*>& values) {
  const size_t width = q_K.size(), seen = keys.size();
  std::vector<Bounded> out(width);
  if (seen == 0) return out;
  std::vector<float> q(q_K.begin(), q_K.end());
  for (float& x : q) x = to_float(to_bf16(x * factor));
  std::vector<double> p(seen);
  double top = -INFINITY, score_error = 0, total = 0, spread = 0;
  for (size_t s = 0; s < seen; s++) {
    const auto [value, bound] = dot_ref(q, {keys[s], width});
    p[s] = value;
    top = std::max(top, value);
    score_error = std::max(score_error, bound);
  }
  for (double& x : p) {
    spread = std::max(spread, top - x);
    x = std::exp2(x - top);
    total += x;
  }
  const double blocks = std::ceil(static_cast<double>(seen) / 64), exp_error = 3.5e-6;
  const double weight = std::expm1(std::log(2.0) * (2 * score_error + (1 + blocks) * kRoundoff * spread)) +
                        (1 + blocks) * exp_error + 0x1p-8 * (1 + exp_error);
  const double sums = 2 * gamma(2 * static_cast<double>(seen) + 2 * blocks + 8);
  for (size_t k = 0; k < width; k++) {
    double mean = 0, size = 0, apart = 0, largest = 0;
    for (size_t s = 0; s < seen; s++) {
      mean += p[s] / total * values[s][k];
      size += p[s] / total * std::fabs(values[s][k]);
      largest = std::max(largest, double{std::fabs(values[s][k])});
    }
    for (size_t s = 0; s < seen; s++) apart += p[s] / total * std::fabs(values[s][k] - mean);
    // What is flushed: probabilities below 2^-126, and subnormal products.
    out[k] = {mean, weight / (1 - weight) * apart + sums * size + 0x1p-125 * static_cast<double>(seen) * (1 + largest)};
  }
  return out;
}

TEST(Attention, StaysWithinTheDerivedBound) {
  ThreadPool pool(2);
  on_every_isa_and_type([&](KvType type) {
    if (type == KvType::kI8) return;
    for (const Shape shape : shapes(type)) {
      Problem p(shape, type, 150, mixed_lists(150, 12, 21), 22);
      p.q_scale = plain_numbers(p.rows(), 23);
      const auto out = p.run(pool);
      for (int64_t t = 0; t < p.rows(); t++)
        for (int64_t h = 0; h < shape.heads; h++) {
          const int64_t g = h * shape.kv_heads / shape.heads, at = t * p.row_numbers() + h * shape.width;
          std::vector<const float*> keys, values;
          for (const SlotSpan s : p.sees[t])
            for (int32_t i = s.begin; i < s.end; i++) {
              keys.push_back(&p.keys[(i * shape.kv_heads + g) * shape.width]);
              values.push_back(&p.values[(i * shape.kv_heads + g) * shape.width]);
            }
          std::vector<float> q(&p.q[at], &p.q[at] + shape.width);
          if (type == KvType::kF32)
            for (float& x : q) x *= p.q_scale[t];
          const auto want = type == KvType::kF32 ? attention_ref(q, keys, values, p.scale())
                                                 : attention_pairs_ref(q, p.q_scale[t] * (p.scale() * 1.44269504F), keys, values);
          for (int64_t k = 0; k < shape.width; k++)
            ASSERT_TRUE(within(out[at + k], want[k]))
                << "width " << shape.width << " row " << t << " head " << h << " seen " << keys.size();
        }
    }
  });
}

// 2,000 keys whose weights are of one size, where errors add up most; and the bound is worth something: 1 % of the values' size.
TEST(Attention, OfTwoThousandBF16KeysIsGoodToOnePercent) {
  ThreadPool pool(2);
  on_every_isa([&](Isa) {
    const Shape shape{2, 1, 128};
    Problem p(shape, KvType::kBF16, 2000, {{{0, 2000}}}, 33);
    for (float& x : p.q) x *= 0.3F;
    p.values = plain_numbers(2000 * 128, 34);
    for (float& x : p.values) x = to_float(to_bf16(x));
    const auto out = p.run(pool);
    std::vector<const float*> keys, values;
    for (int64_t i = 0; i < 2000; i++) keys.push_back(&p.keys[i * 128]), values.push_back(&p.values[i * 128]);
    for (int64_t h = 0; h < 2; h++) {
      const auto want = attention_pairs_ref({&p.q[h * 128], 128}, p.scale() * 1.44269504F, keys, values);
      for (int64_t k = 0; k < 128; k++) {
        ASSERT_TRUE(within(out[h * 128 + k], want[k]));
        ASSERT_LT(want[k].bound, 0.01);
      }
    }
  });
}

TEST(Attention, TheBF16BoundNoticesPairsOfTheWrongKeys) {
  ThreadPool pool(1);
  Problem p({1, 1, 32}, KvType::kBF16, 64, {{{0, 64}}}, 35);
  const Problem right = p;
  for (int64_t k = 0; k < 32; k++) std::swap(p.values[10 * 32 + k], p.values[11 * 32 + k]);
  const auto out = p.run(pool);
  std::vector<const float*> keys, values;
  for (int64_t i = 0; i < 64; i++) keys.push_back(&right.keys[i * 32]), values.push_back(&right.values[i * 32]);
  const auto want = attention_pairs_ref(right.q, right.scale() * 1.44269504F, keys, values);
  int wrong = 0;
  for (int64_t k = 0; k < 32; k++) wrong += !within(out[k], want[k]);
  EXPECT_GT(wrong, 8);
}

TEST(Attention, GivesARowTheSameBitsAmongAnyRowsAndThreads) {
  ThreadPool one(1), two(2), four(4);
  on_every_isa_and_type([&](KvType type) {
    for (const Shape shape : shapes(type)) {
      auto lists = mixed_lists(200, 30, 24);
      for (const SpanList& l : causal(70, 65)) lists.push_back(l);
      const Problem p(shape, type, 200, lists, 25);
      const auto alone = p.run_alone(one);
      for (ThreadPool* pool : {&one, &two, &four}) ASSERT_TRUE(same_bits(p.run(*pool), alone)) << "width " << shape.width;
      for (const int64_t begin : {1, 13, 47})
        ASSERT_TRUE(same_bits(p.run(begin, begin + 50, two), {&alone[begin * p.row_numbers()], size_t(50 * p.row_numbers())}));
    }
  });
}

TEST(Attention, GivesThreeHundredCausalRowsTheBitsOfEachAlone) {
  ThreadPool one(1), two(2);
  on_every_isa_and_type([&](KvType type) {
    const Problem p({2, 1, 24}, type, 300, causal(300, 0), 26);
    const auto alone = p.run_alone(one);
    for (const int64_t rows : {1, 2, 3, 5, 31, 32, 33, 64, 100, 255, 300})
      ASSERT_TRUE(same_bits(p.run(0, rows, two), {alone.data(), size_t(rows * p.row_numbers())})) << rows;
  });
}

TEST(Attention, DoesNotDependOnHowSpansAreCut) {
  ThreadPool pool(2);
  on_every_isa_and_type([&](KvType type) {
    for (const Shape shape : shapes(type)) {
      const Problem whole(shape, type, 200, {{{0, 10}}, {{0, 150}}, {{5, 70}, {90, 180}}}, 27);
      Problem cut = whole;
      cut.sees = {{{0, 3}, {3, 10}}, {{0, 63}, {63, 63}, {63, 65}, {65, 149}, {149, 150}}, {{5, 6}, {6, 70}, {90, 91}, {91, 180}}};
      ASSERT_TRUE(same_bits(whole.run(pool), cut.run(pool)));
    }
  });
}

TEST(Attention, DoesNotDependOnWhereSlotsLie) {
  ThreadPool pool(2);
  on_every_isa_and_type([&](KvType type) {
    for (const Shape shape : shapes(type)) {
      const Problem here(shape, type, 200, {{{0, 130}}, {{20, 90}}, {{0, 1}}}, 28);
      Problem there = here;  // slot s moves to place[s]; rows name the new places one by one
      std::vector<int32_t> place(200);
      std::iota(place.begin(), place.end(), 0);
      std::shuffle(place.begin(), place.end(), std::mt19937(29));
      const int64_t n = int64_t{shape.kv_heads} * shape.width;
      for (int64_t s = 0; s < 200; s++) {
        std::copy_n(&here.keys[s * n], n, &there.keys[place[s] * n]);
        std::copy_n(&here.values[s * n], n, &there.values[place[s] * n]);
      }
      for (SpanList& list : there.sees) {
        const SlotSpan old = list[0];
        list.clear();
        for (int32_t s = old.begin; s < old.end; s++) list.push_back({place[s], place[s] + 1});
      }
      ASSERT_TRUE(same_bits(here.run(pool), there.run(pool)));
    }
  });
}

TEST(Attention, NeverReadsWhatARowDoesNotSee) {
  ThreadPool pool(1);
  on_every_isa_and_type([&](KvType type) {
    const Problem clean({4, 2, 24}, type, 200, {{{3, 80}}, {{3, 60}}, {{100, 101}}, {}}, 30);
    Problem poisoned = clean;
    const auto hidden = [](int32_t s) { return s < 3 || (s >= 80 && s != 100); };
    for (int32_t s = 0; s < 200; s++)
      for (int64_t i = 0; hidden(s) && i < 48; i++) poisoned.keys[s * 48 + i] = poisoned.values[s * 48 + i] = NAN;
    ASSERT_TRUE(same_bits(clean.run(pool), poisoned.run(pool)));
    for (int32_t s = 60; s < 80; s++)  // row 0 sees these, row 1 does not: its bits must not change
      for (int64_t i = 0; i < 48; i++) poisoned.keys[s * 48 + i] = poisoned.values[s * 48 + i] = INFINITY;
    const auto a = clean.run(pool), b = poisoned.run(pool);
    ASSERT_TRUE(
        same_bits({&a[clean.row_numbers()], size_t(clean.row_numbers())}, {&b[clean.row_numbers()], size_t(clean.row_numbers())}));
    for (int64_t i = 0; i < clean.row_numbers(); i++) ASSERT_EQ(a[3 * clean.row_numbers() + i], 0.0F) << "a row that sees nothing";
  });
}

// Whatever bits it has: an exponential that takes the last ones for an exponent would make a number of it.
TEST(Attention, WhatSeesNoNumberIsNone) {
  ThreadPool pool(1);
  on_every_isa_and_type([&](KvType type) {
    if (type == KvType::kI8) return;  // a scale that is none has one form
    for (const uint32_t bits : {0xffffffffU, 0x7f8001ffU, 0x7fc00000U, 0xffc0ffffU}) {
      Problem p({4, 2, 24}, type, 90, {{{3, 80}}, {{3, 60}}}, 36);
      for (int64_t g = 0; g < 2; g++) p.keys[70 * 48 + g * 24 + 5] = std::bit_cast<float>(bits);
      const auto out = p.run(pool);
      for (int64_t i = 0; i < p.row_numbers(); i++) {
        ASSERT_TRUE(std::isnan(out[i])) << i;
        ASSERT_FALSE(std::isnan(out[p.row_numbers() + i])) << i;
      }
    }
  });
}

TEST(Attention, OneKeyIsItsValueAndLargeScoresDoNotOverflow) {
  ThreadPool pool(1);
  on_every_isa_and_type([&](KvType type) {
    Problem p({2, 2, 16}, type, 100, {{{7, 8}}, {{0, 100}}}, 31);
    const auto first = p.run(0, 1, pool);
    const Bytes stored(p.values, 16, false);
    for (size_t i = 0; type == KvType::kI8 && i < 32; i++) {
      const float value = stored.scales[14 + i / 16] * static_cast<int8_t>(stored.numbers[7 * 32 + i]);
      EXPECT_NEAR(first[i], value,
                  8 * kRoundoff * std::fabs(value));  // its weight, 255, and that of the block cancel up to roundings
    }
    if (type != KvType::kI8) {
      EXPECT_TRUE(same_bits(first, {&p.values[7 * 32], 32}));
    }
    for (float& x : p.q) x *= 1e4F;
    for (const float x : p.run(pool)) EXPECT_TRUE(std::isfinite(x));
  });
}

TEST(Attention, BitComparisonNoticesAnotherOrderOfKeys) {
  ThreadPool pool(1);
  on_every_isa_and_type([&](KvType type) {
    const Problem p({2, 2, 16}, type, 100, {{{0, 100}}}, 32);
    Problem mutant = p;
    mutant.sees = {{{50, 100}, {0, 50}}};
    EXPECT_FALSE(same_bits(p.run(pool), mutant.run(pool)));
  });
}

// A thread of a C program may have any stack: what attention holds of its queries (half a megabyte) stands elsewhere.
TEST(Attention, NeedsLittleOfItsCallersStack) {
  constexpr size_t kStack = 192 << 10;
  ThreadPool pool(2);
  on_every_isa_and_type([&](KvType type) {
    const Problem p({14, 2, 64}, type, 200, mixed_lists(200, 12, 41), 42);
    struct Work {
      const Problem& problem;
      ThreadPool& pool;
      std::vector<float> out;
    } work{p, pool, {}};
    pthread_attr_t attributes;
    ASSERT_EQ(pthread_attr_init(&attributes), 0);
    ASSERT_EQ(pthread_attr_setstacksize(&attributes, kStack), 0);
    pthread_t thread{};
    const auto run = [](void* w) -> void* {
      Work& its = *static_cast<Work*>(w);
      its.out = its.problem.run(its.pool);
      return nullptr;
    };
    ASSERT_EQ(pthread_create(&thread, &attributes, run, &work), 0);
    ASSERT_EQ(pthread_join(thread, nullptr), 0);
    pthread_attr_destroy(&attributes);
    EXPECT_TRUE(same_bits(work.out, p.run(pool)));
  });
}

}  // namespace
}  // namespace slip
