// SPDX-License-Identifier: Apache-2.0
// Promises of record sets: what was written is read back, and damage is named, not read.
#include <gtest/gtest.h>

#include <unistd.h>

#include <cstring>
#include <functional>
#include <limits>

#include "base/file.h"
#include "sim/record.h"
#include "sim/record/label_blocks.h"
#include "sim/record/make.h"
#include "sim/record/seen.h"
#include "sim/record/shards.h"

namespace slip::sim {
namespace {

class Shards : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = std::filesystem::temp_directory_path() /
           fmt::format("slip-shards-{}-{}", ::getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(dir_);
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  void write(int64_t n, bool images) {
    auto w = RecordSetWriter::create(dir_, 40, n, {});
    ASSERT_TRUE(w) << w.error().message;
    for (int64_t i = 0; i < n; ++i) {
      const auto r = make_record(static_cast<uint64_t>(40 + i), {}, images);
      ASSERT_TRUE(r);
      ASSERT_TRUE(w->add(*r));
    }
    const Status s = w->finish();
    ASSERT_TRUE(s) << s.error().message;
  }
  void damage(const std::function<std::string(std::string)>& how) {
    const auto text = read_file(dir_ / "shard-00000.slip");
    ASSERT_TRUE(text);
    ASSERT_TRUE(write_file(dir_ / "shard-00000.slip", how(*text)));
  }
  void expect_refused(std::string_view part) {
    const auto s = RecordSet::open(dir_);
    ASSERT_FALSE(s);
    expect_error(s.error(), part);
  }
  void expect_error(const Error& e, std::string_view part) {
    EXPECT_EQ(e.kind, ErrorKind::kBadInput);
    EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
    EXPECT_NE(e.message.find("shard-00000.slip"), std::string::npos) << e.message;
  }
  void expect_not_finite(const Record& r) {
    std::filesystem::remove_all(dir_);
    auto w = RecordSetWriter::create(dir_, 40, 1, {});
    ASSERT_TRUE(w && w->add(r) && w->finish());
    const auto got = RecordSet::open(dir_)->labels(0);
    ASSERT_FALSE(got);
    expect_error(got.error(), "record of seed 40: expected finite");
  }
  std::filesystem::path dir_;
};

TEST_F(Shards, ReadsBackWhatWasWrittenAcrossShards) {
  write(1003, false);
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->size(), 1003);
  for (const int64_t i : {0, 1, 999, 1000, 1002}) {
    const auto got = set->labels(i);
    const auto want = make_record(static_cast<uint64_t>(40 + i), {}, false);
    ASSERT_TRUE(got && want);
    EXPECT_EQ(got->seed, want->labels.seed);
    EXPECT_EQ(got->family, want->labels.family);
    EXPECT_EQ(got->critical, want->labels.critical);
    EXPECT_EQ(got->visible, want->labels.visible);
    EXPECT_EQ(got->causal, want->labels.causal);
    EXPECT_EQ(got->explanation, want->labels.explanation);
    EXPECT_EQ(got->longitudinal, want->labels.longitudinal);
    EXPECT_EQ(got->lateral, want->labels.lateral);
    EXPECT_EQ(got->pre_onset, want->labels.pre_onset);
    EXPECT_EQ(got->v0_mps, want->labels.v0_mps);
    EXPECT_EQ(std::memcmp(got->history.data(), want->labels.history.data(), sizeof got->history), 0);
    EXPECT_EQ(std::memcmp(got->future.data(), want->labels.future.data(), sizeof got->future), 0);
    EXPECT_TRUE(set->images(i).empty());
  }
  EXPECT_FALSE(set->labels(1003));
  const auto one = RecordSet::open(dir_ / "shard-00001.slip");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->size(), 3);
}

TEST_F(Shards, KeepsEveryPixel) {
  write(3, true);
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set) << set.error().message;
  const auto want = make_record(41, {}, true);
  ASSERT_TRUE(want);
  const auto got = set->pictures(1);
  ASSERT_TRUE(got) << got.error().message;
  ASSERT_EQ(got->size(), want->images.size());
  EXPECT_EQ(std::memcmp(got->data(), want->images.data(), got->size()), 0);
  EXPECT_FALSE(set->pictures(3));
}

TEST_F(Shards, BodiesComeBackAsTheyWere) {
  auto w = RecordSetWriter::create(dir_, 40, 5, {});
  ASSERT_TRUE(w);
  std::vector<Record> written;
  for (uint64_t seed = 40; seed < 45; ++seed) {  // one that tells none begins a shard of its own
    written.push_back(seed == 43 ? *make_record(seed, {}, false) : *make_mixed(seed, 0.5, {}, false));
    EXPECT_EQ(written.back().labels.bodies.has_value(), seed != 43);
    ASSERT_TRUE(w->add(written.back()));
  }
  ASSERT_TRUE(w->finish());
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set) << set.error().message;
  ASSERT_EQ(set->size(), 5);
  size_t all = 0;
  for (int64_t i = 0; i < 5; ++i) {
    const auto got = set->labels(i);
    const auto& want = written[static_cast<size_t>(i)].labels;
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_EQ(got->explanation, want.explanation);
    ASSERT_EQ(got->bodies.has_value(), want.bodies.has_value());
    if (!want.bodies) continue;
    EXPECT_EQ(*got->bodies, *want.bodies) << i;
    all += want.bodies->size();
  }
  EXPECT_GT(all, 8U);
}

TEST_F(Shards, TextsOfMovedEgosComeBackAsTheyWere) {
  auto w = RecordSetWriter::create(dir_, 40, 4, {});
  ASSERT_TRUE(w);
  std::vector<Record> written;
  for (uint64_t seed = 40; seed < 44; ++seed) {
    written.push_back(*make_mixed(seed, 0.5, {}, false));
    ASSERT_TRUE(written.back().labels.cot);
    if (seed == 42) written.back().labels.cot = nullptr;  // of before texts were kept: a shard of its own
    ASSERT_TRUE(w->add(written.back()));
  }
  ASSERT_TRUE(w->finish());
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set) << set.error().message;
  for (int64_t i = 0; i < 4; ++i) {
    const auto got = set->labels(i);
    ASSERT_TRUE(got) << got.error().message;
    const auto& want = written[static_cast<size_t>(i)].labels;
    ASSERT_EQ(got->cot != nullptr, want.cot != nullptr) << i;
    if (want.cot) {
      EXPECT_EQ(*got->cot, *want.cot) << i;
    }
    EXPECT_EQ(*got->bodies, *want.bodies) << i;
  }
}

TEST_F(Shards, TextsThatDoNotFitOrAreNotWholeAreRefused) {
  Record r = *make_mixed(40, 1, {}, false);
  CotLabels large = *r.labels.cot;
  large.lanes = std::string(kCotBytes, 'x');
  r.labels.cot = std::make_shared<const CotLabels>(large);
  auto w = RecordSetWriter::create(dir_, 40, 1, {});
  ASSERT_TRUE(w);
  const Status added = w->add(r);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(added.error().message.find("expected texts of at most"), std::string::npos) << added.error().message;
  CotBlock block = *cot_block(CotLabels{}, 40);
  EXPECT_TRUE(cot_in(block, "set", 40));
  --block.text_bytes;
  EXPECT_FALSE(cot_in(block, "set", 40));
  block.text_bytes = kCotBytes + 1;
  EXPECT_FALSE(cot_in(block, "set", 40));
}

TEST_F(Shards, BodiesOutOfRangeAreRefused) {
  const auto refused = [&](const SeenBody& body, std::string_view part) {
    std::filesystem::remove_all(dir_);
    Record r = *make_record(40, {}, false);
    r.labels.bodies = {body};
    auto w = RecordSetWriter::create(dir_, 40, 1, {});
    ASSERT_TRUE(w && w->add(r) && w->finish());
    const auto got = RecordSet::open(dir_)->labels(0);
    ASSERT_FALSE(got);
    expect_error(got.error(), part);
  };
  refused({.what = static_cast<Seen>(kSeenKinds)}, "expected bodies with kinds and sizes in range");
  refused({.x = std::numeric_limits<float>::quiet_NaN()}, "expected bodies with kinds and sizes in range");
  refused({.high = std::numeric_limits<float>::infinity()}, "expected bodies with kinds and sizes in range");
  Record r = *make_record(40, {}, false);
  r.labels.bodies.emplace(kMostBodies + 1);
  std::filesystem::remove_all(dir_);
  auto w = RecordSetWriter::create(dir_, 40, 1, {});
  ASSERT_TRUE(w);
  EXPECT_FALSE(w->add(r));
}

TEST_F(Shards, ARecordWithoutPicturesSaysSo) {
  write(2, false);
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set);
  const auto got = set->pictures(1);
  ASSERT_FALSE(got);
  expect_error(got.error(), "expected records with pictures, got none");
}

TEST_F(Shards, ANumberThatIsNotFiniteIsRefused) {
  Record r = *make_record(40, {}, false);
  r.labels.v0_mps = std::numeric_limits<float>::quiet_NaN();
  expect_not_finite(r);
  r = *make_record(40, {}, false);
  r.labels.history[15].vy = std::numeric_limits<float>::infinity();
  expect_not_finite(r);
  r = *make_record(40, {}, false);
  r.labels.future[63].kappa = -std::numeric_limits<float>::infinity();
  expect_not_finite(r);
}

TEST_F(Shards, ATruncatedShardIsRefused) {
  write(5, false);
  damage([](std::string t) { return t.substr(0, t.size() - 1); });
  expect_refused("expected 13144 bytes for 5 records, got 13143");
}
TEST_F(Shards, AHeadersRemainIsRefused) {
  write(5, false);
  damage([](std::string t) { return t.substr(0, 20); });
  expect_refused("expected at least 64 bytes, got 20");
}
TEST_F(Shards, AFlippedLabelBitIsRefusedWhenTheShardIsFirstUsed) {
  write(5, false);
  damage([](std::string t) { return t.substr(0, 2780) + static_cast<char>(t.at(2780) ^ 4) + t.substr(2781); });
  const auto set = RecordSet::open(dir_);
  ASSERT_TRUE(set) << set.error().message;
  for (const int64_t i : {4, 0, 1}) {  // the damage is in record 1: the whole shard is refused, every time
    const auto got = set->labels(i);
    ASSERT_FALSE(got);
    expect_error(got.error(), "checksum");
  }
}
TEST_F(Shards, AnotherFileIsRefused) {
  write(5, false);
  damage([](std::string t) {
    t.at(0) = 'X';
    return t;
  });
  expect_refused("magic");
}
TEST_F(Shards, AnotherVersionIsRefused) {
  write(5, false);
  damage([](std::string t) {
    t.at(8) = 99;
    return t;
  });
  expect_refused("simulator version");
}
TEST_F(Shards, ASetThatWasNotFinishedDoesNotExist) {
  auto w = RecordSetWriter::create(dir_, 40, 2, {});
  ASSERT_TRUE(w);
  const auto r = make_record(40, {}, false);
  ASSERT_TRUE(r && w->add(*r));
  EXPECT_FALSE(w->finish());
  EXPECT_FALSE(RecordSet::open(dir_));
}
TEST_F(Shards, AnUnfinishedSetLeavesOnlyTheFolderThatWasThere) {
  const auto begin = [&] {
    auto w = RecordSetWriter::create(dir_ / "set", 40, 2, {});
    ASSERT_TRUE(w);
    const auto r = make_record(40, {}, false);
    ASSERT_TRUE(r && w->add(*r));
  };
  begin();
  EXPECT_FALSE(std::filesystem::exists(dir_ / "set")) << "made for the set";
  std::filesystem::create_directories(dir_ / "set");
  begin();
  EXPECT_TRUE(std::filesystem::is_empty(dir_ / "set"));
}

}  // namespace
}  // namespace slip::sim
