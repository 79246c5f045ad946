// SPDX-License-Identifier: Apache-2.0
#include "base/clock/operation_clock.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/threads/threads.h"

namespace slip {
namespace {

int64_t ticks = 0;
int64_t one_more() { return ++ticks; }
int64_t set_by_hand() { return ticks; }

std::map<std::string, int64_t> table_of(const OperationClock& clock) {
  std::map<std::string, int64_t> out;
  for (const auto& line : clock.lines()) out[std::string(line.stage) + "/" + std::string(line.operation)] += line.ns;
  return out;
}

TEST(OperationClock, TimeCountsForTheInnermostScope) {
  ticks = 0;
  OperationClock clock(set_by_hand);
  clock.start();
  ticks = 1;
  {
    const StageScope stage("encode");
    ticks = 3;
    {
      const OperationScope outer("tower");
      ticks = 10;
      {
        const OperationScope inner("attention");
        ticks = 30;
      }
      ticks = 31;
    }
    ticks = 35;
  }
  ticks = 100;
  clock.stop();
  ticks = 1000;
  const std::map<std::string, int64_t> want{{"/", 1 + 65}, {"encode/", 2 + 4}, {"encode/tower", 7 + 1}, {"encode/attention", 20}};
  EXPECT_EQ(table_of(clock), want);
  EXPECT_EQ(clock.total_ns(), 100);
}

// Every reading of this clock is one tick on, so that nothing may be read and not charged.
TEST(OperationClock, TheLinesAddUpToWhatPassed) {
  ticks = 0;
  OperationClock clock(one_more);
  clock.start();
  for (int i = 0; i < 100; ++i) {
    const StageScope stage(i % 2 ? "draft" : "verify");
    const OperationScope outer("pass");
    for (int j = 0; j < i % 7; ++j) const OperationScope inner("product");
  }
  clock.stop();
  int64_t sum = 0;
  for (const auto& line : clock.lines()) sum += line.ns;
  EXPECT_EQ(sum, ticks - 1);
  EXPECT_EQ(clock.total_ns(), ticks - 1);
  for (const auto& line : clock.lines()) {
    if (line.operation == "pass") {
      EXPECT_EQ(line.times, 50);
    }
  }
}

TEST(OperationClock, OnlyItsOwnThreadCounts) {
  OperationClock clock;
  EXPECT_EQ(OperationClock::of_thread(), nullptr);
  { const OperationScope nobody_listens("nothing"); }
  ThreadPool pool(2);
  clock.start();
  pool.run(64, [](int64_t) {
    const OperationScope work("work");
    volatile int64_t x = 0;
    for (int64_t i = 0; i < 1000; ++i) x = x + i;
  });
  clock.stop();
  { const OperationScope nobody_listens("nothing"); }
  int64_t times = 0;
  for (const auto& line : clock.lines()) {
    EXPECT_NE(line.operation, "nothing");
    if (line.operation == "work") times = line.times;
  }
  EXPECT_GE(times, 0);
  EXPECT_LE(times, 64);
  const auto table = table_of(clock);
  EXPECT_EQ(table.count("/hand-over to threads"), 1u);
  EXPECT_EQ(table.count("/waiting for threads"), 1u);
}

}  // namespace
}  // namespace slip
