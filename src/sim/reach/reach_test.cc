// SPDX-License-Identifier: Apache-2.0
#include "sim/reach/reach.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

namespace slip::sim {
namespace {

ReachEnd driven_by_the_expert(uint64_t seed) {
  Reach world(seed);
  for (;;) {
    const ReachEnd end = world.step(world.waits() ? kArmStays : arm_expert(world.sight().rounded()));
    if (end != ReachEnd::kGoesOn) return end;
  }
}

Reach at_rest(uint64_t seed) {
  Reach world(seed);
  while (world.waits()) world.step(kArmStays);
  return world;
}

/// Where the object lies for a tool that is put somewhere.
ToolPose placed(uint64_t seed) { return Reach(seed, {}, false).object(); }

TEST(Reach, TheExpertGraspsByWhatIsSaidInMillimetres) {
  for (uint64_t seed = 5000; seed < 5300; ++seed) EXPECT_EQ(driven_by_the_expert(seed), ReachEnd::kSuccess) << seed;
}

TEST(Reach, TheObjectComesToRestWhileTheArmWaits) {
  Reach world(5001);
  const ToolPose tool = world.tool();
  std::set<double> places;
  while (world.waits()) {
    places.insert(world.object().x);
    ASSERT_EQ(world.step(kArmStays), ReachEnd::kGoesOn);
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(kArmWaitSteps));
  EXPECT_EQ(world.tool().x, tool.x);
  const double rest = world.object().x;
  world.step(kArmStays);
  EXPECT_EQ(world.object().x, rest);
}

TEST(Reach, ContactPunishesAWrongNumber) {
  Reach closes = at_rest(5000);
  EXPECT_EQ(closes.step({0, 0, 0, 0, 0, 0, -1}), ReachEnd::kClosedBeside);

  Reach down = at_rest(5000);
  ReachEnd end = ReachEnd::kGoesOn;
  while (end == ReachEnd::kGoesOn) end = down.step({0, 0, -1, 0, 0, 0, 1});
  EXPECT_TRUE(end == ReachEnd::kTable || end == ReachEnd::kHit);

  // A finger comes down on the object: the tool is 8 mm beside its middle, where 6 are left.
  const ToolPose o = placed(5000);
  Reach on_it(5000, {o.x + 0.008 * std::sin(o.yaw), o.y - 0.008 * std::cos(o.yaw), 0.06, 0, 0, o.yaw}, false);
  EXPECT_EQ(on_it.step({0, 0, -1, 0, 0, 0, 1}), ReachEnd::kHit);

  Reach held = at_rest(5000);
  while (!held.holds()) ASSERT_EQ(held.step(arm_expert(held.sight())), ReachEnd::kGoesOn);
  Reach lets_go = held;
  EXPECT_EQ(lets_go.step({0, 0, 1, 0, 0, 0, 1}), ReachEnd::kDropped);
  EXPECT_EQ(held.step({0, 0, 1, 0, 0, 0, -1}), ReachEnd::kGoesOn);
  EXPECT_EQ(held.object().x, held.tool().x);  // it comes along
}

TEST(Reach, ATiltedToolClosesBeside) {
  const ToolPose o = placed(5002);
  Reach straight(5002, {o.x, o.y, 0.014, 0, 0, o.yaw}, false), tilted(5002, {o.x, o.y, 0.014, 0.2, 0, o.yaw}, false);
  EXPECT_EQ(straight.step({0, 0, 0, 0, 0, 0, -1}), ReachEnd::kGoesOn);
  EXPECT_EQ(tilted.step({0, 0, 0, 0, 0, 0, -1}), ReachEnd::kClosedBeside);
}

TEST(Reach, AnEpisodeEndsByTime) {
  Reach world(5003);
  int steps = 1;
  while (world.step(kArmStays) == ReachEnd::kGoesOn) ++steps;
  EXPECT_EQ(steps, kArmWaitSteps + kArmMostSteps);
}

// What is learned from covers what an episode asks: near the object in every height, far from it, holding it.
TEST(Reach, StatesToLearnFromAreNearAndFar) {
  std::map<std::string_view, int> seen;
  for (uint64_t seed = 0; seed < 4000; ++seed) {
    const ArmSight s = arm_state(seed);
    const double off = std::hypot(s.ahead_m, s.left_m);
    ++seen[s.holds ? "holding" : off < 0.008 ? "over it" : off < 0.04 ? "near" : "far"];
    if (!s.holds && off < 0.008 && s.height_m < 0.022) ++seen["about to close"];
    EXPECT_EQ(s.ahead_m, s.rounded().ahead_m);
  }
  for (const auto what : {"holding", "over it", "near", "far", "about to close"}) EXPECT_GT(seen[what], 100) << what;
  EXPECT_EQ(arm_state(17).left_m, arm_state(17).left_m);
  EXPECT_NE(arm_state(17).left_m, arm_state(18).left_m);
}

}  // namespace
}  // namespace slip::sim
