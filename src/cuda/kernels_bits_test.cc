// SPDX-License-Identifier: Apache-2.0
// What must be equal to the bit, kernel by kernel, at sizes of released models: on the emulated device, and in cuda_device_test on a device, whose
// instructions the emulation only plays. Products of bytes and of the same numbers in bf16, at any number of rows; attention in pieces that are
// joined, and in walks.
#include <gtest/gtest.h>

#include <random>
#include <span>
#include <vector>

#include "core/dtype.h"
#include "cuda/device/runtime.h"
#include "cuda/kernels.h"
#include "cuda/pass_plan.h"
#include "cuda/tiles.h"

namespace slip::cuda {
namespace {

class Bits : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = Device::open(0);
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);
  }

  template <class T>
  T* there(std::span<const T> numbers) {
    auto memory = device_->allocate(numbers.size_bytes(), "a test's numbers");
    EXPECT_TRUE(memory) << memory.error().message;
    EXPECT_TRUE(device_->copy_in(memory->data(), numbers.data(), numbers.size_bytes()));
    EXPECT_TRUE(device_->wait());
    memories_.push_back(*memory);
    return memories_.back().data<T>();
  }
  template <class T>
  T* there(const std::vector<T>& numbers) {
    return there(std::span<const T>(numbers));
  }
  template <class T>
  T* room(size_t n) {
    return there(std::vector<T>(n));
  }
  template <class T>
  std::vector<T> back(const T* numbers, size_t n) {
    std::vector<T> out(n);
    EXPECT_TRUE(device_->copy_out(out.data(), numbers, n * sizeof(T)));
    const Status done = device_->wait();
    EXPECT_TRUE(done) << done.error().message;
    return out;
  }

  std::unique_ptr<Device> device_;
  std::vector<Memory> memories_;
  std::mt19937 random_{9};
};

std::vector<uint16_t> random_bf16(size_t n, float scale, std::mt19937& random) {
  std::normal_distribution<float> normal(0, scale);
  std::vector<uint16_t> out(n);
  for (uint16_t& x : out) x = to_bf16(normal(random)).bits;
  return out;
}

// A channel's integers over scale 1 are bf16 numbers: the same sums, whoever widens them and in whichever block.
TEST_F(Bits, ProductsOfBytesAreThoseOfTheirNumbers) {
  constexpr int kMostRows = 384, kRoom = kMostRows + 192;
  struct Shape {
    int tiles, steps;
  };
  for (const Shape shape : {Shape{8, 9}, Shape{140, 2}}) {  // equal parts of tiles; tiles in a line
    const size_t numbers = static_cast<size_t>(shape.tiles * shape.steps) * kTileNumbers;
    std::vector<uint16_t> wide(numbers);
    std::vector<uint8_t> bytes(numbers);
    for (size_t tile = 0; tile < numbers; tile += kTileNumbers)
      for (int channel = 0; channel < kTileChannels; ++channel)
        for (int k = 0; k < kInnerStep; ++k) {
          const auto byte = static_cast<uint8_t>(random_() % 256);
          bytes[tile + static_cast<size_t>(byte_place(channel, k))] = byte;
          wide[tile + static_cast<size_t>(channel * kInnerStep + line_place(channel, k))] =
              to_bf16(static_cast<float>(byte - kByteZero)).bits;
        }
    const int32_t n = shape.tiles * kTileChannels;
    Tiles of_numbers{there(wide), n, shape.steps * kInnerStep, shape.tiles, shape.steps, nullptr}, of_bytes = of_numbers;
    of_bytes.data = there(bytes);
    of_bytes.scale_N = there(std::vector<float>(static_cast<size_t>(n), 1));
    const auto x = random_bf16(static_cast<size_t>(shape.steps * kRoom * kInnerStep), 1, random_);
    const Shares shares{room<float>(share_numbers(kMostRows)), room<int32_t>(static_cast<size_t>(shape.tiles))};
    const auto multiply = [&](const Tiles& w, int32_t rows) {
      ProductArgs args{};
      args.count = there(std::vector<int32_t>{rows});
      args.w = w;
      args.x_TK = {there(x), kRoom};
      args.then = Then::kStore;
      args.out = room<float>(static_cast<size_t>(rows * n));
      args.ldo = n;
      args.shares = shares;
      product(args, rows, device_->stream());
      return back(args.out, static_cast<size_t>(rows * n));
    };
    const std::vector<float> all = multiply(of_numbers, kMostRows);
    for (const int32_t rows : {1, 9, 17, 33, 70, 200, kMostRows}) {
      const std::vector<float> expected(all.begin(), all.begin() + static_cast<ptrdiff_t>(rows) * n);
      EXPECT_TRUE(multiply(of_numbers, rows) == expected) << rows << " rows of numbers";
      EXPECT_TRUE(multiply(of_bytes, rows) == expected) << rows << " rows of bytes";
    }
  }
}

// Heads of the released tower and decoder, behind rows of two chunks of keys and of three, some of which see less than their neighbours.
TEST_F(Bits, WalksComeToWhatPiecesDo) {
  struct Heads {
    int heads, kv_heads, width;
  };
  constexpr int32_t kRows = 90, kPrompt = 470, kKeys = kPrompt + kRows;
  for (const Heads h : {Heads{2, 2, 80}, Heads{8, 1, 128}, Heads{3, 1, 64}}) {
    if (!may_walk(h.width)) continue;
    const int32_t padded = (h.width + 31) / 32 * 32;
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t t = 0; t < kRows; ++t) {
      spans.push_back({0, t < 60 ? kPrompt : kPrompt - 33});
      spans.push_back({kPrompt, kPrompt + t + 1});
      rows.push_back({TokenId{0}, Position::text(t), kPrompt + t, static_cast<uint32_t>(2 * t), 2, Want::kNothing, std::nullopt});
    }
    const auto numbers = [&](int lines, float scale) {
      std::vector<uint16_t> out = random_bf16(static_cast<size_t>(lines * padded), scale, random_);
      for (size_t i = 0; i < out.size(); ++i)
        if (static_cast<int>(i) % padded >= h.width) out[i] = 0;
      return there(out);
    };
    const Bf16 *q = numbers(kRows * h.heads, 0.2F), *keys = numbers(kKeys * h.kv_heads, 1),
               *values = numbers(kKeys * h.kv_heads, 1);
    const size_t out_numbers = static_cast<size_t>((h.heads * h.width + kInnerStep - 1) / kInnerStep * 96 * kInnerStep);
    const auto attended = [&](bool in_walks, int most_unit_blocks) {
      AttentionPlanner planner(h.heads / h.kv_heads, in_walks);
      AttentionPlan plan;
      planner.plan({rows, spans}, plan);
      EXPECT_EQ(plan.walks.empty(), !in_walks);
      const PassCounts* counts = there(std::vector<PassCounts>{
          {.rows = kRows, .items = static_cast<int32_t>(plan.items.size()), .walks = static_cast<int32_t>(plan.walks.size())}});
      const RowTiles out{room<uint16_t>(out_numbers), 96};
      const Item* items = there(plan.items);
      const int32_t* slots = there(plan.slots);
      if (in_walks) {
        walk({counts, there(plan.walks), items, slots, there(plan.sees_T), q, keys, values, h.heads, h.kv_heads, h.width, padded,
              out},
             static_cast<int>(plan.walks.size()), device_->stream());
        return back<uint16_t>(out.data, out_numbers);
      }
      const size_t partials = plan.item_rows.size() * static_cast<size_t>(h.heads);
      auto* sums = room<float>(partials * static_cast<size_t>(padded));
      auto *tops = room<float>(partials), *totals = room<float>(partials);
      const auto count = static_cast<int>(plan.items.size());
      attend({counts, items, there(plan.item_rows), slots, q, keys, values, h.heads, h.kv_heads, padded, sums, tops, totals}, count,
             plan.most_rows * (h.heads / h.kv_heads), device_->stream(), count, most_unit_blocks);
      join({counts, there(plan.first_partial_T), sums, tops, totals, h.heads, h.width, padded, out}, kRows, device_->stream());
      return back<uint16_t>(out.data, out_numbers);
    };
    const std::vector<uint16_t> walked = attended(true, 0);
    EXPECT_TRUE(attended(false, 0) == walked) << h.width << ", warps that walk the units";
    EXPECT_TRUE(attended(false, 1 << 20) == walked) << h.width << ", a warp for a unit";
  }
}

}  // namespace
}  // namespace slip::cuda
