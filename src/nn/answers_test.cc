// SPDX-License-Identifier: Apache-2.0
#include "nn/answers.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace slip {
namespace {

const float kNan = std::nanf(""), kInfinity = std::numeric_limits<float>::infinity();

struct Answer {
  int32_t id;
  bool finite;
  bool operator==(const Answer&) const = default;
};
Answer answer(std::vector<float> logits_V, std::vector<TokenId> allowed = {}) {
  const Row row{.input = TokenId{0}, .want = Want::kLogits, .allowed = allowed.empty() ? std::nullopt : std::optional(0)};
  const std::span<const TokenId> list = allowed;
  const Pass pass{.rows = {&row, 1}, .spans = {}, .allowed = {&list, 1}};
  PassOutput out;
  out.argmax.resize(1);
  const bool finite = answer_logits(pass, 0, logits_V, out);
  return {out.argmax[0].value, finite};
}

TEST(AnswerLogits, TakesTheLargestTheLowestIdOnTies) {
  EXPECT_EQ(answer({1, 3, 2, 3}), (Answer{1, true}));
  EXPECT_EQ(answer({1, kNan, 2}), (Answer{2, true}));
}

TEST(AnswerLogits, OnlyAllowedIdsCompete) { EXPECT_EQ(answer({1, 3, 2, 3}, {{0}, {2}}), (Answer{2, true})); }

TEST(AnswerLogits, SaysWhereTheLargestIsNoFiniteNumber) {
  EXPECT_EQ(answer({kNan, kNan}), (Answer{0, false}));
  EXPECT_EQ(answer({kNan, kNan}, {{1}}), (Answer{1, false}));
  EXPECT_EQ(answer({0, kInfinity}), (Answer{1, false}));
}

}  // namespace
}  // namespace slip
