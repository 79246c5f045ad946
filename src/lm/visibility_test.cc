// SPDX-License-Identifier: Apache-2.0
// The masks, spelled out.
#include "lm/visibility.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

/// A row's line of the mask: 1 where it sees the column's row.
std::string line(const IndexRanges& sees, size_t columns) {
  std::string text(columns, '0');
  for (const IndexRange r : sees)
    for (int32_t c = r.begin; c < r.end; ++c) text[static_cast<size_t>(c)] = '1';
  return text;
}

TEST(Visibility, CausalRowSeesItselfAndAllBefore) {
  EXPECT_EQ(causal_row(0), (IndexRanges{{0, 1}}));
  EXPECT_EQ(causal_row(4), (IndexRanges{{0, 5}}));
}

TEST(Visibility, TurnGoesUpWheneverTheBlockChanges) {
  const std::vector<int32_t> block = {-1, -1, 0, 0, 1, 0, 0, -1};
  EXPECT_EQ(turns_of_blocks(block), (std::vector<int32_t>{0, 0, 1, 1, 2, 3, 3, 4}));
  EXPECT_TRUE(turns_of_blocks({}).empty());
}

TEST(Visibility, DualStreamNoisySeesOwnTurnAndEarlierCleanTurnsCleanIsCausal) {
  const std::vector<int32_t> turn = {0, 0, 1, 1, 2};
  const auto sees = dual_stream(turn);
  //                            noisy   clean
  EXPECT_EQ(line(sees[0], 10),
            "11000"
            "00000");
  EXPECT_EQ(line(sees[1], 10),
            "11000"
            "00000");
  EXPECT_EQ(line(sees[2], 10),
            "00110"
            "11000");
  EXPECT_EQ(line(sees[3], 10),
            "00110"
            "11000");
  EXPECT_EQ(line(sees[4], 10),
            "00001"
            "11110");
  EXPECT_EQ(line(sees[5], 10),
            "00000"
            "10000");
  EXPECT_EQ(line(sees[9], 10),
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

}  // namespace
}  // namespace slip
