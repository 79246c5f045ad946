// SPDX-License-Identifier: Apache-2.0
// Promises of the import: records say what their recordings say and mark what they do not know; sets are read by whoever reads simulated
// ones; records survive the way to MCAP and back.
#include "import/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

#include "base/file.h"
#include "import/conversation.h"
#include "import/track.h"
#include "sim/record/make.h"
#include "sim/record/shards.h"

namespace slip {
namespace {

namespace fs = std::filesystem;
const fs::path kFixtures = fs::path(SLIP_FIXTURES) / "import";

class Import : public ::testing::Test {
 protected:
  void SetUp() override {
    dir_ = fs::temp_directory_path() /
           fmt::format("slip-import-{}-{}", ::getpid(), ::testing::UnitTest::GetInstance()->current_test_info()->name());
    fs::remove_all(dir_);
    fs::create_directories(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }
  fs::path dir_;
};

/// A circle of 50 m at 10 m/s, turning left.
Track circle() {
  std::vector<TimedPose> poses;
  for (int i = 0; i <= 300; ++i) {
    const double t = 0.05 * i, a = t * 10 / 50;
    poses.push_back({t, {50 * std::sin(a), 50 - 50 * std::cos(a), a}});
  }
  auto t = Track::of(std::move(poses), "circle");
  EXPECT_TRUE(t);
  return *t;
}

TEST(Track, LabelsOfACircleAreThoseOfACircle) {
  const sim::Labels l = labels_at(circle(), 6, sim::Intent::kGoLeft);
  for (const double t : {1.0, 3.0, 5.0}) {
    const sim::Vec2 p = sim::future_at(l, t);
    EXPECT_NEAR(p.x, 50 * std::sin(t / 5), 0.01) << t;
    EXPECT_NEAR(p.y, 50 - 50 * std::cos(t / 5), 0.01) << t;
  }
  for (const sim::EgoState& e : l.history) {
    EXPECT_NEAR(e.x, 50 * std::sin(e.t_s / 5), 0.01);
    EXPECT_NEAR(std::hypot(e.vx, e.vy), 10, 0.05);
    EXPECT_NEAR(e.vx, 10 * std::cos(e.t_s / 5), 0.05);
    EXPECT_NEAR(std::hypot(e.ax, e.ay), 2, 0.1);  // v^2 / r
  }
  EXPECT_NEAR(l.future[30].kappa, 1 / 50.0, 1e-3);
  EXPECT_NEAR(l.future[9].yaw, 0.2, 1e-3);
  EXPECT_EQ(l.longitudinal, sim::Longitudinal::kKeepSpeed);
  EXPECT_EQ(l.lateral, sim::Lateral::kTurnLeft);
  EXPECT_EQ(l.unknown, sim::kImported | sim::kUnknownObjects | sim::kUnknownExplanation);
}

TEST(Track, AFutureThatEndsIsUnknown) {
  const sim::Labels l = labels_at(circle(), 12, sim::Intent::kGoStraight);  // 3 s are left
  EXPECT_NE(l.unknown & sim::kUnknownFuture, 0U);
  EXPECT_NE(l.unknown & sim::kUnknownBehaviour, 0U);
}

TEST(Track, RefusesTimesThatDoNotAscend) {
  EXPECT_FALSE(Track::of({{0, {}}, {0, {}}}, "t"));
  EXPECT_FALSE(Track::of({{0, {}}}, "t"));
  EXPECT_FALSE(Track::of({{0, {}}, {1, {NAN, 0, 0}}}, "t"));
}

TEST_F(Import, WodFramesBecomeRecords) {
  const ImportOptions o{.format = ImportFormat::kWodE2e,
                        .source = kFixtures / "wod" / "frames.tfrecord",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {}};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->records, 3);
  EXPECT_EQ(counts->without_future, 1);
  EXPECT_EQ(counts->pictures, 3);
  const auto set = sim::RecordSet::open(dir_ / "set");
  ASSERT_TRUE(set) << set.error().message;
  const auto first = set->labels(0), last = set->labels(2);
  ASSERT_TRUE(first && last);
  EXPECT_NEAR(sim::future_at(*first, 0.25).x, 1.33314847946167, 1e-3);
  EXPECT_NEAR(sim::future_at(*first, 5).x, 5 * 4 * 1.3331485, 0.02);
  EXPECT_EQ(first->unknown, sim::kImported | sim::kUnknownObjects | sim::kUnknownExplanation);
  EXPECT_EQ(last->unknown & sim::kUnknownFuture, sim::kUnknownFuture);
  EXPECT_EQ(last->intent, sim::Intent::kGoRight);
  EXPECT_FLOAT_EQ(first->history[0].x, -19.997228622436523F);
  EXPECT_TRUE(set->pictures(0));
  const auto frames = read_file(dir_ / "set" / "frames.jsonl");
  ASSERT_TRUE(frames);
  EXPECT_NE(frames->find("\"name\":\"a59d7ff05e85323c9d92392903df91a1-000\""), std::string::npos);
  EXPECT_NE(frames->find("\"raters\":[{\"score\":9.5"), std::string::npos);
}

TEST_F(Import, WhatIsNoPictureIsRefusedAndNothingIsLeft) {
  const ImportOptions o{.format = ImportFormat::kWodE2e,
                        .source = kFixtures / "wod" / "no_jpeg.tfrecord",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {}};
  const auto counts = import_records(o, {}, {});
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().kind, ErrorKind::kBadInput);
  EXPECT_FALSE(fs::exists(dir_ / "set" / "index.json"));
}

TEST_F(Import, NuScenesSamplesBecomeRecordsWithoutPictures) {
  ImportOptions o{.format = ImportFormat::kNuScenes,
                  .source = kFixtures / "nuscenes",
                  .out = dir_ / "set",
                  .pictures = {},
                  .version = {},
                  .with_pictures = false};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->records, 2);  // of 14: those with 3.75 s before them
  EXPECT_EQ(counts->without_history, 12);
  o.least_history_s = 0;
  o.out = dir_ / "all";
  const auto all = import_records(o, {}, {});
  ASSERT_TRUE(all);
  EXPECT_EQ(all->records, 14);
  o.with_pictures = true;
  o.out = dir_ / "pictures";
  const auto none = import_records(o, {}, {});
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("CAM_FRONT"), std::string::npos) << none.error().message;
}

void write_npy(const fs::path& file, int columns, const std::vector<double>& v) {
  const std::string header = fmt::format("{{'descr': '<f8', 'fortran_order': False, 'shape': ({}, {}), }}\n",
                                         v.size() / static_cast<size_t>(columns), columns);
  std::string out("\x93NUMPY\x01\x00", 8);
  const auto n = static_cast<uint16_t>(header.size());
  out.append(reinterpret_cast<const char*>(&n), 2).append(header);
  out.append(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(double));
  ASSERT_TRUE(write_file(file, out));
}

TEST_F(Import, ACommaSegmentIsSampledAlongItsDrive) {
  std::vector<double> times, positions, velocities;
  for (int i = 0; i < 400; ++i) {  // 20 s northwards at 15 m/s from a place on the equator
    times.push_back(1000 + 0.05 * i);
    positions.insert(positions.end(), {6'371'000.0, 0.0, 0.75 * i});
    velocities.insert(velocities.end(), {0.0, 0.0, 15.0});
  }
  fs::create_directories(dir_ / "segment" / "global_pose");
  write_npy(dir_ / "segment" / "global_pose" / "frame_times", 1, times);
  write_npy(dir_ / "segment" / "global_pose" / "frame_positions", 3, positions);
  write_npy(dir_ / "segment" / "global_pose" / "frame_velocities.npy", 3, velocities);
  const ImportOptions o{.format = ImportFormat::kComma2k19,
                        .source = dir_ / "segment",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {},
                        .every_s = 2};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->records, 8);  // at 4, 6 .. 18 s
  EXPECT_EQ(counts->without_future, 2);
  EXPECT_EQ(counts->pictures, 0);
  const auto labels = sim::RecordSet::open(dir_ / "set")->labels(1);
  ASSERT_TRUE(labels);
  EXPECT_NEAR(sim::future_at(*labels, 5).x, 75, 1e-3);
  EXPECT_NEAR(sim::future_at(*labels, 5).y, 0, 1e-3);
  EXPECT_NEAR(labels->v0_mps, 15, 1e-3);
}

TEST_F(Import, RecordsSurviveTheWayToMcapAndBack) {
  auto writer = sim::RecordSetWriter::create(dir_ / "made", 40, 2, {});
  ASSERT_TRUE(writer);
  for (uint64_t seed = 40; seed < 42; ++seed) ASSERT_TRUE(writer->add(*sim::make_record(seed)));
  ASSERT_TRUE(writer->finish());
  const auto sent = export_mcap(dir_ / "made", dir_ / "made.mcap", {}, {});
  ASSERT_TRUE(sent) << sent.error().message;
  EXPECT_EQ(*sent, 2);
  const ImportOptions o{
      .format = ImportFormat::kMcap, .source = dir_ / "made.mcap", .out = dir_ / "back", .pictures = {}, .version = {}};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->records, 2);
  EXPECT_EQ(counts->without_future, 0);
  const auto made = sim::RecordSet::open(dir_ / "made"), back = sim::RecordSet::open(dir_ / "back");
  ASSERT_TRUE(made && back);
  for (int64_t i = 0; i < 2; ++i) {
    const auto a = made->labels(i), b = back->labels(i);
    ASSERT_TRUE(a && b);
    EXPECT_TRUE(std::ranges::equal(made->images(i), back->images(i)));  // PNG loses nothing
    for (const double t : {1.0, 3.0, 6.0}) {
      EXPECT_NEAR(sim::future_at(*a, t).x, sim::future_at(*b, t).x, 0.02);
      EXPECT_NEAR(sim::future_at(*a, t).y, sim::future_at(*b, t).y, 0.02);
    }
    EXPECT_NEAR(a->history[3].x, b->history[3].x, 0.02);
  }
}

TEST_F(Import, AConversationSetGivesBackWhatWentIn) {
  const ImportOptions o{.format = ImportFormat::kConversations,
                        .source = kFixtures / "conversation" / "good.jsonl",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {}};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->records, 6);
  EXPECT_EQ(counts->pictures, 7);
  EXPECT_TRUE(ConversationSet::is_one(dir_ / "set"));
  const auto set = ConversationSet::open(dir_ / "set");
  ASSERT_TRUE(set) << set.error().message;
  const auto second = set->get(1);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->id, "three");
  EXPECT_EQ(second->turns[1].content.size(), 4U);
  const auto& image = std::get<ConversationImage>(second->turns[1].content[2]);
  const auto file = read_file(kFixtures / "conversation" / "images" / "2.jpg");
  ASSERT_TRUE(file);
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(image.bytes.data()), image.bytes.size()), *file);
}

TEST_F(Import, ADamagedConversationSetIsRefused) {
  const ImportOptions o{.format = ImportFormat::kConversations,
                        .source = kFixtures / "conversation" / "good.jsonl",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {}};
  ASSERT_TRUE(import_records(o, {}, {}));
  const fs::path file = dir_ / "set" / "conversations.slip";
  const auto good = read_file(file);
  ASSERT_TRUE(good);
  for (const size_t at : {size_t{0}, size_t{8}, size_t{17}, size_t{25}, good->size() - 3}) {
    std::string bad = *good;
    bad[at] = static_cast<char>(bad[at] ^ 0x55);
    ASSERT_TRUE(write_file(file, bad));
    EXPECT_FALSE(ConversationSet::open(dir_ / "set")) << at;
  }
  std::string bad = *good;
  bad[70] = static_cast<char>(bad[70] ^ 0x55);
  ASSERT_TRUE(write_file(file, bad));
  const auto set = ConversationSet::open(dir_ / "set");
  ASSERT_TRUE(set);
  EXPECT_FALSE(set->get(0));
  EXPECT_TRUE(set->get(1));
}

TEST_F(Import, CtrlCLeavesNoSet) {
  CancelToken cancel;
  cancel.cancel();
  const ImportOptions o{.format = ImportFormat::kWodE2e,
                        .source = kFixtures / "wod" / "frames.tfrecord",
                        .out = dir_ / "set",
                        .pictures = {},
                        .version = {}};
  const auto counts = import_records(o, {}, cancel);
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(fs::exists(dir_ / "set" / "index.json"));
}

}  // namespace
}  // namespace slip
