// SPDX-License-Identifier: Apache-2.0
// Promises of the import: records say what their recordings say and mark what they do not know; sets are read by whoever reads simulated
// ones; records survive the way to MCAP and back.
#include "import/import.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>

#include "base/file.h"
#include "base/json.h"
#include "import/comma.h"
#include "import/conversation.h"
#include "import/mcap.h"
#include "import/mcap_drive.h"
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
  /// comma2k19's folder "segment" as the set "set".
  auto import_segment(double every_s = ImportOptions().every_s) const {
    ImportOptions o;
    o.format = ImportFormat::kComma2k19;
    o.source = dir_ / "segment";
    o.out = dir_ / "set";
    o.every_s = every_s;
    return import_records(o, {}, {});
  }
  fs::path dir_;
};

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

/// A segment on the equator that drives along its meridian: 20 Hz, speeds northwards, the places that they lead to.
struct Northwards {
  std::vector<double> times, positions, velocities;
  explicit Northwards(const std::vector<double>& speeds) {
    double z = 0;
    for (size_t i = 0; i < speeds.size(); ++i) {
      times.push_back(1000 + 0.05 * static_cast<double>(i));
      positions.insert(positions.end(), {6'371'000.0, 0.0, z});
      velocities.insert(velocities.end(), {0.0, 0.0, speeds[i]});
      z += 0.05 * speeds[i];
    }
  }
  void write(const fs::path& segment) const {
    fs::create_directories(segment / "global_pose");
    write_npy(segment / "global_pose" / "frame_times", 1, times);
    write_npy(segment / "global_pose" / "frame_positions", 3, positions);
    write_npy(segment / "global_pose" / "frame_velocities.npy", 3, velocities);
  }
  /// A camera that looks so far east of north, level.
  void write_camera(const fs::path& segment, double east_rad) const {
    // North, east, down of that place is a quarter turn about east from the earth's axes; the camera turns about down.
    std::vector<double> q;
    const double c = std::cos(east_rad / 2) / std::numbers::sqrt2, d = std::sin(east_rad / 2) / std::numbers::sqrt2;
    for (size_t i = 0; i < times.size(); ++i) q.insert(q.end(), {c, -d, -c, d});
    write_npy(segment / "global_pose" / "frame_orientations", 4, q);
  }
};

/// Stands for `standing_s`, then accelerates with 2 m/s^2 to `speed_mps`, for 30 s in all; a speed below 0 backs.
std::vector<double> standing_first(double standing_s, double speed_mps) {
  std::vector<double> speeds;
  for (int i = 0; i < 600; ++i)
    speeds.push_back(std::copysign(std::clamp(2 * (0.05 * i - standing_s), 0.0, std::abs(speed_mps)), speed_mps));
  return speeds;
}

TEST_F(Import, ACommaSegmentIsSampledAlongItsDrive) {
  const Northwards drive(std::vector<double>(400, 15));
  drive.write(dir_ / "segment");
  const auto counts = import_segment(2);
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

TEST_F(Import, ACommaCarThatStandsPointsWhereItWillDrive) {
  const Northwards drive(standing_first(12, 10));
  drive.write(dir_ / "segment");
  const auto counts = import_segment();
  ASSERT_TRUE(counts) << counts.error().message;
  const auto set = sim::RecordSet::open(dir_ / "set");
  ASSERT_TRUE(set);
  for (const int64_t at : {int64_t{5}, int64_t{7}}) {  // at 9 and 11 s: the car stands and drives off straight ahead
    const auto l = set->labels(at);
    ASSERT_TRUE(l);
    EXPECT_EQ(l->v0_mps, 0) << at;
    EXPECT_GT(sim::future_at(*l, 5).x, 1) << at;
    EXPECT_NEAR(sim::future_at(*l, 5).y, 0, 1e-3) << at;
    EXPECT_NEAR(l->future[49].yaw, 0, 1e-6) << at;
    EXPECT_EQ(l->lateral, sim::Lateral::kGoStraight) << at;
  }
}

TEST_F(Import, ACommaCarThatStandsPointsWhereItsCameraDoes) {
  const double north = std::numbers::pi / 2, mount = 0.02;
  const auto yaw = [&](const std::vector<double>& speeds, double t_s) {
    fs::remove_all(dir_ / "segment");
    const Northwards drive(speeds);
    drive.write(dir_ / "segment");
    drive.write_camera(dir_ / "segment", mount);
    const auto segment = read_comma(dir_ / "segment");
    EXPECT_TRUE(segment) << segment.error().message;
    return segment ? segment->track.pieces[0].yaw(t_s) : NAN;
  };
  EXPECT_NEAR(yaw(std::vector<double>(600, 0), 5), north - mount, 1e-9) << "never moves";
  EXPECT_NEAR(yaw(standing_first(12, 10), 5), north, 1e-9) << "how the camera is mounted shows when the car moves";
  EXPECT_NEAR(std::remainder(yaw(standing_first(12, -3), 5) - north, 2 * std::numbers::pi), 0, 1e-9) << "backs out";
  EXPECT_NEAR(std::remainder(yaw(standing_first(12, -3), 25) - north, 2 * std::numbers::pi), 0, 1e-9) << "backs out";
}

TEST_F(Import, CommaOrientationsThatAreNoneAreRefused) {
  const Northwards drive(std::vector<double>(100, 15));
  drive.write(dir_ / "segment");
  std::vector<double> q(400, 0.5);
  std::fill(q.begin() + 28, q.begin() + 32, 0);
  const fs::path file = dir_ / "segment" / "global_pose" / "frame_orientations";
  write_npy(file, 4, q);
  const auto zeros = read_comma(dir_ / "segment");
  ASSERT_FALSE(zeros);
  EXPECT_NE(zeros.error().message.find("expected a quaternion in row 7, got zeros"), std::string::npos) << zeros.error().message;
  write_npy(file, 4, std::vector<double>(40, 0.5));
  const auto few = read_comma(dir_ / "segment");
  ASSERT_FALSE(few);
  EXPECT_NE(few.error().message.find("for each of 100 frames, got 10"), std::string::npos) << few.error().message;
}

TEST_F(Import, NothingIsContinuedOverAHoleInCommasTimes) {
  Northwards drive(std::vector<double>(600, 15));
  for (size_t i = 310; i < 600; ++i) drive.times[i] += 30;
  drive.write(dir_ / "segment");
  const auto counts = import_segment(2);
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->holes, 1);
  EXPECT_EQ(counts->in_holes, 0);         // comma2k19's moments are its poses
  EXPECT_EQ(counts->records, 12);         // at 4 .. 14 s and at 49.5 .. 59.5 s
  EXPECT_EQ(counts->without_history, 4);  // at 0, 2, 45.5 and 47.5 s
  EXPECT_EQ(counts->without_future, 5);   // at 12 and 14 s, at 55.5 s and behind it
  const auto set = sim::RecordSet::open(dir_ / "set");
  ASSERT_TRUE(set);
  for (int64_t i = 0; i < set->size(); ++i) {
    const auto l = set->labels(i);
    ASSERT_TRUE(l);
    for (const sim::EgoState& e : l->history) {
      EXPECT_NEAR(e.vx, 15, 0.01) << i;
      EXPECT_NEAR(std::hypot(e.ax, e.ay), 0, 0.01) << i;
    }
    if ((l->unknown & sim::kUnknownFuture) != 0) continue;
    EXPECT_EQ(l->longitudinal, sim::Longitudinal::kKeepSpeed) << i;
    EXPECT_NEAR(sim::future_at(*l, 5).x, 75, 0.1) << i;
  }
}

TEST_F(Import, AJumpOfCommasPosesIsRefusedWithItsPlace) {
  Northwards drive(std::vector<double>(400, 15));
  for (size_t i = 200; i < 400; ++i) drive.positions[3 * i + 2] += 5e6;
  drive.write(dir_ / "segment");
  const auto counts = import_segment();
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(counts.error().message.find("segment: pose 200 at 10 s: expected a place that 100 m/s lead to"), std::string::npos)
      << counts.error().message;
  EXPECT_FALSE(fs::exists(dir_ / "set" / "index.json"));
}

/// A recording of poses in foxglove's form, at 10 Hz and 5 m/s; 20 s are lacking before pose `hole`.
std::string mcap_of(size_t poses, size_t hole, const std::function<json::value(size_t)>& orientation) {
  McapWriter w("test");
  const uint16_t c =
      w.add_channel({.topic = "/ego/pose", .encoding = "json", .schema = {}, .schema_encoding = {}, .metadata = {}}, "");
  for (size_t i = 0; i < poses; ++i) {
    const json::object at{{"x", 0.5 * static_cast<double>(i)}, {"y", 0}, {"z", 0}};
    const uint64_t time_ns = uint64_t{100'000'000} * (i < hole ? i : i + 200);
    w.add(c, time_ns, json::serialize(json::object{{"pose", {{"position", at}, {"orientation", orientation(i)}}}}));
  }
  return w.finish();
}

TEST(McapDrives, OrientationsAreReadAtAnyLengthAndZerosRefused) {
  const auto turned = [](double length) {
    return json::object{{"w", length * std::cos(0.3)}, {"x", 0}, {"y", 0}, {"z", length * std::sin(0.3)}};
  };
  const std::string good = mcap_of(3, 3, [&](size_t) { return turned(2); });
  const auto drives = read_mcap_drives(std::as_bytes(std::span(good)), "m");
  ASSERT_TRUE(drives) << drives.error().message;
  EXPECT_NEAR(drives->at(0).poses[1].pose.yaw_rad, 0.6, 1e-12);
  const std::string bad = mcap_of(3, 3, [&](size_t i) { return turned(i == 1 ? 0 : 1); });
  const auto none = read_mcap_drives(std::as_bytes(std::span(bad)), "m");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().message, "m: message 1 of /ego/pose: orientation: expected a quaternion, got zeros");
}

TEST_F(Import, MomentsInAHoleOfAnMcapFileArePassedOver) {
  const std::string file = mcap_of(160, 80, [](size_t) { return json::object{{"w", 1}, {"x", 0}, {"y", 0}, {"z", 0}}; });
  ASSERT_TRUE(write_file(dir_ / "hole.mcap", file));
  const ImportOptions o{
      .format = ImportFormat::kMcap, .source = dir_ / "hole.mcap", .out = dir_ / "set", .pictures = {}, .version = {}};
  const auto counts = import_records(o, {}, {});
  ASSERT_TRUE(counts) << counts.error().message;
  EXPECT_EQ(counts->holes, 1);
  EXPECT_EQ(counts->in_holes, 20);        // at 8 .. 27 s
  EXPECT_EQ(counts->records, 8);          // at 4 .. 7 s and at 32 .. 35 s
  EXPECT_EQ(counts->without_history, 8);  // at 0 .. 3 s and at 28 .. 31 s
  EXPECT_EQ(counts->without_future, 8);
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
