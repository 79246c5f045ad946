// SPDX-License-Identifier: Apache-2.0
#include "cuda/pass_plan.h"

#include <gtest/gtest.h>

#include <random>

namespace slip::cuda {
namespace {

struct Rows {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  int32_t first_slot = 0;  // of the rows' own
  void add(std::vector<SlotSpan> sees) {
    Row r;
    r.input = TokenId{0};
    r.slot = first_slot + static_cast<int32_t>(rows.size());
    r.sees_first = static_cast<uint32_t>(spans.size());
    r.sees_count = static_cast<uint32_t>(sees.size());
    spans.insert(spans.end(), sees.begin(), sees.end());
    rows.push_back(r);
  }
  Pass pass() const { return {rows, spans}; }
};

AttentionPlan planned(const Rows& rows, int heads_per_group, bool in_walks = false) {
  AttentionPlanner planner(heads_per_group, in_walks);
  AttentionPlan plan;
  planner.plan(rows.pass(), plan);
  return plan;
}

// A unit is fresh that has a key of the pass: what a kernel may read before the pass's own keys are written hangs on it.
void expect_fresh(const Rows& rows, const AttentionPlan& plan, const Item& item) {
  uint32_t fresh = 0;
  for (int32_t i = 0; i < item.slots; ++i)
    for (const Row& row : rows.rows)
      if (plan.slots[static_cast<size_t>(item.first_slot + i)] == row.slot) fresh |= 1U << (i / kKeyUnit);
  ASSERT_EQ(item.fresh, fresh);
}

// Every row's partials, in order, name exactly the slots that it sees.
void expect_whole(const Rows& rows, const AttentionPlan& plan) {
  std::vector<std::vector<int32_t>> parts(plan.item_rows.size());
  for (const Item& item : plan.items)
    for (int32_t i = 0; i < item.rows; ++i) {
      const ItemRow& r = plan.item_rows[static_cast<size_t>(item.first_row + i)];
      ASSERT_LE(r.sees, item.slots);
      expect_fresh(rows, plan, item);
      const auto first = plan.slots.begin() + item.first_slot;
      parts[static_cast<size_t>(r.partial)].assign(first, first + r.sees);
    }
  for (size_t t = 0; t < rows.rows.size(); ++t) {
    std::vector<int32_t> want, got;
    for (uint32_t s = 0; s < rows.rows[t].sees_count; ++s)
      for (int32_t i = rows.spans[rows.rows[t].sees_first + s].begin; i < rows.spans[rows.rows[t].sees_first + s].end; ++i)
        want.push_back(i);
    for (int32_t p = plan.first_partial_T[t]; p < plan.first_partial_T[t + 1]; ++p) {
      const bool last = p + 1 == plan.first_partial_T[t + 1];
      ASSERT_TRUE(last || parts[static_cast<size_t>(p)].size() == kKeyChunk) << "chunks are full but for the last";
      got.insert(got.end(), parts[static_cast<size_t>(p)].begin(), parts[static_cast<size_t>(p)].end());
    }
    ASSERT_EQ(got, want) << "row " << t;
  }
}

// Walks hold the rows side by side, and their items, chunk by chunk, begin with exactly the slots that a row sees.
void expect_walks(const Rows& rows, const AttentionPlan& plan, int most_rows) {
  int32_t next = 0, next_item = 0;
  for (const Walk& walk : plan.walks) {
    ASSERT_EQ(walk.first_row, next);
    ASSERT_EQ(walk.first_item, next_item);
    ASSERT_TRUE(walk.rows > 0 && walk.rows <= most_rows);
    std::vector<int32_t> slots;
    for (int32_t i = 0; i < walk.items; ++i) {
      const Item& item = plan.items[static_cast<size_t>(walk.first_item + i)];
      ASSERT_TRUE(i + 1 == walk.items || item.slots == kKeyChunk) << "chunks are full but for the last";
      const auto first = plan.slots.begin() + item.first_slot;
      slots.insert(slots.end(), first, first + item.slots);
    }
    for (next = walk.first_row; next < walk.first_row + walk.rows; ++next) {
      const Row& row = rows.rows[static_cast<size_t>(next)];
      std::vector<int32_t> want;
      for (uint32_t s = 0; s < row.sees_count; ++s)
        for (int32_t i = rows.spans[row.sees_first + s].begin; i < rows.spans[row.sees_first + s].end; ++i) want.push_back(i);
      ASSERT_EQ(plan.sees_T[static_cast<size_t>(next)], static_cast<int32_t>(want.size()));
      ASSERT_LE(want.size(), slots.size());
      ASSERT_TRUE(std::equal(want.begin(), want.end(), slots.begin())) << "row " << next;
    }
    next_item += walk.items;
  }
  ASSERT_EQ(next, static_cast<int32_t>(rows.rows.size()));
  ASSERT_EQ(next_item, static_cast<int32_t>(plan.items.size()));
}

// Prompts, cut anywhere, of which some rows see less than their neighbours; and rows that have little in common, which get items.
TEST(AttentionPlan, WalksNameWhatTheirRowsSee) {
  std::mt19937 random(7);
  const auto dice = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
  int walked = 0;
  for (int trial = 0; trial < 200; ++trial) {
    Rows rows;
    rows.first_slot = dice(900);
    const int n = kRowGroup + 1 + dice(300), group = 1 + dice(9);
    const int32_t skipped = dice(200);
    int32_t prefix = 400 + dice(300);
    for (int t = 0; t < n; ++t) {
      if (dice(trial % 3 == 0 ? 2 : 60) == 0) prefix = 400 + dice(300);
      rows.add({{skipped, prefix}, {800, 800 + t + 1}});
    }
    const AttentionPlan plan = planned(rows, group, true);
    walked += !plan.walks.empty();
    if (plan.walks.empty())
      expect_whole(rows, plan);
    else
      expect_walks(rows, plan, kMostQueries / group);
  }
  EXPECT_TRUE(walked > 50 && walked < 200) << walked;
}

TEST(AttentionPlan, GivesEveryRowItsKeysInOrder) {
  std::mt19937 random(3);
  const auto dice = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    Rows rows;
    rows.first_slot = dice(900);
    const int32_t prefix = 1 + dice(700);
    const int n = 1 + dice(70);
    for (int t = 0; t < n; ++t) {
      std::vector<SlotSpan> sees = {{0, prefix}};
      for (int s = dice(4); s > 0; --s) {
        const int32_t begin = 800 + dice(100);
        sees.push_back({begin, begin + dice(40)});
      }
      if (dice(3) == 0) sees.erase(sees.begin(), sees.end() - 1);
      if (sees.front().begin == sees.front().end) sees.front().end++;
      rows.add(sees);
    }
    expect_whole(rows, planned(rows, 1 + dice(9)));
  }
}

// Also rows that share nothing, and more chunks than usual.
TEST(AttentionPlan, EveryPlanFitsItsRoom) {
  std::mt19937 random(5);
  const auto dice = [&](int n) { return static_cast<int32_t>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 300; ++trial) {
    Rows rows;
    const int n = 1 + dice(90), group = 1 << dice(7);
    const int32_t most = trial % 10 == 0 ? 9000 : 900;
    for (int t = 0; t < n; ++t) {
      const int32_t begin = trial % 3 == 0 ? dice(most) : 0;
      rows.add({{begin, begin + 1 + dice(most)}});
    }
    AttentionPlanner planner(group, trial % 2 == 0);
    AttentionPlan plan;
    planner.plan(rows.pass(), plan);
    const Room room = planner.room(rows.pass(), plan);
    ASSERT_GE(room.rows, n);
    ASSERT_GE(room.items, static_cast<int32_t>(plan.items.size()));
    ASSERT_GE(room.item_rows, static_cast<int32_t>(plan.item_rows.size()));
    ASSERT_GE(room.slots, static_cast<int32_t>(plan.slots.size()));
    ASSERT_GE(room.walks, static_cast<int32_t>(plan.walks.size()));
    ASSERT_LE(PassLayout(room, 32).used(plan), PassLayout(room, 32).bytes);
    ASSERT_LE(plan.most_rows * group, std::max(planner.queries(rows.rows.size()), group));
  }
}

TEST(AttentionPlan, ItsRoomIsTheSameBehindAnyNumberOfKeysTo4096) {
  for (const int n : {1, 8, 12, 27, 64}) {
    std::vector<Room> rooms;
    for (const int32_t keys : {1, 300, 1500, 4000}) {
      Rows rows;
      rows.first_slot = keys;
      for (int32_t t = 0; t < n; ++t) rows.add({{0, keys + t + 1}});
      AttentionPlanner planner(8, true);
      AttentionPlan plan;
      planner.plan(rows.pass(), plan);
      rooms.push_back(planner.room(rows.pass(), plan));
    }
    for (const Room& r : rooms) EXPECT_EQ(r, rooms.front()) << n;
  }
}

TEST(AttentionPlan, RowsBehindOnePromptShareItsKeys) {
  Rows rows;
  rows.first_slot = 1024;
  for (int32_t t = 0; t < 24; ++t) rows.add({{0, 1024 + t + 1}});
  const AttentionPlan plan = planned(rows, 8);
  expect_whole(rows, plan);
  EXPECT_EQ(plan.items.size(), 3U * 5U) << "for eight rows each, four chunks of the prompt and the block's own";
  EXPECT_EQ(plan.slots.size(), 1024U + 24) << "written once for all";
}

TEST(AttentionPlan, ShortPassesHaveSmallItems) {
  Rows rows;
  for (int32_t t = 0; t < 8; ++t) rows.add({{0, 1024 + t + 1}});
  const AttentionPlan plan = planned(rows, 8);
  expect_whole(rows, plan);
  EXPECT_EQ(plan.most_rows, 2);
  EXPECT_EQ(plan.items.size(), 4U * 5U);
}

TEST(AttentionPlan, APrefillReadsKeysOnceForEightRowsOfAGroupOfEightHeads) {
  Rows rows;
  for (int32_t t = 0; t < 1440; ++t) rows.add({{0, t + 1}});
  for (const bool in_walks : {false, true}) {
    const AttentionPlan plan = planned(rows, 8, in_walks);
    EXPECT_LT(plan.slots.size(), 1440U * 1440U / 2 / 7);
    EXPECT_EQ(plan.walks.size(), in_walks ? 1440U / 8 : 0U);
    if (in_walks)
      expect_walks(rows, plan, 8);
    else
      expect_whole(rows, plan);
    EXPECT_EQ(plan.item_rows.empty(), in_walks) << "what items come to takes memory that grows with the square of the rows";
  }
}

}  // namespace
}  // namespace slip::cuda
