// SPDX-License-Identifier: Apache-2.0
// A steady-state pass allocates nothing: operator new is counted in this binary.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "models/model.h"

namespace {
std::atomic<int64_t> allocations = 0;
}  // namespace

void* operator new(size_t bytes) {
  ++allocations;
  if (void* p = std::malloc(bytes)) return p;
  throw std::bad_alloc();
}
void operator delete(void* p) noexcept { std::free(p); }
void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace slip {
namespace {

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

}  // namespace
}  // namespace slip
