// SPDX-License-Identifier: Apache-2.0
#include "lm/pass_check.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(ChooseTaps, TakesLayersInTheCallersOrderAndRefusesWithoutAChange) {
  LmInfo info{.name = "small", .tap_layers = {0}};
  const Status refused = choose_taps(std::vector<int32_t>{1, 4}, 4, info);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().kind, ErrorKind::kBadInput);
  EXPECT_EQ(refused.error().message, "small: tapped layer: expected one of 0 to 3, got 4");
  EXPECT_EQ(info.tap_layers, std::vector<int32_t>{0});
  ASSERT_TRUE(choose_taps(std::vector<int32_t>{3, 1, 3}, 4, info));
  EXPECT_EQ(info.tap_layers, (std::vector<int32_t>{3, 1, 3}));
}

}  // namespace
}  // namespace slip
