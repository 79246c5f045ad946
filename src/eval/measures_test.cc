// SPDX-License-Identifier: Apache-2.0
// Promises of the measures on records made by hand, whose values are known, and of lines that come back as they were.
#include "eval/measures.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "eval/evaluate.h"
#include "plan/baselines.h"
#include "sim/record/make.h"

namespace slip {
namespace {

/// Ten metres a second straight on; the future as given.
sim::Labels steady(double v, double lateral_m_at_5s = 0) {
  sim::Labels l;
  l.v0_mps = static_cast<float>(v);
  l.frame_s = 0.5;  // no scene's first frame: nobody rates it
  for (size_t i = 0; i < 16; ++i) {
    const double t = 0.25 * (static_cast<double>(i) - 15);
    l.history[i] = {static_cast<float>(t), static_cast<float>(v * t), 0, static_cast<float>(v), 0, 0, 0};
  }
  for (size_t k = 0; k < 64; ++k) {
    const double t = 0.1 * static_cast<double>(k + 1);
    l.future[k] = {static_cast<float>(v * t), static_cast<float>(lateral_m_at_5s * t / 5), 0, static_cast<float>(v), 0, 0};
  }
  return l;
}

Trajectory straight(double v) { return constant_velocity({v, 0}); }

TEST(Measures, AreTheKnownValuesOfAPlanThatIsTooSlow) {
  // 8 m/s said, 10 m/s driven: an error of 2 t metres along.
  RecordMeasures m;
  measure_plan(steady(10), straight(8), {}, {}, m);
  EXPECT_NEAR(*m.get("ade_3s"), 2 * 0.25 * 13 / 2, 1e-5);
  EXPECT_NEAR(*m.get("ade_5s"), 2 * 0.25 * 21 / 2, 1e-5);
  EXPECT_NEAR(*m.get("fde_5s"), 10, 1e-5);
  EXPECT_NEAR(*m.get("cv_ade_5s"), 0, 1e-5);
  EXPECT_NEAR(*m.get("standing_fde_5s"), 50, 1e-5);
  for (int k = 1; k <= 3; ++k) {
    EXPECT_NEAR(*m.get("nuscenes_uniad_" + std::to_string(k) + "s"), 2.0 * k, 1e-5);
    EXPECT_NEAR(*m.get("nuscenes_stp3_" + std::to_string(k) + "s"), 0.5 * (2 * k + 1), 1e-5);  // mean of 1, 2, ..., 2k metres
  }
  EXPECT_EQ(m.get("miss_argoverse"), 1);  // 10 m at the end
  EXPECT_EQ(m.get("miss_nuscenes"), 1);
  EXPECT_EQ(m.get("miss_nuplan_3s"), 0);  // 6 m, not above
  EXPECT_EQ(m.get("miss_nuplan_5s"), 1);  // 10 m above 8
  EXPECT_EQ(m.get("miss_waymo_3s"), 1);   // 6 m along, 2 m allowed
  EXPECT_NEAR(*m.get("meta_action_iou_cv"), 1, 1e-12);
  EXPECT_EQ(m.get("infeasible"), 0);
  EXPECT_FALSE(m.get("rfs"));
  EXPECT_FALSE(m.get("min_ade_5s"));
}

TEST(Measures, GoOnTo6SecondsAnd4TenthsWhereThePlanDoes) {
  RecordMeasures m;
  measure_far(steady(10), straight(8), m);  // 20 points
  EXPECT_FALSE(m.get("ade_6_4s"));
  Trajectory longer{4, {}};
  for (int i = 1; i <= 25; ++i) longer.points.push_back({2.0 * i, 0});  // 8 m/s
  measure_far(steady(10), longer, m);
  EXPECT_NEAR(*m.get("ade_6_4s"), 2 * 0.25 * 26 / 2, 1e-5);
  EXPECT_NEAR(*m.get("cv_ade_6_4s"), 0, 1e-5);
  for (const uint32_t flags : {uint32_t{sim::kUnknownFuture}, uint32_t{sim::kImported}}) {  // an imported record knows 5 s
    sim::Labels unknown = steady(10);
    unknown.unknown = flags;
    RecordMeasures none;
    measure_far(unknown, longer, none);
    EXPECT_FALSE(none.get("ade_6_4s")) << flags;
  }
}

TEST(Measures, ReadNoMoreOfAnImportedFutureThanItKnows) {
  const auto iou = [](uint32_t flags, float stand_in_mps) {
    sim::Labels l = steady(10);
    l.unknown = flags;
    for (size_t k = sim::kImportedFutureSteps; k < l.future.size(); ++k) l.future[k].x = l.future[k - 1].x + 0.1F * stand_in_mps;
    RecordMeasures m;
    measure_plan(l, straight(10), {}, {}, m);
    return *m.get("meta_action_iou");
  };
  EXPECT_LT(iou(0, 0), 0.95) << "who stands in the end does not keep his speed";
  EXPECT_NEAR(iou(sim::kImported, 0), 1, 1e-12) << "what stands in for the rest is not measured";
}

TEST(Measures, OfRolloutsAreTheLeastTheMeanAndTheAverages) {
  const std::vector<std::vector<Waypoint>> rollouts{straight(8).points, straight(12).points};
  RecordMeasures m;
  measure_plan(steady(10), straight(10), rollouts, {}, m);
  const double each = 2 * 0.25 * 21 / 2;
  EXPECT_NEAR(*m.get("min_ade_5s"), each, 1e-5);
  EXPECT_NEAR(*m.get("mean_ade_5s"), each, 1e-5);
  EXPECT_NEAR(*m.get("ade_5s_of_average"), 0, 1e-5);
  EXPECT_NEAR(*m.get("spread_m"), each, 1e-5);
}

TEST(Measures, RatedFramesAreScoredBesideConstantVelocity) {
  RatedFrame rated;
  rated.v0_mps = 11;
  rated.raters = {straight(11).points};
  rated.labels = {9};
  RecordMeasures m;
  measure_plan(steady(11), straight(5), {}, rated, m);
  EXPECT_NEAR(*m.get("rfs_cv"), 9, 1e-9);
  EXPECT_NEAR(*m.get("rfs_expert"), 9, 1e-5);
  EXPECT_EQ(*m.get("rfs"), 4);  // 18 m short at 3 s: outside everything, the floor
}

TEST(Measures, ActionErrors) {
  RecordMeasures m;
  measure_action(std::vector<double>{1, -2, 0.5}, std::vector<double>{0.5, -2, 2}, m);
  EXPECT_NEAR(*m.get("action_l1"), 2.0 / 3, 1e-12);
  EXPECT_NEAR(*m.get("action_rms"), std::sqrt((0.25 + 2.25) / 3), 1e-12);
  EXPECT_NEAR(*m.get("action_largest"), 1.5, 1e-12);
}

TEST(Ratings, TheExpertIsRatedHighestAndCollisionsNothing) {
  int rated = 0, hits = 0;
  for (uint64_t seed = 900'000'000; seed < 900'000'030; ++seed) {
    const auto r = sim::make_record(seed, {}, false);
    ASSERT_TRUE(r);
    const auto frame = rate_scene(r->labels);
    ASSERT_TRUE(frame);
    ASSERT_EQ(frame->raters.size(), 3U);
    ++rated;
    for (const double label : frame->labels) {
      EXPECT_GE(label, 0);
      EXPECT_LE(label, 10);
    }
    EXPECT_GE(frame->labels[0], frame->labels[1] - 4.2);  // comfort is worth 10 / 6, time to collision 10 * 5 / 12
    hits += frame->labels[2] == 0 && frame->labels[0] > 0;
  }
  EXPECT_EQ(rated, 30);
  EXPECT_GE(hits, 3);  // scenes in which keeping one's velocity ends badly
}

TEST(Ratings, RecordsThatAreNoSimulatedScenesAreNotRated) {
  auto r = sim::make_record(900'000'001, {}, false);
  ASSERT_TRUE(r);
  r->labels.future.back().x += 1;
  EXPECT_FALSE(rate_scene(r->labels));
  EXPECT_FALSE(rate_scene(steady(10)));
}

RecordMeasures some(uint64_t seed) {
  RecordMeasures m;
  m.decoder = "ar";
  m.seed = seed;
  m.family = "curve";
  m.pre_onset = seed % 2 == 0;
  m.valid = true;
  m.objects[1] = {true, seed % 3 == 0};
  m.texts = {{"lighting", seed % 2 == 0, "day"}};
  m.longitudinal_right = true;
  measure_plan(steady(10, static_cast<double>(seed)), straight(9), {}, {}, m);
  m.set("forwards", 3);
  return m;
}

// A study refuses other names before it trains.
TEST(Measures, HaveTheNamesThatAreListed) {
  const std::vector<std::string> names = measure_names();
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size()) << "each once";
  RecordMeasures m;
  const Trajectory plan = straight(9);
  const std::vector<std::vector<Waypoint>> rollouts{plan.points, straight(8).points};
  auto r = sim::make_record(900'000'001, {}, false);
  ASSERT_TRUE(r);
  measure_plan(r->labels, plan, rollouts, rate_scene(r->labels), m);
  Trajectory far{4, {}};
  for (int i = 1; i <= 25; ++i) far.points.push_back({2.0 * i, 0});
  measure_far(r->labels, far, m);
  measure_action(std::vector<double>{0.1}, std::vector<double>{0.2}, m);
  EXPECT_TRUE(m.get("rfs") && m.get("spread_m") && m.get("ade_6_4s") && m.get("action_l1"));
  for (const auto& [name, value] : m.numbers) EXPECT_EQ(std::count(names.begin(), names.end(), name), 1) << name;
}

TEST(RecordLine, ComesBackAsItWasAndSumsAsShardsDo) {
  Evaluation whole, shards;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    const RecordMeasures m = some(seed);
    const auto back = measures_from(m.to_json(), "line");
    ASSERT_TRUE(back) << back.error().message;
    EXPECT_EQ(json::serialize(back->to_json()), json::serialize(m.to_json()));
    whole.add(m);
  }
  for (const uint64_t shard : {0, 1, 2})
    for (uint64_t seed = shard; seed < 8; seed += 3) shards.add(*measures_from(some(seed).to_json(), "line"));
  EXPECT_EQ(shards.records, 8);
  EXPECT_NEAR(shards.all.model.ade_5s(), whole.all.model.ade_5s(), 1e-12);
  EXPECT_EQ(shards.pre_onset.model.count(), 4);
  EXPECT_EQ(shards.objects[1].true_yes, whole.objects[1].true_yes);
  EXPECT_DOUBLE_EQ(shards.text_agreement(), 0.5);
  EXPECT_EQ(shards.forwards, 24);
}

TEST(RecordLine, SaysWhatALineLacks) {
  json::object line = some(3).to_json();
  line.erase("valid");
  EXPECT_NE(measures_from(line, "a.jsonl, line 3").error().message.find("a.jsonl, line 3"), std::string::npos);
  line = some(3).to_json();
  line["measures"] = {{"ade_5s", "far"}};
  EXPECT_EQ(measures_from(line, "l").error().message, "l: measures: ade_5s: expected a number, got another type");
}

TEST(Comparison, HasAColumnForWhatSomeDecoderHas) {
  Evaluation a, b;
  a.add(some(1)), b.add(some(2));
  const std::string table = comparison_table({{"ar", a}, {"fields", b}});
  EXPECT_NE(table.find("| decoder |"), std::string::npos);
  EXPECT_NE(table.find("ADE@5s"), std::string::npos);
  EXPECT_EQ(table.find("action error"), std::string::npos);
  EXPECT_NE(comparison_csv({{"ar", a}}).find("\"ar\",1.000000"), std::string::npos);
}

}  // namespace
}  // namespace slip
