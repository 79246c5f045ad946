// SPDX-License-Identifier: Apache-2.0
#include "forecast/user_cache.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/file.h"
#include "forecast/cost_store.h"
#include "forecast/forecast_store.h"
#include "forecast/price_watch.h"

namespace slip {
namespace {

class UserCacheTest : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(::testing::TempDir()) / fmt::format("slip_cache_{}", getpid());
    std::filesystem::remove_all(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  const json::object body_{{"rows", json::array{1, 8, 64}}, {"nanoseconds", json::array{62500, 250000, 2000000}}};
  const UserCache::Days day_{std::chrono::sys_days(std::chrono::year{2026} / 3 / 1)};
};

TEST_F(UserCacheTest, GivesBackWhatItKeepsForTheSameKeyWithinAMonth) {
  const UserCache cache(folder_);
  EXPECT_FALSE(cache.find("costs", "a", day_));
  cache.keep("costs", "a", body_, day_);
  const auto found = cache.find("costs", "a", day_ + std::chrono::days(31));
  ASSERT_TRUE(found);
  for (const auto& [name, value] : body_) EXPECT_EQ(found->at(name), value);
  EXPECT_FALSE(cache.find("costs", "b", day_));
  EXPECT_FALSE(cache.find("forecasts", "a", day_)) << "another kind";
  EXPECT_FALSE(cache.find("costs", "a", day_ + std::chrono::days(32))) << "stale";
  EXPECT_FALSE(cache.find("costs", "a", day_ - std::chrono::days(1))) << "of a day to come";
  cache.drop("costs", "a");
  EXPECT_FALSE(cache.find("costs", "a", day_));
}

TEST_F(UserCacheTest, TrustsNoFileThatIsNotWhole) {
  const UserCache cache(folder_);
  cache.keep("costs", "a", body_, day_);
  const auto file = cache.file_of("costs", "a");
  const std::string whole = *read_file(file);
  for (size_t i = 0; i + 1 < whole.size(); ++i) {  // one byte other
    std::string bad = whole;
    bad[i] = bad[i] == '7' ? '8' : '7';
    ASSERT_TRUE(write_file(file, bad));
    const auto found = cache.find("costs", "a", day_);
    if (!found) continue;
    for (const auto& [name, value] : body_) ASSERT_EQ(found->at(name), value) << "byte " << i;
  }
  for (size_t n = 0; n < whole.size(); n += 3) {  // cut off
    ASSERT_TRUE(write_file(file, whole.substr(0, n)));
    EXPECT_FALSE(cache.find("costs", "a", day_)) << n;
  }
  ASSERT_TRUE(write_file(cache.file_of("costs", "b"), whole));
  EXPECT_FALSE(cache.find("costs", "b", day_)) << "another key's file under this one's name";
}

TEST_F(UserCacheTest, AFolderThatCannotBeWrittenKeepsNothing) {
  ASSERT_TRUE(write_file(folder_, "a file in the folder's place"));
  const UserCache cache(folder_ / "below");
  cache.keep("costs", "a", body_, day_);
  EXPECT_FALSE(cache.find("costs", "a", day_));
  const UserCache none{std::filesystem::path()};
  none.keep("costs", "a", body_, day_);
  EXPECT_FALSE(none.find("costs", "a", day_));
}

TEST_F(UserCacheTest, HasNothingToDoWithAPipe) {
  const UserCache cache(folder_);
  std::filesystem::create_directories(folder_);
  ASSERT_EQ(mkfifo(cache.file_of("costs", "a").c_str(), 0600), 0);
  EXPECT_FALSE(cache.find("costs", "a", day_));
  cache.keep("costs", "a", body_, day_);  // and does not wait for its reader
  EXPECT_FALSE(cache.find("costs", "a", day_));
}

TEST_F(UserCacheTest, RemovesFilesOfItsKindThatCountNoMore) {
  const UserCache cache(folder_);
  for (const char* key : {"old", "young"}) cache.keep("costs", key, body_);
  cache.keep("forecasts", "old", body_);
  ASSERT_TRUE(write_file(folder_ / "notes.txt", "somebody's"));
  const auto set_days_back = [&](const std::filesystem::path& file, int days) {
    std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::hours(24 * days));
  };
  for (const auto& file : {cache.file_of("costs", "old"), cache.file_of("forecasts", "old"), folder_ / "notes.txt"})
    set_days_back(file, 40);
  set_days_back(cache.file_of("costs", "young"), 30);
  cache.keep("costs", "new", body_);
  EXPECT_FALSE(std::filesystem::exists(cache.file_of("costs", "old")));
  EXPECT_TRUE(std::filesystem::exists(cache.file_of("costs", "young")));
  EXPECT_TRUE(std::filesystem::exists(cache.file_of("forecasts", "old"))) << "another kind";
  EXPECT_TRUE(std::filesystem::exists(folder_ / "notes.txt"));
}

TEST_F(UserCacheTest, KeepsNoMoreThanSoManyOfAKind) {
  const UserCache cache(folder_);
  for (int i = 0; i < 520; ++i) cache.keep("costs", std::to_string(i), {});
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) files += entry.is_regular_file();
  EXPECT_EQ(files, 512u);
  EXPECT_TRUE(cache.find("costs", "519"));
}

TEST_F(UserCacheTest, KeepsPricesToTheNanosecond) {
  const CostStore store{UserCache(folder_)};
  const CostTable table = *CostTable::make({1, 8, 64}, {0.0625, 0.25, 2}, "test");
  EXPECT_FALSE(store.find("a"));
  store.keep("a", table);
  const auto found = store.find("a");
  ASSERT_TRUE(found);
  for (int32_t n = 1; n <= 100; ++n) EXPECT_EQ(found->ms(n), table.ms(n)) << n;
  EXPECT_EQ(words_of(*found), words_of(table));
  EXPECT_EQ(words_of(table), "1:62500 8:250000 64:2000000 ");
  store.drop("a");
  EXPECT_FALSE(store.find("a"));
  UserCache(folder_).keep("costs", "b", {{"rows", json::array{8, 1}}, {"nanoseconds", json::array{1, 2}}});
  EXPECT_FALSE(store.find("b")) << "not prices";
}

TEST_F(UserCacheTest, KeepsForecastsToTheLastBit) {
  const ForecastStore store{UserCache(folder_)};
  Forecast x;
  double n = 0.1;
  for (double* number : {&x.ms, &x.first_ms, &x.first_rows, &x.drafter_ms, &x.drafter_forwards, &x.forwards, &x.draft_forwards,
                         &x.rows, &x.tokens, &x.tested, &x.accepted})
    *number = n += 1 / 3.0;
  x.ms = x.first_ms + 1;
  const Foretold foretold{.prompt_rows = 77, .head_prompt_ms = 0.3, .candidates = {{"a", x}, {"b", std::nullopt}}};
  EXPECT_FALSE(store.find("k"));
  store.keep("k", foretold);
  const auto found = store.find("k");
  ASSERT_TRUE(found);
  EXPECT_TRUE(*found == foretold);
  // What is whole and no forecast.
  for (const int64_t rows : {int64_t{0}, int64_t{-1}, int64_t{1} << 31, int64_t{1} << 40}) {
    Foretold wrong = foretold;
    store.keep("l", wrong);
    json::object body = *UserCache(folder_).find("forecasts", "l");
    body["prompt_rows"] = rows;
    UserCache(folder_).keep("forecasts", "l", body);
    EXPECT_FALSE(store.find("l")) << rows;
  }
  for (const double ms : {-1.0, 0.0, 1e300}) {
    Foretold wrong = foretold;
    wrong.candidates.front().second->ms = ms;
    store.keep("m", wrong);
    EXPECT_FALSE(store.find("m")) << ms;
  }
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
