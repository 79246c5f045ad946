// SPDX-License-Identifier: Apache-2.0
#include "forecast/cost_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "forecast/price_watch.h"

namespace slip {
namespace {

class CostStoreTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("slip_costs_{}", getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  const CostTable table_ = *CostTable::make({1, 8, 64}, {0.0625, 0.25, 2}, "test");
  const CostStore::Days day_{std::chrono::sys_days(std::chrono::year{2026} / 3 / 1)};
};

TEST_F(CostStoreTest, GivesBackWhatItKeepsForTheSameKeyWithinAMonth) {
  const CostStore store(folder_);
  EXPECT_FALSE(store.find("a", day_));
  store.keep("a", table_, day_);
  const auto found = store.find("a", day_ + std::chrono::days(31));
  ASSERT_TRUE(found);
  for (int32_t n = 1; n <= 100; ++n) EXPECT_EQ(found->ms(n), table_.ms(n)) << n;
  EXPECT_FALSE(store.find("b", day_));
  EXPECT_FALSE(store.find("a", day_ + std::chrono::days(32))) << "stale";
  EXPECT_FALSE(store.find("a", day_ - std::chrono::days(1))) << "of a day to come";
  store.drop("a");
  EXPECT_FALSE(store.find("a", day_));
}

TEST_F(CostStoreTest, TrustsNoFileThatIsNotWhole) {
  const CostStore store(folder_);
  store.keep("a", table_, day_);
  const std::string whole = *read_file(store.file_of("a"));
  for (size_t i = 0; i + 1 < whole.size(); ++i) {  // one byte other
    std::string bad = whole;
    bad[i] = bad[i] == '7' ? '8' : '7';
    ASSERT_TRUE(write_file(store.file_of("a"), bad));
    const auto found = store.find("a", day_);
    for (int32_t n = 1; found && n <= 64; ++n) ASSERT_EQ(found->ms(n), table_.ms(n)) << "byte " << i;
  }
  for (size_t n = 0; n < whole.size(); n += 3) {  // cut off
    ASSERT_TRUE(write_file(store.file_of("a"), whole.substr(0, n)));
    EXPECT_FALSE(store.find("a", day_)) << n;
  }
  ASSERT_TRUE(write_file(store.file_of("b"), whole));
  EXPECT_FALSE(store.find("b", day_)) << "another key's file under this one's name";
}

TEST_F(CostStoreTest, AFolderThatCannotBeWrittenKeepsNothing) {
  ASSERT_TRUE(write_file(folder_, "a file in the folder's place"));
  const CostStore store(folder_ / "below");
  store.keep("a", table_, day_);
  EXPECT_FALSE(store.find("a", day_));
  const CostStore none{std::filesystem::path()};
  none.keep("a", table_, day_);
  EXPECT_FALSE(none.find("a", day_));
}

TEST_F(CostStoreTest, TakesNothingFromAPipe) {
  const CostStore store(folder_);
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(mkfifo(store.file_of("a").c_str(), 0600), 0);
  EXPECT_FALSE(store.find("a", day_));
}

TEST(PriceWatch, DisprovesByOneAnswerThatIsFarOffOrBySeveralThatAreOff) {
  PriceWatch one;
  EXPECT_FALSE(one.disproved(3.9, 1, true));
  EXPECT_TRUE(PriceWatch().disproved(4.1, 1, true));
  EXPECT_TRUE(PriceWatch().disproved(1, 4.1, true));
  EXPECT_FALSE(PriceWatch().disproved(4.1, 1, false)) << "measured now: the answer may have been disturbed";
  EXPECT_FALSE(PriceWatch().disproved(0, 1, true));
  PriceWatch many, right;
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(many.disproved(1, 2.2, false)) << i;
  EXPECT_TRUE(many.disproved(1, 2.2, false));
  for (int i = 0; i < 100; ++i) EXPECT_FALSE(right.disproved(i % 2 ? 1.9 : 0.6, 1, false)) << i;
  many.renewed();
  for (int i = 0; i < 63; ++i) EXPECT_FALSE(many.disproved(1, 2.2, false)) << i;
  EXPECT_TRUE(many.disproved(1, 2.2, false)) << "on a machine that is never quiet it takes longer";
}

}  // namespace
}  // namespace slip
