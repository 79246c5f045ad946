// SPDX-License-Identifier: Apache-2.0
// Averages of plans: the formula, and which plans take part.
#include "drive/ensemble.h"

#include <gtest/gtest.h>

#include "base/must_testing.h"

namespace slip::drive {
namespace {

/// Says what it is told to.
class Told : public Planner {
 public:
  Result<Planned> plan(const Situation&, const CancelToken&) override { return next; }
  Planned next;
};

class Ensemble : public ::testing::Test {
 protected:
  Planned ask(EnsemblePlanner& planner, const World& world, int64_t time_ms, std::vector<sim::Vec2> points, bool valid = true) {
    told_.next = {.points = std::move(points), .dt = 1.0, .valid = valid, .counts = {}, .ready = {}};
    Situation s{world, time_ms, time_ms, {}, {}, 0, 0, {}, {}};
    return must(planner.plan(s, {}));
  }
  Told told_;
  World world_ = must(World::make(900'100'000, 0, true)), other_ = must(World::make(900'100'001, 0, true));
};

TEST_F(Ensemble, AveragesWhatPlansSayOfTheSameMoment) {
  EnsemblePlanner planner(told_, 4);
  const auto first = ask(planner, world_, 0, {{0, 0}, {8, 0}, {16, 4}});
  EXPECT_EQ(first.points[2].x, 16) << "one plan is its own average";
  // A second later, with a weight of 3/4 for the plan before: it says 8 and 16 of the first two moments and nothing of the third.
  const auto second = ask(planner, world_, 1000, {{4, 1}, {4, 1}, {4, 1}});
  EXPECT_DOUBLE_EQ(second.points[0].x, (4 + 0.75 * 8) / 1.75);
  EXPECT_DOUBLE_EQ(second.points[1].x, (4 + 0.75 * 16) / 1.75);
  EXPECT_DOUBLE_EQ(second.points[1].y, (1 + 0.75 * 4) / 1.75);
  EXPECT_EQ(second.points[2].x, 4);
  // Half a second on: between two of the first plan's points; the second plan takes part as it was said, not as it was averaged.
  const auto third = ask(planner, world_, 1500, {{0, 0}, {0, 0}});
  const double w = 1 - 1.5 / 4, v = 1 - 0.5 / 4;
  EXPECT_DOUBLE_EQ(third.points[0].x, (w * 12 + v * 4) / (1 + w + v));
}

TEST_F(Ensemble, ForgetsOldPlansThoseOfAnotherDriveAndAnswersWithoutOne) {
  EnsemblePlanner planner(told_, 2);
  ask(planner, world_, 0, {{10, 0}, {10, 0}, {10, 0}, {10, 0}});
  const auto invalid = ask(planner, world_, 400, {{1, 0}, {1, 0}}, false);
  EXPECT_EQ(invalid.points[0].x, 1) << "an answer without a plan stands as it did";
  EXPECT_DOUBLE_EQ(ask(planner, world_, 1000, {{1, 0}, {1, 0}}).points[0].x, (1 + 0.5 * 10) / 1.5) << "the first plan alone";
  EXPECT_EQ(ask(planner, world_, 4000, {{2, 0}, {2, 0}}).points[0].x, 2) << "three and four seconds old";
  EXPECT_EQ(ask(planner, other_, 4400, {{3, 0}, {3, 0}}).points[0].x, 3) << "another scene";
  EXPECT_EQ(ask(planner, other_, 0, {{5, 0}, {5, 0}}).points[0].x, 5) << "the same scene from its start";
}

std::vector<sim::Vec2> straight(double v, double from) {
  std::vector<sim::Vec2> out;
  for (int i = 0; i < 6; ++i) out.push_back({from + v * i, 0});
  return out;
}

TEST_F(Ensemble, ACarefulOneForgetsWhatTwoPlansInARowContradict) {
  for (const bool careful : {false, true}) {
    EnsemblePlanner planner(told_, 3, careful);
    for (int64_t t = 0; t < 1000; t += 100) ask(planner, world_, t, straight(10, static_cast<double>(t) / 100));
    // One plan that stands is one of many; two in a row are believed.
    const auto one = ask(planner, world_, 1000, straight(0, 10)), two = ask(planner, world_, 1100, straight(0, 10));
    const double after_one = one.points[2].x - one.points[0].x, after_two = two.points[2].x - two.points[0].x;
    EXPECT_GT(after_one, 15) << "20 m in two seconds before";
    if (careful)
      EXPECT_NEAR(after_two, 0, 1e-9);
    else
      EXPECT_GT(after_two, 14);
  }
}

TEST_F(Ensemble, ACarefulOneKeepsWhatIsMoreCareful) {
  EnsemblePlanner planner(told_, 3, true), mean(told_, 3);
  for (int64_t t = 0; t < 500; t += 100) ask(planner, world_, t, straight(5, 0)), ask(mean, world_, t, straight(5, 0));
  const auto a = ask(planner, world_, 500, straight(10, 0)), b = ask(mean, world_, 500, straight(10, 0));
  for (size_t i = 0; i < a.points.size(); ++i) EXPECT_EQ(a.points[i].x, b.points[i].x);
  // Half of a metre ahead in two seconds counts whole, one and a half no more.
  EnsemblePlanner other(told_, 4, true);
  ask(other, world_, 0, straight(5.5, 0));
  ask(other, world_, 1000, straight(5, 5.5));
  const auto c = ask(other, world_, 2000, straight(5, 10.5));
  const double old = 0.5 * 0.5, before = 0.75;  // a metre ahead in two seconds: half of its weight
  EXPECT_NEAR(c.points[1].x, (15.5 + old * 16.5 + before * 15.5) / (1 + old + before), 1e-9);
}

}  // namespace
}  // namespace slip::drive
