// SPDX-License-Identifier: Apache-2.0
// Promises of records from disturbed drives: the same from the same seed, states that records of beginnings do not hold, and a way back.
#include "drive/driven.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

#include "base/cancel.h"
#include "sim/record/make.h"

namespace slip::drive {
namespace {

std::vector<sim::Record> records(uint64_t seed, int frames = 12, Planner* learner = nullptr) {
  std::vector<sim::Record> out;
  const Status done = driven_records(seed, {}, frames, false, learner,
                                     [&](sim::Record&& r) -> Status {
                                       out.push_back(std::move(r));
                                       return {};
                                     },
                                     {});
  EXPECT_TRUE(done) << done.error().message;
  return out;
}

constexpr uint64_t kSeed = 900'300'000;

TEST(Driven, ASeedGivesTheSameRecords) {
  const std::vector<sim::Record> first = records(kSeed), again = records(kSeed);
  ASSERT_GT(first.size(), 2U);
  ASSERT_EQ(first.size(), again.size());
  for (size_t i = 0; i < first.size(); ++i) {
    EXPECT_EQ(first[i].labels.v0_mps, again[i].labels.v0_mps);
    EXPECT_EQ(first[i].labels.history.front().x, again[i].labels.history.front().x);
    EXPECT_EQ(first[i].labels.future.back().y, again[i].labels.future.back().y);
    EXPECT_EQ(first[i].labels.explanation, again[i].labels.explanation);
  }
}

TEST(Driven, StatesAreOnesThatNoSceneBeginsIn) {
  int all = 0, braking = 0, standing = 0, turned = 0;
  for (uint64_t seed = kSeed; seed < kSeed + 30; ++seed)
    for (const sim::Record& r : records(seed)) {
      ++all;
      EXPECT_EQ(r.labels.unknown, sim::kMoved);
      const sim::EgoState& now = r.labels.history.back();
      EXPECT_NEAR(std::hypot(now.x, now.y), 0, 1e-4);  // floats of the scene's coordinates, some hundred metres
      EXPECT_NEAR(std::hypot(now.vx, now.vy), r.labels.v0_mps, 1e-3);
      braking += now.ax < -1;
      standing += r.labels.v0_mps < 0.2F;
      // The way goes on elsewhere than straight ahead: to the side by a metre after 3 s while the speed is one.
      turned += r.labels.v0_mps > 3 && std::abs(r.labels.future[29].y) > 1;
    }
  EXPECT_GT(all, 150);
  EXPECT_GT(braking, all / 20);
  EXPECT_GT(standing, all / 40);
  EXPECT_GT(turned, all / 10);
}

// What drive-cot would say there: of this state, not of the scene's beginning.
TEST(Driven, RecordsSayInWordsWhatIsTrueWhereTheEgoIs) {
  std::set<std::string> positions;
  int named = 0;
  for (uint64_t seed = kSeed; seed < kSeed + 10; ++seed)
    for (const sim::Record& r : records(seed)) {
      ASSERT_TRUE(r.labels.cot);
      const sim::CotLabels& cot = *r.labels.cot;
      EXPECT_TRUE(cot.ego_behavior.starts_with(sim::words(r.labels.longitudinal))) << cot.ego_behavior;
      if (cot.ego_behavior.starts_with("speed up and go straight")) {
        for (const char* delays : {"stop sign", "light is", "crosses", "stands", "brakes"})
          EXPECT_EQ(cot.ego_behavior.find(delays), std::string::npos) << cot.ego_behavior;
      }
      if (cot.object[0].position == sim::kCotNone) continue;
      ++named;
      positions.insert(fmt::format("{} {}", seed, cot.object[0].position));
    }
  EXPECT_GT(named, 15);
  EXPECT_GT(positions.size(), 15U);  // the same object is near and far
}

TEST(Driven, ARecordsFutureIsTheExpertsFromWhereTheEgoIs) {
  for (const sim::Record& r : records(kSeed + 1)) {
    const sim::FutureState& first = r.labels.future.front();
    // A tenth of a second at about that speed, straight ahead to begin with.
    EXPECT_NEAR(first.x, 0.1 * r.labels.v0_mps, 0.1);
    EXPECT_NEAR(first.y, 0, 0.05);
  }
}

// A learner who keeps his speed comes to states that neither the expert nor a wrong plan of a second comes to: near a leader, and fast.
TEST(Driven, ALearnersMistakesAreHisOwnStates) {
  const auto close_and_fast = [](Planner* learner) {
    int all = 0, late = 0;
    for (uint64_t seed = kSeed; seed < kSeed + 40; ++seed)
      for (const sim::Record& r : records(seed, 12, learner)) {
        ++all;
        late += r.labels.v0_mps - r.labels.future[9].v > 4;  // the expert brakes by more than 4 m/s within a second
      }
    EXPECT_GT(all, 100);
    return static_cast<double>(late) / std::max(1, all);
  };
  const auto keeps_its_speed = baseline("constant-velocity");
  const double mine = close_and_fast(keeps_its_speed.get());
  EXPECT_GT(mine, 1.5 * close_and_fast(nullptr));
}

TEST(Driven, WhoTakesMayRefuseAndACallMayBeCancelled) {
  const Status refused =
      driven_records(kSeed, {}, 20, false, nullptr, [](sim::Record&&) -> Status { return bad_input("enough"); }, {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "enough");
  CancelToken gone;
  gone.cancel();
  const Status stopped = driven_records(
      kSeed, {}, 20, false, nullptr, [](sim::Record&&) -> Status { return {}; }, gone);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(driven_records(1, 1000, 1, false, nullptr, [](sim::Record&&) -> Status { return {}; }, {}));
}

}  // namespace
}  // namespace slip::drive
