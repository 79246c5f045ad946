// SPDX-License-Identifier: Apache-2.0
// Promises of what is looked at: a replay has every tenth of a second, a recording is read back as it was driven, a picture shows both ways.
#include "drive/replay.h"

#include <gtest/gtest.h>

#include <set>

#include "base/file.h"
#include "base/folder_testing.h"
#include "image/image.h"
#include "import/mcap_drive.h"
#include "sim/record.h"

namespace slip::drive {
namespace {

const EpisodeSettings& settings() {
  const auto names = sim::family_names();
  static const EpisodeSettings out{.seed = 900'100'000,
                                   .family = static_cast<uint32_t>(std::find(names.begin(), names.end(), "cut_in") - names.begin()),
                                   .mode = Mode::kSync,
                                   .delay = {},
                                   .record = true};
  return out;
}
const Episode& episode() {
  static const Episode out = [] {
    const auto idm = baseline("idm");
    return std::move(*drive_episode(settings(), *idm, {}));
  }();
  return out;
}

TEST(Replay, HasEveryTenthOfASecondAndEveryActor) {
  const auto v = replay_of(episode(), settings());
  ASSERT_TRUE(v);
  const json::array& steps = v->at("steps").as_array();
  ASSERT_EQ(steps.size(), static_cast<size_t>(kDriveSteps) + 1);
  for (const json::value& s : steps) {
    EXPECT_EQ(s.at("actors").as_array().size(), v->at("actors").as_array().size());
    EXPECT_EQ(s.at("ego").as_array().size(), 4U);
  }
  EXPECT_EQ(steps.back().at("t").to_number<double>(), 12);
}

TEST(Recording, IsReadBackAsItWasDriven) {
  Episode e = episode();
  e.snapshots.resize(3);
  const test::TemporaryFolder folder;
  const std::string file = (folder.path / "drive.mcap").string();
  std::vector<std::pair<int64_t, int64_t>> told;
  const auto drawn = [&](int64_t done, int64_t total) { told.emplace_back(done, total); };
  ASSERT_TRUE(write_mcap(e, settings(), file, {}, drawn));
  EXPECT_EQ(told, (std::vector<std::pair<int64_t, int64_t>>{{1, 3}, {2, 3}, {3, 3}}));
  const auto bytes = read_file(file);
  ASSERT_TRUE(bytes);
  const Bytes view(reinterpret_cast<const std::byte*>(bytes->data()), bytes->size());
  std::set<std::string> topics;
  McapReader reader(view, file);
  for (;;) {
    const auto m = reader.next();
    ASSERT_TRUE(m) << m.error().message;
    if (!*m) break;
    topics.insert(reader.channel((*m)->channel_id).topic);
  }
  EXPECT_EQ(topics, (std::set<std::string>{"/actors", "/camera/front", "/camera/front_left", "/camera/front_right", "/drive",
                                           "/ego/plan", "/ego/pose"}));
  const auto drives = read_mcap_drives(view, file);
  ASSERT_TRUE(drives) << drives.error().message;
  ASSERT_EQ(drives->size(), 1U);
  ASSERT_EQ(drives->front().poses.size(), 3U);
  for (size_t i = 0; i < 3; ++i) EXPECT_NEAR(drives->front().poses[i].pose.x, e.snapshots[i].ego.x, 1e-9);
  CancelToken cancelled;
  cancelled.cancel();
  EXPECT_EQ(write_mcap(e, settings(), file + "2", cancelled).error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(file + "2"));
}

TEST(Frames, AreToldOneByOne) {
  Episode e = episode();
  e.snapshots.resize(2);
  const test::TemporaryFolder folder;
  std::vector<std::pair<int64_t, int64_t>> told;
  const std::filesystem::path frames = folder.path / "frames";
  ASSERT_TRUE(write_frames(e, frames, {}, [&](int64_t done, int64_t total) { told.emplace_back(done, total); }));
  EXPECT_EQ(told, (std::vector<std::pair<int64_t, int64_t>>{{1, 2}, {2, 2}}));
  EXPECT_TRUE(std::filesystem::exists(frames / "001.png"));
}

TEST(Frames, AreAllThereOrNone) {
  Episode e = episode();
  e.snapshots.resize(2);
  const test::TemporaryFolder folder;
  CancelToken cancel;
  const auto stopped = write_frames(e, folder.path / "frames", cancel, [&](int64_t, int64_t) { cancel.cancel(); });
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
  EXPECT_TRUE(std::filesystem::is_empty(folder.path));
  ASSERT_TRUE(write_file(folder.path / "999.png", "of another video"));
  const auto taken = write_frames(e, folder.path, {});
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().kind, ErrorKind::kBadInput);
  EXPECT_FALSE(std::filesystem::exists(folder.path / "000.png"));
}

TEST(Picture, ShowsBothWaysAndEverybody) {
  const auto view = view_of(episode(), episode(), settings(), "title");
  ASSERT_TRUE(view);
  const auto lines = std::count_if(view->shapes.begin(), view->shapes.end(), [](const MapShape& s) { return !s.closed; });
  EXPECT_EQ(lines, 2);
  EXPECT_GT(view->x_high - view->x_low, episode().track.progress_m);
}

}  // namespace
}  // namespace slip::drive
