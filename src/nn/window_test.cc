// SPDX-License-Identifier: Apache-2.0
// Windows over span lists: order counts, holes and other slots do not.
#include "nn/window.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

std::vector<SlotSpan> windowed(std::vector<SlotSpan> sees, int32_t slot, int32_t window) {
  std::vector<SlotSpan> out;
  append_window(sees, slot, window, out);
  return out;
}

TEST(Window, ACausalRowKeepsItselfAndTheKeysBefore) {
  EXPECT_EQ(windowed({{0, 10}}, 9, 4), (std::vector<SlotSpan>{{6, 10}}));
  EXPECT_EQ(windowed({{0, 10}}, 9, 1), (std::vector<SlotSpan>{{9, 10}}));
  EXPECT_EQ(windowed({{0, 3}}, 2, 4), (std::vector<SlotSpan>{{0, 3}}));
}

TEST(Window, OrderInTheListCountsNotTheSlots) {
  EXPECT_EQ(windowed({{100, 110}, {3, 5}, {50, 51}}, 50, 5), (std::vector<SlotSpan>{{108, 110}, {3, 5}, {50, 51}}));
  EXPECT_EQ(windowed({{100, 110}, {3, 5}, {50, 51}}, 50, 3), (std::vector<SlotSpan>{{3, 5}, {50, 51}}));
}

TEST(Window, WhatIsListedBehindTheRowStays) {
  EXPECT_EQ(windowed({{0, 20}}, 12, 4), (std::vector<SlotSpan>{{9, 20}}));
  EXPECT_EQ(windowed({{0, 8}, {30, 34}}, 31, 3), (std::vector<SlotSpan>{{7, 8}, {30, 34}}));
}

TEST(Window, ARowThatDoesNotSeeItselfStandsBehindItsList) {
  EXPECT_EQ(windowed({{0, 10}}, 40, 4), (std::vector<SlotSpan>{{7, 10}}));
}

}  // namespace
}  // namespace slip
