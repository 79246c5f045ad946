// SPDX-License-Identifier: Apache-2.0
// Stops that come a margin earlier.
#include "drive/stop_margin.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/must_testing.h"

namespace slip::drive {
namespace {

TEST(StopMargin, ShortensWhatStandsAlongItsOwnPath) {
  // Eight metres, the last four of them to the left, then a second at rest.
  const std::vector<sim::Vec2> plan = {{0, 0}, {4, 0}, {4, 4}, {4, 4}};
  const auto out = with_stop_margin(plan, 1, 2);  // six of eight metres
  ASSERT_EQ(out.size(), plan.size());
  EXPECT_DOUBLE_EQ(out[1].x, 3);
  EXPECT_DOUBLE_EQ(out[1].y, 0);
  EXPECT_DOUBLE_EQ(out[2].x, 4);
  EXPECT_DOUBLE_EQ(out[2].y, 2);
  EXPECT_DOUBLE_EQ(out[3].y, 2);
}

TEST(StopMargin, LeavesPlansThatGoOnAndStandsWhereTheMarginIsLonger) {
  const std::vector<sim::Vec2> on = {{0, 0}, {4, 0}, {7, 0}, {9, 0}};
  for (size_t i = 0; i < on.size(); ++i) EXPECT_EQ(with_stop_margin(on, 1, 2)[i].x, on[i].x);
  for (const sim::Vec2& p : with_stop_margin({{3, 1}, {4, 1}, {4.5, 1}, {4.5, 1}}, 1, 2)) {
    EXPECT_EQ(p.x, 3);
    EXPECT_EQ(p.y, 1);
  }
  EXPECT_EQ(with_stop_margin({{3, 1}, {3, 1}}, 1, 2)[1].x, 3) << "who stands already";
  EXPECT_EQ(with_stop_margin({{3, 1}}, 1, 2).size(), 1U);
  EXPECT_TRUE(with_stop_margin({}, 1, 2).empty());
}

TEST(StopMargin, GoesByTheLastSecondWhateverThePointsDistance) {
  std::vector<sim::Vec2> plan;
  for (int i = 0; i <= 20; ++i) plan.push_back({std::min(i, 15) * 0.5, 0});  // at 4 Hz: 7.5 m, then 1.25 s at rest
  EXPECT_DOUBLE_EQ(with_stop_margin(plan, 0.25, 1.5).back().x, 6);
  plan.back().x += 0.6;
  EXPECT_DOUBLE_EQ(with_stop_margin(plan, 0.25, 1.5).back().x, plan.back().x);
}

}  // namespace
}  // namespace slip::drive
