// SPDX-License-Identifier: Apache-2.0
#include "lm/spans.h"

#include <gtest/gtest.h>

namespace slip {
namespace {

TEST(AppendSpan, JoinsWhatTouchesAndDropsWhatIsEmpty) {
  std::vector<SlotSpan> spans;
  append_span(spans, {0, 3});
  append_span(spans, {3, 5});
  append_span(spans, {5, 5});
  append_span(spans, {8, 10});
  EXPECT_EQ(spans, (std::vector<SlotSpan>{{0, 5}, {8, 10}}));
}

TEST(AppendSpan, LeavesTheSpansOfAnotherRowAlone) {
  std::vector<SlotSpan> spans = {{0, 3}};
  append_span(spans, {3, 5}, spans.size());
  EXPECT_EQ(spans, (std::vector<SlotSpan>{{0, 3}, {3, 5}}));
}

}  // namespace
}  // namespace slip
