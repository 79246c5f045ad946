// SPDX-License-Identifier: Apache-2.0
// Promises of misses, rollouts and meta-actions, against the drive fixtures and by hand.
#include <gtest/gtest.h>

#include <cmath>

#include "plan/json_testing.h"
#include "plan/meta_actions.h"
#include "plan/metrics.h"
#include "plan/misses.h"
#include "plan/rollouts.h"

namespace slip {
namespace {

json::value drive_fixture(const char* name) { return plan_fixture(std::string("../drive/metrics/") + name); }

TEST(Misses, EqualTheFixture) {
  const json::value f = drive_fixture("misses.json");
  int n = 0;
  for (const json::value& c : f.at("cases").as_array()) {
    std::vector<Waypoint> truth;
    std::vector<double> headings;
    for (const json::value& p : c.at("truth_x_y_heading").as_array()) {
      truth.push_back(waypoint(p));
      headings.push_back(number(p.as_array().at(2)));
    }
    const Misses got = misses_of(many_waypoints(c.at("rollouts")), truth, headings, number(c.at("v0")), number(c.at("rate_hz")));
    const json::value& want = c.at("expected");
    EXPECT_EQ(got.argoverse, want.at("argoverse").as_bool());
    EXPECT_EQ(got.nuscenes, want.at("nuscenes").as_bool());
    const char* names[] = {"3s", "5s", "8s"};
    for (size_t h = 0; h < 3; ++h) {
      const json::value* waymo = want.at("waymo").as_object().if_contains(names[h]);
      ASSERT_EQ(got.waymo[h].has_value(), waymo != nullptr) << names[h];
      if (waymo) {
        EXPECT_EQ(*got.waymo[h], waymo->at("miss").as_bool());
      }
      const json::value* nuplan = want.at("nuplan_first_rollout").as_object().if_contains(names[h]);
      ASSERT_EQ(got.nuplan[h].has_value(), nuplan != nullptr);
      if (nuplan) {
        EXPECT_EQ(*got.nuplan[h], nuplan->at("miss").as_bool());
      }
    }
    ++n;
  }
  EXPECT_EQ(n, 40);
}

TEST(Rollouts, EqualTheFixture) {
  const json::value f = drive_fixture("rollouts.json");
  for (const json::value& c : f.at("cases").as_array())
    for (const auto& [key, seconds] : {std::pair{"3s", 3.0}, std::pair{"5s", 5.0}}) {
      const json::value* want = c.at("expected").as_object().if_contains(key);
      if (!want) continue;
      const auto n = static_cast<size_t>(seconds * number(c.at("rate_hz")));
      const auto got = rollout_errors(many_waypoints(c.at("rollouts")), waypoints(c.at("truth")), n);
      ASSERT_TRUE(got);
      const auto ade = numbers(want->at("ade"));
      for (size_t i = 0; i < ade.size(); ++i) EXPECT_NEAR(got->ade[i], ade[i], 1e-9);
      for (const auto& [k, v] : want->at("min_ade").as_object())
        EXPECT_NEAR(got->min_ade.at(std::stoul(std::string(k)) - 1), number(v), 1e-9);
      for (const auto& [name, value] : {std::pair{"mean_ade", got->mean_ade}, std::pair{"ade_of_average", got->ade_of_average},
                                        std::pair{"fde_of_average", got->fde_of_average}, std::pair{"spread_rms", got->spread_rms},
                                        std::pair{"spread_rms_final", got->spread_rms_final}})
        EXPECT_NEAR(value, number(want->at(name)), 1e-9) << name;
    }
  EXPECT_FALSE(rollout_errors({}, {}, 20));
}

/// Spans in tenths of a second as sets, cut to the intervals.
std::vector<std::vector<std::string>> sets(const json::value& spans) {
  std::vector<std::vector<std::string>> out(64);
  for (const json::value& s : spans.as_array()) {
    const int64_t first = s.as_array().at(1).as_int64(), end = s.as_array().at(2).as_int64();
    for (int64_t i = std::max<int64_t>(first, 0); i < std::min<int64_t>(end, 64); ++i)
      out[static_cast<size_t>(i)].emplace_back(s.as_array().at(0).as_string());
  }
  return out;
}

TEST(MetaActionIou, EqualsTheDriveFixture) {
  const json::value f = drive_fixture("meta_actions.json");
  double sum = 0;
  for (const json::value& c : f.at("cases").as_array()) {
    const auto iou = meta_action_iou(sets(c.at("predicted")), sets(c.at("truth")));
    ASSERT_TRUE(iou);
    EXPECT_NEAR(*iou, number(c.at("iou")), 1e-9);
    sum += *iou;
  }
  EXPECT_NEAR(sum / static_cast<double>(f.at("cases").as_array().size()), number(f.at("mean")), 1e-9);
}

TEST(MetaActions, AreWhatAMotionIs) {
  Trajectory steady{4, {}}, braking{4, {}}, turning{4, {}};
  for (int i = 1; i <= 20; ++i) {
    const double t = 0.25 * i, s = t < 2.5 ? 10 * t - 2 * t * t : 12.5;  // 4 m/s^2 to rest at 2.5 s
    steady.points.push_back({8 * t, 0});
    braking.points.push_back({s, 0});
    turning.points.push_back({50 * std::sin(0.1 * t), 50 * (1 - std::cos(0.1 * t))});  // 0.1 rad/s to the left
  }
  const auto straight = meta_actions_of(steady, 8);
  ASSERT_EQ(straight.size(), 64U);
  for (const auto& s : straight) EXPECT_EQ(s, (std::vector<std::string>{"maintain speed", "go straight"}));
  const auto stops = meta_actions_of(braking, 10);
  EXPECT_EQ(stops[40][0], "stop");
  EXPECT_EQ(stops[60][0], "stop");
  int strong = 0;
  for (size_t i = 0; i < 25; ++i) strong += stops[i][0] == "strong decelerate";
  EXPECT_GE(strong, 5);  // points a quarter of a second apart: speed falls in steps
  int left = 0;
  for (const auto& s : meta_actions_of(turning, 5)) left += s[1] == "steer left" || s[1] == "sharp steer left";
  EXPECT_GE(left, 15);
}

}  // namespace
}  // namespace slip
