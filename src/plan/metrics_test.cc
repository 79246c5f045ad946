// SPDX-License-Identifier: Apache-2.0
// Promises of the metrics, against the plan fixture and against closed forms.
#include "plan/metrics.h"

#include <cmath>

#include "plan/json_testing.h"

namespace slip {
namespace {

constexpr double kExact = 1e-9;

TEST(Displacement, EqualsTheFixture) {
  int n = 0;
  const json::value fixture = plan_fixture("displacement.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    const auto truth = waypoints(c.at("truth"));
    const auto d = displacement(many_waypoints(c.at("predictions")), truth);
    ASSERT_TRUE(d);
    EXPECT_NEAR(d->ade_3s, number(c.at("ade_3s")), kExact);
    EXPECT_NEAR(d->ade_5s, number(c.at("ade_5s")), kExact);
    EXPECT_NEAR(d->fde_3s, number(c.at("fde_3s")), kExact);
    EXPECT_NEAR(d->fde_5s, number(c.at("fde_5s")), kExact);
    EXPECT_NEAR(d->min_ade_5s, number(c.at("min_ade_5s")), kExact);
    EXPECT_NEAR(d->min_fde_5s, number(c.at("min_fde_5s")), kExact);
    EXPECT_EQ(every(truth, 4), waypoints(c.at("five_waypoints_of_truth")));
    ++n;
  }
  EXPECT_GE(n, 40);
}

TEST(Displacement, RefusesShortTrajectories) {
  const std::vector<Waypoint> nineteen(19), twenty(20);
  EXPECT_EQ(average_displacement(nineteen, twenty, 20).error().message,
            "displacement: expected at least 20 points on both sides, got 19 and 20");
  EXPECT_FALSE(displacement({}, twenty));
}

std::array<Waypoint, 6> six(const json::value& v) {
  std::array<Waypoint, 6> out;
  for (size_t i = 0; i < 6; ++i) out[i] = waypoint(v.as_array().at(i));
  return out;
}

TEST(NuscenesL2, EqualsTheFixtureInBothConventions) {
  const json::value fixture = plan_fixture("nuscenes_l2.json");
  NuscenesL2 l2;
  for (const json::value& c : fixture.at("cases").as_array()) {
    std::array<bool, 6> mask;
    for (size_t i = 0; i < 6; ++i) mask[i] = c.at("mask").as_array()[i].as_int64() != 0;
    const auto row = l2.add(six(c.at("prediction")), six(c.at("truth")), mask);
    const auto uniad = numbers(c.at("uniad"));
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(row.uniad[k], uniad[k], kExact);
    ASSERT_EQ(row.stp3.has_value(), !c.at("stp3").is_null());
    if (!row.stp3) continue;
    const auto stp3 = numbers(c.at("stp3"));
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR((*row.stp3)[k], stp3[k], kExact);
  }
  for (const auto& [name, got] : {std::pair{"uniad", l2.uniad()}, std::pair{"stp3", l2.stp3()}}) {
    const json::value& want = fixture.at("set").at(name);
    const auto values = numbers(want.at("l2_1s_2s_3s"));
    for (size_t k = 0; k < 3; ++k) EXPECT_NEAR(got.at_1s_2s_3s[k], values[k], kExact) << name;
    EXPECT_NEAR(got.average, number(want.at("average")), kExact) << name;
    EXPECT_EQ(got.samples, want.at("denominator").as_int64()) << name;
  }
}

using Proposals = std::vector<std::vector<Waypoint>>;

TEST(RaterFeedback, EqualsWaymosCodeOnEveryFrame) {
  std::vector<double> scores;
  const json::value fixture = plan_fixture("rfs.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    const RatedFrame frame{many_waypoints(c.at("raters")), numbers(c.at("labels")), number(c.at("v0"))};
    const auto got = rater_feedback_score(many_waypoints(c.at("proposals")), numbers(c.at("probabilities")), frame);
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_NEAR(got->score, number(c.at("score")), kExact) << scores.size();
    const json::array& inside = c.at("inside").as_array();
    ASSERT_EQ(got->inside.size(), inside.size());
    for (size_t i = 0; i < inside.size(); ++i) EXPECT_EQ(got->inside[i], inside[i].as_bool()) << scores.size();
    scores.push_back(got->score);
  }
  ASSERT_GE(scores.size(), 300u);

  const json::value split = plan_fixture("rfs_split.json");
  std::vector<size_t> clusters;
  for (const double c : numbers(split.at("cluster_of_case"))) clusters.push_back(static_cast<size_t>(c));
  const auto got = split_score(scores, clusters);
  ASSERT_TRUE(got);
  EXPECT_NEAR(got->frame_mean, number(split.at("frame_mean")), kExact);
  EXPECT_NEAR(got->cluster_mean, number(split.at("cluster_mean")), kExact);
  const auto means = numbers(split.at("cluster_means"));
  for (size_t g = 0; g < means.size(); ++g) EXPECT_NEAR(got->cluster_means[g], means[g], kExact);
}

TEST(RaterFeedback, DecaysTenfoldPerThresholdAndNeverBelowFourOutside) {
  std::vector<Waypoint> rater, beside;
  for (int t = 1; t <= 20; ++t) rater.push_back({0.5 * t, 0});
  beside = rater;
  beside[11].y = 2.0;  // twice the 3 s threshold at full speed
  beside[19].y = 3.6;
  const auto score = [&](double label) {
    const RatedFrame frame{{rater}, {label}, 30};
    return rater_feedback_score(Proposals{beside}, std::vector{1.0}, frame)->score;
  };
  EXPECT_NEAR(score(100), 10, kExact);  // 100 * 0.1
  EXPECT_NEAR(score(10), 4, kExact);
  const RatedFrame low{{rater}, {2}, 30};
  EXPECT_NEAR(rater_feedback_score(Proposals{rater}, std::vector{1.0}, low)->score, 2, kExact);  // inside: no floor
}

TEST(RaterFeedback, RefusesFramesThatCannotBeScored) {
  const std::vector<Waypoint> twenty(20);
  EXPECT_FALSE(rater_feedback_score(Proposals{twenty}, std::vector{1.0}, {}));
  EXPECT_FALSE(rater_feedback_score(Proposals{twenty}, std::vector{1.0}, {{{}}, {5}, 0}));
  EXPECT_FALSE(rater_feedback_score(Proposals{std::vector<Waypoint>(19)}, std::vector{1.0}, {{twenty}, {5}, 0}));
  EXPECT_FALSE(rater_feedback_score(Proposals{twenty}, std::vector<double>{}, {{twenty}, {5}, 0}));
}

TEST(SplitScore, LeavesEmptyClustersOut) {
  const auto s = split_score(std::vector{2.0, 4.0, 9.0}, std::vector<size_t>{0, 0, 2}, 3);
  EXPECT_NEAR(s->cluster_mean, 6, kExact);
  EXPECT_NEAR(s->frame_mean, 5, kExact);
  EXPECT_TRUE(std::isnan(s->cluster_means[1]));
  EXPECT_FALSE(split_score(std::vector{2.0}, std::vector<size_t>{11}));
}

std::vector<std::vector<ActionRun>> runs(const json::value& v) {
  std::vector<std::vector<ActionRun>> out;
  for (const json::value& kind : v.as_array()) {
    out.emplace_back();
    for (const json::value& r : kind.as_array())
      out.back().push_back({std::string(r.as_array()[0].as_string()), r.as_array()[1].as_int64()});
  }
  return out;
}

TEST(MetaActionIou, EqualsTheFixture) {
  int n = 0;
  const json::value fixture = plan_fixture("meta_action_iou.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    const auto a = action_sets(runs(c.at("predicted"))), b = action_sets(runs(c.at("truth")));
    ASSERT_TRUE(a && b);
    EXPECT_NEAR(*meta_action_iou(*a, *b), number(c.at("iou")), kExact);
    ++n;
  }
  EXPECT_GE(n, 30);
}

TEST(MetaActionIou, RefusesUnequalLengths) {
  EXPECT_FALSE(action_sets(std::vector<std::vector<ActionRun>>{{{"stop", 65}}}));
  EXPECT_FALSE(action_sets(std::vector<std::vector<ActionRun>>{{{"stop", 63}}}));
  EXPECT_FALSE(meta_action_iou(std::vector<std::vector<std::string>>(3), std::vector<std::vector<std::string>>(4)));
}

}  // namespace
}  // namespace slip
