// SPDX-License-Identifier: Apache-2.0
// What is learned of earlier answers, by hand.
#include "engine/earlier_fields.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

/// Field 0 is the parent of 1 and 2.
Form parent_and_two() {
  Form::Parts p{.name = "three", .section_names = {"all"}};
  p.pieces = {FixedRun{{{5}}, 0}, FieldRef{0}, FixedRun{{{6}}, 0}, FieldRef{1}, FixedRun{{{7}}, 0}, FieldRef{2}};
  p.fields = {Field{.name = "a", .budget = 2}, Field{.name = "b", .budget = 2, .parents = {0}},
              Field{.name = "c", .budget = 2, .parents = {0}}};
  return *Form::make(std::move(p));
}
std::vector<TokenId> says(int32_t id) { return {TokenId{id}}; }

struct Frames {
  Form form = parent_and_two();
  EarlierFields learned;
  void see(std::vector<std::vector<TokenId>> before, std::vector<std::vector<TokenId>> now) {
    const PreviousAnswer previous{.form = form.name(), .fields = std::move(before)};
    Decoded answer;
    answer.fields = std::move(now);
    learned.saw(previous, answer, &form);
  }
};

TEST(EarlierFields, LearnsFieldByFieldWhereTheParentsStay) {
  Frames f;
  for (int i = 0; i < 40; ++i) f.see({says(10), says(11), says(12)}, {says(10), says(11), says(13)});
  std::vector<double> odds;
  f.learned.put(odds);
  ASSERT_EQ(odds.size(), 3U);
  EXPECT_GT(odds[0], 0.9);
  EXPECT_GT(odds[1], 0.9);
  EXPECT_LT(odds[2], 0.15);
  EXPECT_NEAR(f.learned.all().with_parents, 2.0 / 3, 1e-3);
  EXPECT_EQ(f.learned.all().behind_others, kRepeatsBehindOthers) << "nothing was behind another one";
}

TEST(EarlierFields, AParentThatChangesSaysNothingOfItsChildrensOwnOdds) {
  Frames f;
  for (int i = 0; i < 40; ++i) f.see({says(10), says(11), says(12)}, {says(20), says(11), says(12)});
  EXPECT_LT(f.learned.all().with_parents, 0.01);
  EXPECT_GT(f.learned.all().behind_others, 0.98);
}

TEST(EarlierFields, OldFramesFade) {
  Frames f;
  for (int i = 0; i < 40; ++i) f.see({says(10), says(11), says(12)}, {says(10), says(11), says(12)});
  for (int i = 0; i < 15; ++i) f.see({says(10), says(11), says(12)}, {says(10), says(13), says(12)});
  std::vector<double> odds;
  f.learned.put(odds);
  EXPECT_LT(odds[1], 0.4);
  EXPECT_GT(odds[2], 0.9);
}

TEST(EarlierFields, AnswersOfAnotherShapeSayNothing) {
  Frames f;
  f.see({says(10)}, {says(10), says(11), says(12)});
  std::vector<double> odds;
  f.learned.put(odds);
  EXPECT_TRUE(odds.empty());
  EXPECT_EQ(f.learned.all().with_parents, kRepeats);
}

TEST(EarlierFields, OfFreeTextCountsTokens) {
  EarlierFields learned;
  Decoded answer;
  answer.tokens = {{1}, {2}, {3}, {4}};
  for (int i = 0; i < 60; ++i) learned.saw({.tokens = {{1}, {2}, {9}, {9}}}, answer, nullptr);
  EXPECT_NEAR(learned.all().with_parents, 0.5, 1e-3);
}

}  // namespace
}  // namespace slip
