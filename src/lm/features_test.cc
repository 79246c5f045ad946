// SPDX-License-Identifier: Apache-2.0
#include "lm/features.h"

#include <gtest/gtest.h>

#include "lm/features_testing.h"

namespace slip {
namespace {

using test::hold_first;

TEST(Features, ARowIsFoundWhereverItLies) {
  Features all{{}, {0, 1, 10, 11, 20, 21, 30, 31, 40, 41}};
  const Features numbers = all;
  hold_first(all, 2, 2);
  hold_first(all, 1, 2);
  const FeatureView view(all);
  EXPECT_EQ(view.rows(2), 5);
  EXPECT_EQ(view.resident_rows(), 3);
  const FeatureView::Place expected[] = {{0, 0}, {0, 1}, {1, 0}, {-1, 0}, {-1, 1}};
  for (int32_t i = 0; i < 5; ++i) {
    const auto place = view.place_of(i, 2);
    ASSERT_TRUE(place) << i;
    EXPECT_EQ(place->block, expected[i].block) << i;
    EXPECT_EQ(place->row, expected[i].row) << i;
  }
  EXPECT_FALSE(view.place_of(5, 2));
  EXPECT_FALSE(view.place_of(-1, 2));
  EXPECT_EQ(view.numbers_of({-1, 1}, 2)[0], 40);
  std::vector<float> read{7};
  ASSERT_TRUE(all.read(read));
  EXPECT_EQ(read, numbers.numbers_ND);
  EXPECT_EQ(all.bytes(), numbers.bytes());
  Features longer = all;
  longer.append(numbers);
  EXPECT_EQ(FeatureView(longer).rows(2), 10);
}

TEST(Features, ContentsTellRowsApart) {
  Features one{{}, {1, 2, 1, 2, 3, 4}}, other = one;
  const FeatureView here(one);
  EXPECT_EQ(content_of(here, {-1, 0}, 2), content_of(here, {-1, 1}, 2)) << "the same numbers";
  hold_first(other, 2, 2);
  const FeatureView there(other);
  EXPECT_NE(content_of(there, {0, 0}, 2), content_of(there, {0, 1}, 2)) << "a block says where, not what";
  Features again{{}, {1, 2, 1, 2, 9, 9}};
  hold_first(again, 2, 2);
  EXPECT_EQ(content_of(FeatureView(again), {0, 1}, 2), content_of(there, {0, 1}, 2));
}

}  // namespace
}  // namespace slip
