// SPDX-License-Identifier: Apache-2.0
// A small decoder with random weights: what a row may ask of the head, and the type of its cache.
#include "nn/decoder.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace slip {
namespace {

constexpr int32_t kVocab = 200, kSlots = 256;

std::unique_ptr<DecoderLm> random_decoder(WeightType type, ThreadPool& pool, std::optional<KvType> keys = {}) {
  std::mt19937 engine(5);
  std::normal_distribution<float> normal;
  DecoderOptions o{.name = "random", .vocab = kVocab, .width = 32, .layers = 2, .heads = 4, .kv_heads = 2, .head_width = 16};
  o.mlp_width = 64;
  o.tied_head = true;
  o.rope.width = 16;
  const auto matrix = [&](int64_t n, int64_t k) {
    std::vector<float> w(static_cast<size_t>(n * k));
    for (float& x : w) x = normal(engine) * 0.3F;
    return pack_matrix(type, n, k, w.data(), pool);
  };
  DecoderWeights w;
  w.embedding = std::make_shared<const PackedMatrix>(matrix(kVocab, 32));
  for (int32_t l = 0; l < o.layers; ++l) {
    LayerWeights x;
    x.attention_norm_D.assign(32, 1);
    x.mlp_norm_D.assign(32, 1);
    x.qkv = matrix(8 * 16, 32);
    x.o = matrix(32, 64);
    x.gate_up = matrix(128, 32);
    x.down = matrix(32, 64);
    w.layers.push_back(std::move(x));
  }
  w.final_norm_D.assign(32, 1);
  auto lm = DecoderLm::create(std::move(o), std::move(w), kSlots, pool, keys);
  EXPECT_TRUE(lm) << lm.error().message;
  return std::move(*lm);
}

struct Rows {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
};
Rows causal(int32_t n, Want want) {
  Rows out;
  for (int32_t i = 0; i < n; ++i) {
    out.spans.push_back({0, i + 1});
    out.rows.push_back({TokenId{(7 * i + 3) % kVocab}, Position::text(i), i, static_cast<uint32_t>(i), 1, want});
  }
  return out;
}

constexpr WeightType kTypes[] = {WeightType::kF32, WeightType::kBF16, WeightType::kI8, WeightType::kI4};

TEST(DecoderLm, KeepsKeysInBF16BesideNarrowWeights) {
  ThreadPool pool(1);
  for (const WeightType type : kTypes) {
    const auto lm = random_decoder(type, pool);
    EXPECT_EQ(lm->arena().type(), type == WeightType::kF32 ? KvType::kF32 : KvType::kBF16);
  }
}

TEST(DecoderLm, GivesARowTheSameLogitsAtEveryWidthAndThreadCount) {
  ThreadPool one(1), two(2);
  for (int i = 0; i < 2 * kWeightTypeCount; ++i) {
    const WeightType type = kTypes[i / 2];
    const auto keys = i % 2 ? std::optional(KvType::kI8) : std::nullopt;
    const auto narrow = random_decoder(type, one, keys), wide = random_decoder(type, two, keys);
    const Rows all = causal(150, Want::kLogits);
    PassOutput whole, part;
    ASSERT_TRUE(wide->forward({all.rows, all.spans}, whole));
    for (size_t first = 0, n = 1; first < all.rows.size(); first += n, n = n % 13 + 1) {
      const auto rows = std::span(all.rows).subspan(first, std::min(n, all.rows.size() - first));
      ASSERT_TRUE(narrow->forward({rows, all.spans}, part));
      for (size_t i = 0; i < rows.size(); ++i)
        ASSERT_EQ(std::memcmp(part.logits_V(i).data(), whole.logits_V(first + i).data(), kVocab * sizeof(float)), 0) << first + i;
    }
  }
}

// A fork reads the slots that it shares where they lie; a crop and another end write over those behind it, numbers and scales alike.
TEST(DecoderLm, GivesAForkInInt8KeysTheLogitsOfARowOnItsOwn) {
  ThreadPool pool(1);
  const auto lm = random_decoder(WeightType::kI8, pool, KvType::kI8), fresh = random_decoder(WeightType::kI8, pool, KvType::kI8);
  Rows rows = causal(100, Want::kLogits);
  PassOutput out, want;
  ASSERT_TRUE(lm->forward({rows.rows, rows.spans}, out));
  // Rows 70 .. 99 again with other tokens: over the old slots, and in slots 200 .. of a fork.
  Rows other = causal(100, Want::kLogits), fork = other;
  for (int32_t i = 70; i < 100; ++i) {
    const auto at = static_cast<size_t>(i);
    other.rows[at].input = fork.rows[at].input = TokenId{(11 * i + 5) % kVocab};
    fork.rows[at].slot = 130 + i;
    fork.rows[at].sees_first = static_cast<uint32_t>(fork.spans.size());
    fork.rows[at].sees_count = 2;
    fork.spans.push_back({0, 70});
    fork.spans.push_back({200, 131 + i});
  }
  ASSERT_TRUE(fresh->forward({other.rows, other.spans}, want));
  for (const Rows* r : {&fork, &other}) {
    ASSERT_TRUE(lm->forward({std::span(r->rows).subspan(70), r->spans}, out));
    for (size_t i = 0; i < 30; ++i)
      ASSERT_EQ(std::memcmp(out.logits_V(i).data(), want.logits_V(70 + i).data(), kVocab * sizeof(float)), 0) << i;
  }
}

TEST(DecoderLm, RestrictsTheArgmaxToARowsIdsAndTellsItsStatistics) {
  ThreadPool pool(2);
  const std::vector<TokenId> few = {{3}, {4}, {70}}, one = {{199}};
  const std::vector<std::span<const TokenId>> lists = {few, one};
  for (const WeightType type : kTypes) {
    const auto lm = random_decoder(type, pool);
    Rows asked = causal(24, Want::kArgmax);
    const Rows all = causal(24, Want::kLogits);
    for (size_t i = 0; i < asked.rows.size(); ++i) {
      if (i % 3 > 0) asked.rows[i].allowed = static_cast<int32_t>(i % 3) - 1;
      asked.rows[i].statistics = i % 2 == 0;
    }
    PassOutput out, logits;
    ASSERT_TRUE(lm->forward({.rows = asked.rows, .spans = asked.spans, .allowed = lists}, out));
    ASSERT_TRUE(lm->forward({all.rows, all.spans}, logits));
    EXPECT_TRUE(out.logits_NV.empty());
    EXPECT_TRUE(logits.statistics.empty());
    for (size_t i = 0; i < asked.rows.size(); ++i) {
      const std::span<const TokenId> ids = i % 3 == 0 ? std::span<const TokenId>() : lists[i % 3 - 1];
      const RowChoice want = choose_from(logits.logits_V(i), ids);
      EXPECT_EQ(out.argmax[i], want.argmax) << i;
      if (i % 2) continue;
      EXPECT_EQ(out.statistics[i].largest, want.statistics.largest);
      EXPECT_EQ(out.statistics[i].second, want.statistics.second);
      EXPECT_NEAR(out.statistics[i].log_sum_exp, want.statistics.log_sum_exp, 1e-5 * (1 + std::fabs(want.statistics.log_sum_exp)));
    }
  }
}

TEST(DecoderLm, RefusesListsOfIdsThatAreNotThere) {
  ThreadPool pool(1);
  const auto lm = random_decoder(WeightType::kF32, pool);
  Rows rows = causal(1, Want::kArgmax);
  rows.rows[0].allowed = 0;
  PassOutput out;
  EXPECT_EQ(lm->forward({rows.rows, rows.spans}, out).error().kind, ErrorKind::kBadInput);
  const std::vector<TokenId> none, beyond = {{1}, {kVocab}};
  for (const std::vector<TokenId>* ids : {&none, &beyond}) {
    const std::span<const TokenId> list(*ids);
    EXPECT_EQ(lm->forward({.rows = rows.rows, .spans = rows.spans, .allowed = {&list, 1}}, out).error().kind, ErrorKind::kBadInput);
  }
}

TEST(ChooseFrom, TakesTheLowestOfEqualsAndLetsNaNLose) {
  const std::vector<float> logits = {NAN, 2, 5, 5, -INFINITY};
  const RowChoice c = choose_from(logits, {});
  EXPECT_EQ(c.argmax.value, 2);
  EXPECT_EQ(c.statistics.second, 5);
  EXPECT_TRUE(std::isnan(c.statistics.log_sum_exp));
  const std::vector<TokenId> nan = {{0}}, two = {{1}, {4}};
  EXPECT_EQ(choose_from(logits, nan).argmax.value, 0) << "the lowest allowed id where there is no number";
  EXPECT_EQ(choose_from(logits, two).argmax.value, 1);
  EXPECT_FLOAT_EQ(choose_from(logits, two).statistics.log_sum_exp, 2);
  const std::vector<TokenId> never = {{4}};
  EXPECT_EQ(choose_from(logits, never).statistics.log_sum_exp, -INFINITY) << "as the head's kernel has it; NaN is of a NaN alone";
}

TEST(DecoderLm, APassThatNobodyWaitsForEndsEarlyAndTheNextOneIsWhatItWas) {
  for (const int threads : {1, 2}) {
    ThreadPool pool(threads);
    const auto lm = random_decoder(WeightType::kF32, pool);
    const Rows rows = causal(200, Want::kLogits);
    PassOutput whole, again;
    ASSERT_TRUE(lm->forward({rows.rows, rows.spans}, whole));
    int asked = 0;
    std::vector<int64_t> told;
    const PassWatch watch{.stop = [&] { return ++asked > 3; }, .tell = [&](int64_t done, int64_t) { told.push_back(done); }};
    Pass pass{rows.rows, rows.spans};
    pass.watch = &watch;
    const Status cut = lm->forward(pass, again);
    ASSERT_FALSE(cut);
    EXPECT_EQ(cut.error().kind, ErrorKind::kCancelled);
    const PassWatch patient{.stop = [] { return false; },
                            .tell = [&](int64_t done, int64_t total) { told.push_back(done * 100 + total); }};
    told.clear();
    pass.watch = &patient;
    ASSERT_TRUE(lm->forward(pass, again));
    EXPECT_EQ(told, (std::vector<int64_t>{2, 102}));
    EXPECT_EQ(std::memcmp(whole.logits_NV.data(), again.logits_NV.data(), whole.logits_NV.size() * sizeof(float)), 0);
  }
}

}  // namespace
}  // namespace slip
