// SPDX-License-Identifier: Apache-2.0
// Promises of the algebra, against the plan fixture.
#include "limits/speculation_algebra.h"

#include "plan/json_testing.h"

namespace slip {
namespace {

constexpr double kExact = 1e-9;
int integer(const json::value& v) { return static_cast<int>(v.as_int64()); }

TEST(SpeculationAlgebra, EqualsTheFixturesTable) {
  const json::value fixture = plan_fixture("speculation_algebra.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    const double alpha = number(c.at("alpha"));
    const int gamma = integer(c.at("gamma"));
    EXPECT_NEAR(expected_tokens(alpha, gamma), number(c.at("tokens")), kExact);
    EXPECT_NEAR(speculative_speedup(alpha, gamma, number(c.at("c"))), number(c.at("speedup")), kExact);
  }
}

TEST(SpeculationAlgebra, FindsWhereItBreaksEven) {
  const json::value fixture = plan_fixture("speculation_algebra.json");
  for (const json::value& c : fixture.at("break_even").as_array()) {
    const int gamma = integer(c.at("gamma"));
    const double cost = number(c.at("c")), speedup = number(c.at("speedup"));
    const auto alpha = break_even_alpha(gamma, cost, speedup);
    ASSERT_EQ(alpha.has_value(), !c.at("alpha").is_null());
    if (!alpha) continue;
    // Where only alpha = 1 reaches the speed-up, the table's closed form has cancelled (it says 0.9999999925); the root is 1.
    const bool needs_all = (gamma + 1) / (1 + cost * gamma) - speedup < 1e-12;
    EXPECT_NEAR(*alpha, needs_all ? 1.0 : number(c.at("alpha")), kExact) << json::serialize(c);
  }
}

TEST(SpeculationAlgebra, DraftsThatCostNothingBreakEvenAtNoAcceptance) {
  for (const int gamma : {1, 6, 16}) EXPECT_EQ(break_even_alpha(gamma, 0, 1), 0.0);
}

TEST(SpeculationAlgebra, ChoosesTheBestDraftLength) {
  const json::value fixture = plan_fixture("speculation_algebra.json");
  for (const json::value& c : fixture.at("best_gamma").as_array()) {
    const BestGamma best = best_gamma(number(c.at("alpha")), number(c.at("c")));
    EXPECT_EQ(best.gamma, integer(c.at("best_gamma")));
    EXPECT_NEAR(best.speedup, number(c.at("speedup")), kExact);
  }
}

TEST(SpeculationAlgebra, CountsTheRoundsOfAShortAnswer) {
  const json::value fixture = plan_fixture("speculation_algebra.json");
  for (const json::value& c : fixture.at("finite").as_array()) {
    const FiniteRun run = finite_run(integer(c.at("tokens")), number(c.at("alpha")), integer(c.at("gamma")));
    EXPECT_NEAR(run.rounds, number(c.at("rounds")), kExact);
    EXPECT_NEAR(run.draft_steps, number(c.at("draft_steps")), kExact);
  }
}

}  // namespace
}  // namespace slip
