// SPDX-License-Identifier: Apache-2.0
// What the study of reaching says of known counts. Decoding itself: tests/cli/reach_test.cc and tests/decode/reach_test.cc.
#include "drive/reach/reach_study.h"

#include <gtest/gtest.h>

namespace slip::drive {
namespace {

ReachEpisode episode(sim::ReachEnd end, const ReachCounts& counts) { return {end, counts, {}}; }

/// 20 actions of 7 passes: a prompt's 10 ms and six of 4 ms; and 20 by two rounds of four drafts.
std::vector<Reached> known() {
  Reached plain{{.decoder = "scaffold-ar", .method = {}}, {}, {}, {}};
  Reached drafted{{.decoder = "draft-model", .drafts = 4, .radius = 2, .second_model = true, .method = {}}, {}, {}, {}};
  for (const bool good : {true, false}) {
    plain.add(episode(sim::ReachEnd::kSuccess, {.actions = 10, .passes = 70, .ms = 400, .prompt_ms = 100, .decode_ms = 240}));
    drafted.add(episode(good ? sim::ReachEnd::kSuccess : sim::ReachEnd::kHit, {.actions = 10,
                                                                               .passes = 30,
                                                                               .draft_passes = 80,
                                                                               .rounds = 20,
                                                                               .tested = 60,
                                                                               .accepted = 45,
                                                                               .ms = 250,
                                                                               .prompt_ms = 100,
                                                                               .decode_ms = 80,
                                                                               .draft_ms = 45,
                                                                               .draft_prompt_ms = 10}));
  }
  return {plain, drafted};
}

TEST(ReachStudy, TimesOfAnActionAreThoseOfSinglePasses) {
  const std::vector<Reached> all = known();
  const ActionTimes t = action_times(all[0], all[1]);
  EXPECT_DOUBLE_EQ(t.target_prefill_ms, 10);
  EXPECT_DOUBLE_EQ(t.target_step_ms, 4);  // 240 / (70 - 10)
  EXPECT_DOUBLE_EQ(t.draft_prefill_ms, 1);
  EXPECT_DOUBLE_EQ(t.draft_step_ms, 0.5);  // 35 / (80 - 10)
}

TEST(ReachStudy, RowsHaveWhatWasMeasuredAndWhatFormulasSay) {
  const json::object study = reach_json(known());
  const json::object& row = study.at("rows").at(1).as_object();
  const auto number = [&](std::string_view key) { return row.at(key).to_number<double>(); };
  EXPECT_DOUBLE_EQ(number("alpha"), 0.75);
  EXPECT_DOUBLE_EQ(number("passes"), 3);
  EXPECT_DOUBLE_EQ(number("ms"), 25);
  EXPECT_DOUBLE_EQ(number("speed"), 1.6);
  EXPECT_DOUBLE_EQ(number("c"), 0.125);
  // 1 + .75 + .75^2 + .75^3 + .75^4 over 1 + 4 / 8.
  EXPECT_NEAR(number("formula"), 3.05078125 / 1.5, 1e-9);
  const FiniteRun run = finite_run(7, 0.75, 4);
  EXPECT_NEAR(number("formula_of_an_action"), 34 / (10 + 1 + (run.rounds - 1) * 4 + run.draft_steps * 0.5), 1e-9);
  // Two passes a round: two rounds of 4 ms more an action.
  EXPECT_NEAR(number("speed_two_passes"), 40.0 / 33, 1e-9);
  EXPECT_DOUBLE_EQ(row.at("success").at("mean").as_double(), 0.5);
  EXPECT_DOUBLE_EQ(row.at("less_the_first").at("mean").as_double(), -0.5);
  EXPECT_EQ(row.at("ends").at("hit").to_number<int>(), 1);
  const json::object& first = study.at("rows").at(0).as_object();
  EXPECT_FALSE(first.contains("formula"));
  EXPECT_FALSE(first.contains("less_the_first"));
}

// All drafts hold and cost nothing: one round, whose drafts are in the prompt's pass.
TEST(ReachStudy, AnActionOfOneRoundIsThePromptsPass) {
  EXPECT_NEAR(action_speedup({.target_prefill_ms = 10, .target_step_ms = 4}, 7, 1, 6), 3.4, 1e-12);
  EXPECT_NEAR(action_speedup({.target_prefill_ms = 10, .target_step_ms = 4}, 7, 0, 6), 1, 1e-12);
}

TEST(ReachStudy, WilsonsIntervalKnowsHowManyThereWere) {
  const Interval all = wilson_interval(10, 10), half = wilson_interval(50, 100);
  EXPECT_NEAR(all.low, 0.7225, 5e-5);  // [Wilson 1927]; n / (n + z^2)
  EXPECT_NEAR(all.high, 1, 1e-12);
  EXPECT_NEAR(half.low, 0.4038, 5e-5);
  EXPECT_NEAR(half.high, 0.5962, 5e-5);
  EXPECT_EQ(wilson_interval(0, 0).high, 1);
}

TEST(ReachStudy, TheTableAndTheCsvHaveALineEach) {
  const json::object study = reach_json(known());
  const std::string table = reach_table(study), csv = reach_csv(study);
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), 3);
  EXPECT_NE(table.find("draft-model"), std::string::npos);
  EXPECT_EQ(csv.substr(csv.find('\n') + 1, 14), "scaffold-ar,0,");
  EXPECT_NE(csv.find("draft-model,4,2,2,0.5000"), std::string::npos);
  EXPECT_NE(csv.find("1 hit; 1 success"), std::string::npos);
}

}  // namespace
}  // namespace slip::drive
