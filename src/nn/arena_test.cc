// SPDX-License-Identifier: Apache-2.0
// Slots are handed out, shared, cropped and given back without loss.
#include "nn/arena.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace slip {
namespace {

TEST(KvArena, LayersAreDisjointZeroedAndAligned) {
  auto arena = KvArena::create(3, 5, 2, 3);
  ASSERT_TRUE(arena);
  for (int32_t layer = 0; layer < 3; ++layer) {
    for (float* p : {arena->keys_SGK(layer), arena->values_SGK(layer)}) {
      EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0U);
      for (int i = 0; i < 30; ++i) EXPECT_EQ(p[i], 0.0F);
      for (int i = 0; i < 30; ++i) p[i] = 1;
    }
  }
}

TEST(KvArena, ImpossibleSizeIsRefusedWithItsNumbers) {
  const auto none = KvArena::create(0, 5, 2, 3);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().kind, ErrorKind::kUsage);
}

TEST(SlotAllocator, PrefersOneRunThenFragmentsThenRefuses) {
  SlotAllocator slots(10);
  std::vector<SlotSpan> a, b, c, d;
  ASSERT_TRUE(slots.allocate(4, a));
  ASSERT_TRUE(slots.allocate(3, b));
  EXPECT_EQ(a, (std::vector<SlotSpan>{{0, 4}}));
  EXPECT_EQ(b, (std::vector<SlotSpan>{{4, 7}}));
  slots.release(a);
  EXPECT_EQ(slots.free_slots(), 7);
  ASSERT_TRUE(slots.allocate(6, c));
  EXPECT_EQ(c, (std::vector<SlotSpan>{{0, 4}, {7, 9}}));
  const Status full = slots.allocate(2, d);
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().kind, ErrorKind::kResource);
  EXPECT_TRUE(d.empty());
  EXPECT_EQ(slots.free_slots(), 1);
}

TEST(SlotAllocator, SharedSlotsAreFreeOnlyAfterTheLastRelease) {
  SlotAllocator slots(4);
  std::vector<SlotSpan> a;
  ASSERT_TRUE(slots.allocate(3, a));
  slots.retain(a);
  slots.release(a);
  EXPECT_EQ(slots.free_slots(), 1);
  slots.release(a);
  EXPECT_EQ(slots.free_slots(), 4);
}

TEST(Sequence, ForkCopiesCropShortensViewCutsAcrossSpans) {
  Sequence s;
  s.append({0, 3});
  s.append({3, 5});
  s.append({8, 10});
  EXPECT_EQ(s.size(), 7);
  EXPECT_EQ(s.spans().size(), 2U);
  EXPECT_EQ(s.slot(4), 4);
  EXPECT_EQ(s.slot(5), 8);
  Sequence fork = s;
  std::vector<SlotSpan> dropped;
  fork.crop(4, &dropped);
  EXPECT_EQ(fork.size(), 4);
  EXPECT_EQ(dropped, (std::vector<SlotSpan>{{8, 10}, {4, 5}}));
  EXPECT_EQ(s.size(), 7);
  std::vector<SlotSpan> view;
  s.view(2, 6, view);
  EXPECT_EQ(view, (std::vector<SlotSpan>{{2, 5}, {8, 9}}));
}

}  // namespace
}  // namespace slip
