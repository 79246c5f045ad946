// SPDX-License-Identifier: Apache-2.0
// Attention on the emulated device against sums in double, and the same bits from blocks that give a warp a unit of keys, from warps that walk them, and
// from blocks that walk all that their rows see, for heads of all widths that have a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "core/dtype.h"
#include "cuda/device/gpu_emulated.h"
#include "cuda/pass_plan.h"

namespace slip::cuda {
namespace {

struct Case {
  int heads, kv_heads, width, rows;
};

void PrintTo(const Case& c, std::ostream* out) {
  *out << c.heads << " heads on " << c.kv_heads << " of " << c.width << ", " << c.rows << " rows";
}

class Attention : public testing::TestWithParam<Case> {
 protected:
  static constexpr int kPrompt = 490, kSlots = 600, kLongRows = 83;  // rows of a walk have two chunks of 256 keys or three

  void SetUp() override {
    const Case c = GetParam();
    padded_ = (c.width + 31) / 32 * 32;
    std::mt19937 random(11);
    std::normal_distribution<float> normal(0, 1);
    const auto fill = [&](std::vector<uint16_t>& to, int lines, float scale) {
      to.assign(static_cast<size_t>(lines * padded_), 0);
      for (int i = 0; i < lines; ++i)
        for (int k = 0; k < c.width; ++k) to[static_cast<size_t>(i * padded_ + k)] = to_bf16(scale * normal(random)).bits;
    };
    fill(q_, kLongRows * c.heads, 1 / std::sqrt(static_cast<float>(c.width)));
    fill(keys_, kSlots * c.kv_heads, 1);
    fill(values_, kSlots * c.kv_heads, 1);
  }

  /// The first rows' work: short passes have small items. The rows of a long one behind the first 70 see less of the prompt.
  AttentionPlan planned(int rows_of_pass, bool in_walks) {
    const Case c = GetParam();
    std::vector<Row> rows;
    std::vector<SlotSpan> spans;
    for (int32_t t = 0; t < rows_of_pass; ++t) {
      spans.push_back({0, t < 70 ? kPrompt : kPrompt - 50});
      spans.push_back({kPrompt, kPrompt + t + 1});
      rows.push_back({TokenId{0}, Position::text(t), kPrompt + t, static_cast<uint32_t>(2 * t), 2, Want::kNothing});
    }
    AttentionPlanner planner(c.heads / c.kv_heads, in_walks);
    AttentionPlan plan;
    planner.plan({rows, spans}, plan);
    return plan;
  }

  /// What a row's heads come to, as products read it: [row][head x width].
  std::vector<uint16_t> attended(int most_unit_blocks, int rows, bool in_walks = false) {
    const Case c = GetParam();
    const AttentionPlan plan = planned(rows, in_walks);
    const PassCounts counts{
        .rows = rows, .items = static_cast<int32_t>(plan.items.size()), .walks = static_cast<int32_t>(plan.walks.size())};
    const int room = (rows + 7) / 8 * 8, all = c.heads * c.width;
    std::vector<uint16_t> tiles(static_cast<size_t>((all + kInnerStep - 1) / kInnerStep * room * kInnerStep), 0x7fff);
    const RowTiles out{tiles.data(), room};
    EXPECT_EQ(plan.walks.empty(), !in_walks);
    if (in_walks)
      walk({&counts, plan.walks.data(), plan.items.data(), plan.slots.data(), plan.sees_T.data(), q_.data(), keys_.data(),
            values_.data(), c.heads, c.kv_heads, c.width, padded_, out},
           static_cast<int>(plan.walks.size()), nullptr);
    else
      attend_and_join(plan, counts, most_unit_blocks, out);
    std::vector<uint16_t> flat;
    for (int t = 0; t < rows; ++t) {
      for (int i = 0; i < all; ++i) flat.push_back(*out.at(t, i));
      for (int i = all; i % kInnerStep != 0; ++i) EXPECT_EQ(*out.at(t, i), 0) << "behind the last number of a row";
    }
    return flat;
  }

  void attend_and_join(const AttentionPlan& plan, const PassCounts& counts, int most_unit_blocks, const RowTiles& out) {
    const Case c = GetParam();
    const size_t partials = plan.item_rows.size() * static_cast<size_t>(c.heads);
    std::vector<float> sums(partials * static_cast<size_t>(padded_), -1), tops(partials), totals(partials);
    attend({&counts, plan.items.data(), plan.item_rows.data(), plan.slots.data(), q_.data(), keys_.data(), values_.data(), c.heads,
            c.kv_heads, padded_, sums.data(), tops.data(), totals.data()},
           static_cast<int>(plan.items.size()), plan.most_rows * (c.heads / c.kv_heads), nullptr,
           static_cast<int>(plan.items.size()), most_unit_blocks);
    join({&counts, plan.first_partial_T.data(), sums.data(), tops.data(), totals.data(), c.heads, c.width, padded_, out},
         counts.rows, nullptr);
  }

  /// The same while the kernel before still runs: it writes queries, and the rows' own keys and values.
  std::vector<uint16_t> attended_early(int most_unit_blocks, int rows, bool in_walks = false) {
    const std::vector<uint16_t> q = q_, keys = keys_, values = values_;
    const auto own = static_cast<ptrdiff_t>(kPrompt * GetParam().kv_heads * padded_);
    constexpr uint16_t kNan = 0x7fc0;
    gpu::overlap_with(
        [&] {
          std::fill(q_.begin(), q_.end(), kNan);
          std::fill(keys_.begin() + own, keys_.end(), kNan);
          std::fill(values_.begin() + own, values_.end(), kNan);
        },
        [&] { q_ = q, keys_ = keys, values_ = values; });
    std::vector<uint16_t> out = attended(most_unit_blocks, rows, in_walks);
    gpu::overlap_with({}, {});
    return out;
  }

  double number(const std::vector<uint16_t>& of, size_t line, int k) const {
    return to_float(BF16{of[line * static_cast<size_t>(padded_) + static_cast<size_t>(k)]});
  }

  int padded_ = 0;
  std::vector<uint16_t> q_, keys_, values_;
};

TEST_P(Attention, IsTheSumInDoubleUpToRounding) {
  const Case c = GetParam();
  const std::vector<uint16_t> out = attended(1 << 20, c.rows);
  for (int t = 0; t < c.rows; t += 5)
    for (int h = 0; h < c.heads; h += 3) {
      const auto kv = static_cast<size_t>(h / (c.heads / c.kv_heads));
      const size_t q = static_cast<size_t>(t * c.heads + h);
      double total = 0;
      std::vector<double> sums(static_cast<size_t>(c.width), 0);
      for (int s = 0; s < kPrompt + t + 1; ++s) {
        const size_t line = static_cast<size_t>(s * c.kv_heads) + kv;
        double score = 0;
        for (int k = 0; k < c.width; ++k) score += number(q_, q, k) * number(keys_, line, k);
        const double chance = std::exp2(score);
        total += chance;
        for (int k = 0; k < c.width; ++k) sums[static_cast<size_t>(k)] += chance * number(values_, line, k);
      }
      for (int k = 0; k < c.width; ++k)
        ASSERT_NEAR(to_float(BF16{out[static_cast<size_t>((t * c.heads + h) * c.width + k)]}), sums[static_cast<size_t>(k)] / total,
                    4e-3)
            << t << " " << h << " " << k;
    }
}

TEST_P(Attention, HasTheSameBitsHoweverUnitsAreSpread) {
  const int all = GetParam().rows, few = 12;
  const std::vector<uint16_t> whole = attended(0, all);
  EXPECT_EQ(attended(1 << 20, all), whole);
  const std::vector<uint16_t> part = attended(0, few);
  EXPECT_EQ(part, std::vector<uint16_t>(whole.begin(), whole.begin() + static_cast<ptrdiff_t>(part.size())));
}

TEST_P(Attention, HasTheSameBitsInWalks) {
  if (!may_walk(GetParam().width)) return;
  const std::vector<uint16_t> walked = attended(0, kLongRows, true);
  EXPECT_EQ(walked, attended(0, kLongRows));
  EXPECT_EQ(attended_early(0, kLongRows, true), walked);
}

// Devices below Hopper, whose blocks have 99 KiB: heads of 128 numbers do not walk there, narrower ones do, and all have the same bits.
TEST_P(Attention, HasTheSameBitsWithLessSharedMemory) {
  const int rows = GetParam().rows, width = GetParam().width;
  const std::vector<uint16_t> usual = attended(1 << 20, rows), few = attended(0, 12);
  gpu::limit_shared(size_t{99} << 10);
  EXPECT_EQ(may_walk(width), width <= 96);
  if (may_walk(width)) {
    EXPECT_EQ(attended(0, kLongRows, true), attended(0, kLongRows));
  }
  EXPECT_EQ(attended(1 << 20, rows), usual);
  EXPECT_EQ(attended(0, 12), few);
  gpu::limit_shared(0);
}

TEST_P(Attention, ReadsAheadOnlyWhatWasThereBeforeThePass) {
  for (const int rows : {12, GetParam().rows})
    for (const int most : {0, 1 << 20}) EXPECT_EQ(attended_early(most, rows), attended(most, rows)) << rows << " rows, " << most;
}

INSTANTIATE_TEST_SUITE_P(OfAllWidths, Attention,
                         testing::Values(Case{4, 2, 16, 40}, Case{4, 1, 80, 40}, Case{6, 2, 96, 20}, Case{16, 2, 128, 24},
                                         Case{2, 1, 256, 40}, Case{64, 1, 32, 18}));

}  // namespace
}  // namespace slip::cuda
