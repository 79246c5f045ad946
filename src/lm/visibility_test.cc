// SPDX-License-Identifier: Apache-2.0
// The masks, spelled out.
#include "lm/visibility.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

std::string line(const std::vector<uint8_t>& mask, size_t row, size_t columns) {
  std::string text;
  for (size_t c = 0; c < columns; ++c) text += mask[row * columns + c] ? '1' : '0';
  return text;
}

TEST(Visibility, CausalRowSeesItselfAndAllBefore) {
  EXPECT_EQ(causal_row(0), (IndexRanges{{0, 1}}));
  EXPECT_EQ(causal_row(4), (IndexRanges{{0, 5}}));
}

TEST(Visibility, DraftRowSeesContextAndItsWholeBlock) {
  EXPECT_EQ(draft_row(5, 9), (IndexRanges{{0, 9}}));
  EXPECT_EQ(draft_row(0, 3), (IndexRanges{{0, 3}}));
}

TEST(Visibility, TurnGoesUpWheneverTheBlockChanges) {
  const std::vector<int32_t> block = {-1, -1, 0, 0, 1, 0, 0, -1};
  EXPECT_EQ(turns_of_blocks(block), (std::vector<int32_t>{0, 0, 1, 1, 2, 3, 3, 4}));
  EXPECT_TRUE(turns_of_blocks({}).empty());
}

TEST(Visibility, DualStreamNoisySeesOwnTurnAndEarlierCleanTurnsCleanIsCausal) {
  const std::vector<int32_t> turn = {0, 0, 1, 1, 2};
  const auto sees = dual_stream(turn);
  const auto mask = dense_mask(sees, 10);
  //                            noisy   clean
  EXPECT_EQ(line(mask, 0, 10),
            "11000"
            "00000");
  EXPECT_EQ(line(mask, 1, 10),
            "11000"
            "00000");
  EXPECT_EQ(line(mask, 2, 10),
            "00110"
            "11000");
  EXPECT_EQ(line(mask, 3, 10),
            "00110"
            "11000");
  EXPECT_EQ(line(mask, 4, 10),
            "00001"
            "11110");
  EXPECT_EQ(line(mask, 5, 10),
            "00000"
            "10000");
  EXPECT_EQ(line(mask, 9, 10),
            "00000"
            "11111");
  // Finished keys are added before the block's own.
  EXPECT_EQ(sees[2], (IndexRanges{{5, 7}, {2, 4}}));
}

TEST(Visibility, DualStreamCleanNeverSeesNoisyAndEveryRowSeesSomething) {
  const std::vector<int32_t> turn = {0, 1, 1, 1, 2, 3, 3, 4};
  const auto n = static_cast<int32_t>(turn.size());
  const auto sees = dual_stream(turn);
  for (int32_t row = 0; row < 2 * n; ++row) {
    EXPECT_FALSE(sees[static_cast<size_t>(row)].empty());
    for (const IndexRange r : sees[static_cast<size_t>(row)]) {
      EXPECT_LT(r.begin, r.end);
      EXPECT_GE(r.begin, row >= n ? n : 0);
    }
  }
}

TEST(Visibility, BlockCausalRowsSeeTheirWholeBlockAndEarlierOnes) {
  const std::vector<int32_t> block = {-1, -1, 0, 0, 1};
  const auto mask = dense_mask(block_causal(block), 5);
  EXPECT_EQ(line(mask, 0, 5), "10000");
  EXPECT_EQ(line(mask, 1, 5), "11000");
  EXPECT_EQ(line(mask, 2, 5), "11110");
  EXPECT_EQ(line(mask, 3, 5), "11110");
  EXPECT_EQ(line(mask, 4, 5), "11111");
}

}  // namespace
}  // namespace slip
