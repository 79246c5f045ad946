// SPDX-License-Identifier: Apache-2.0
// A steady-state pass allocates nothing: operator new is counted in this binary.
#include <gtest/gtest.h>

#include "base/count_allocations_testing.h"
#include "models/draft/dflash.h"
#include "models/model.h"

namespace slip {
namespace {

using test::allocations;

TEST(DecoderLm, SteadyStatePassesAllocateNothing) {
  for (const WeightType type : {WeightType::kF32, WeightType::kBF16}) {
    auto model = load_model(std::filesystem::path(SLIP_FIXTURES) / "models/qwen3", {type, 2, 64});
    ASSERT_TRUE(model) << model.error().message;
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t i = 0; i < 40; ++i) {
      spans.push_back({0, i + 1});
      rows.push_back({TokenId{i}, Position::text(i), i, static_cast<uint32_t>(i), 1, i % 2 ? Want::kArgmax : Want::kLogits});
    }
    PassOutput out;
    const auto round = [&] {
      bool good = true;
      for (const size_t n : {size_t{40}, size_t{1}, size_t{8}})
        good = good && (*model)->lm().forward({std::span(rows).first(n), spans}, out);
      return good;
    };
    ASSERT_TRUE(round());
    const int64_t before = allocations;
    ASSERT_TRUE(round());
    EXPECT_EQ(allocations - before, 0) << "weight type " << static_cast<int>(type);
  }
}

// A round with a draft head: a pass with taps, its rows into the context, a block.
TEST(DFlash, SteadyStateRoundsAllocateNothing) {
  const auto models = std::filesystem::path(SLIP_FIXTURES) / "models";
  auto model = load_model(models / "qwen3", {WeightType::kBF16, 2, 64});
  ASSERT_TRUE(model) << model.error().message;
  auto head = load_dflash(models / "qwen3_dflash", **model, 8);
  ASSERT_TRUE(head) << head.error().message;
  ASSERT_TRUE((*model)->lm().set_taps((*head)->info().tap_layers));
  std::vector<Row> rows, block;
  std::vector<SlotSpan> spans;
  std::vector<int32_t> slots;
  for (int32_t i = 0; i < 40; ++i) {
    spans.push_back({0, i + 1});
    slots.push_back(i);
    rows.push_back({TokenId{i}, Position::text(i), i, static_cast<uint32_t>(i), 1, Want::kArgmax});
  }
  const std::vector<SlotSpan> sees = {{0, 40}, {64, 72}};
  for (int32_t j = 0; j < 8; ++j) block.push_back({TokenId{299}, Position::text(40 + j), 64 + j, 0, 2, Want::kLogits});
  PassOutput out, drafted;
  const auto round = [&] {
    bool good = true;
    for (const size_t n : {size_t{40}, size_t{3}}) {
      good = good && (*model)->lm().forward({std::span(rows).first(n), spans, {}, false, true}, out);
      good = good && (*head)->store(std::span(slots).first(n), std::span(slots).first(n), out.taps_NE);
      good = good && (*head)->forward({block, sees}, drafted);
    }
    return good;
  };
  ASSERT_TRUE(round());
  const int64_t before = allocations;
  ASSERT_TRUE(round());
  EXPECT_EQ(allocations - before, 0);
}

TEST(DraftAdapter, SteadyStatePassesAllocateNothing) {
  auto model = load_model(std::filesystem::path(SLIP_FIXTURES) / "models/nemotron_labs_diffusion", {WeightType::kBF16, 2, 64});
  ASSERT_TRUE(model) << model.error().message;
  const SlotSpan all{0, 8};
  std::vector<Row> rows;
  for (int32_t i = 0; i < 8; ++i) rows.push_back({TokenId{i}, Position::text(i), i, 0, 1, Want::kArgmax});
  PassOutput out;
  ASSERT_TRUE((*model)->lm().forward({rows, {&all, 1}, {}, true}, out));
  const int64_t before = allocations;
  ASSERT_TRUE((*model)->lm().forward({rows, {&all, 1}, {}, true}, out));
  EXPECT_EQ(allocations - before, 0);
}

}  // namespace
}  // namespace slip
