// SPDX-License-Identifier: Apache-2.0
#include "lm/pass_answers.h"

#include <gtest/gtest.h>

#include <utility>

namespace slip {
namespace {

Row wanting(Want want) { return {.input = TokenId{1}, .want = want}; }

TEST(RowsByWant, ListsRowsInOrderAndForgetsThePassBefore) {
  const std::vector<Row> rows = {wanting(Want::kLogits), wanting(Want::kNothing), wanting(Want::kArgmax), wanting(Want::kLogits),
                                 wanting(Want::kArgmax)};
  RowsByWant by;
  by.sort({rows, {}});
  EXPECT_EQ(by.wanted_N, (std::vector<int32_t>{0, 2, 3, 4}));
  EXPECT_EQ(by.logits_N, (std::vector<int32_t>{0, 3}));
  EXPECT_EQ(by.argmax_N, (std::vector<int32_t>{2, 4}));
  by.sort({std::span(rows).subspan(1, 2), {}});
  EXPECT_EQ(by.wanted_N, (std::vector<int32_t>{1}));
  EXPECT_EQ(by.argmax_N, (std::vector<int32_t>{1}));
  EXPECT_TRUE(by.logits_N.empty());
}

TEST(BeginOutput, LeavesNothingOfThePassBefore) {
  const std::vector<Row> rows = {wanting(Want::kLogits), wanting(Want::kArgmax)};
  const LmInfo info{.vocab = 7, .hidden_size = 3, .tap_layers = {1, 0}};
  PassOutput out;
  out.argmax.assign(5, TokenId{4});
  out.logits_row.assign(5, 2);
  out.logits_NV.assign(35, 1);
  out.statistics.resize(5);
  out.nan_rows = 2;
  begin_output({.rows = rows, .spans = {}, .taps = true}, info, out);
  EXPECT_EQ(out.vocab, 7);
  EXPECT_EQ(out.argmax, std::vector<TokenId>(2));
  EXPECT_EQ(out.logits_row, std::vector<int32_t>(2, -1));
  EXPECT_TRUE(out.logits_NV.empty());
  EXPECT_TRUE(out.statistics.empty());
  EXPECT_EQ(out.taps_NE.size(), 2U * 2 * 3);
  EXPECT_EQ(out.nan_rows, 0);
  begin_output({rows, {}}, info, out);
  EXPECT_TRUE(out.taps_NE.empty()) << "a pass without taps hands out none";
}

TEST(LayOutLogits, GivesALineToEveryRowThatWantsOneWhereverTheLinesWereBefore) {
  const std::vector<Row> rows = {wanting(Want::kArgmax), wanting(Want::kLogits), wanting(Want::kNothing), wanting(Want::kLogits)};
  float kept_elsewhere = 9;
  PassOutput out;
  out.vocab = 3;
  out.kept_NV = &kept_elsewhere;
  lay_out_logits({rows, {}}, -2, out);
  EXPECT_EQ(out.logits_row, (std::vector<int32_t>{-1, 0, -1, 1}));
  EXPECT_EQ(out.logits_NV, std::vector<float>(6, -2));
  out.logits_V(3)[1] = 5;
  EXPECT_EQ(std::as_const(out).logits_V(3)[1], 5);
  EXPECT_EQ(out.logits_NV, (std::vector<float>{-2, -2, -2, -2, 5, -2}));
  EXPECT_EQ(kept_elsewhere, 9);
}

}  // namespace
}  // namespace slip
