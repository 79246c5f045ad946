// SPDX-License-Identifier: Apache-2.0
// The plan of passes per field: what it looks at is bounded, and where whole levels are cut at once a chain gets what single cuts give.
#include "decode/draft_length/plan.h"

#include <gtest/gtest.h>

#include <numeric>

#include "base/philox.h"

namespace slip {
namespace {

struct Graph {
  std::vector<Field> fields;
  std::vector<int32_t> order;
};
/// Field f stands behind field f - 1.
Graph chain_of(int32_t n) {
  Graph g;
  for (int32_t f = 0; f < n; ++f) {
    g.fields.push_back({.budget = 9});
    if (f > 0) g.fields.back().parents = {f - 1};
  }
  g.order.resize(g.fields.size());
  std::iota(g.order.begin(), g.order.end(), 0);
  return g;
}
LevelsPlan plan_of(const Graph& g, std::span<const double> draws, std::span<const double> price, double pass_ms) {
  LevelsPlan p;
  p.make(g.fields, g.order, draws, price, pass_ms);
  return p;
}

TEST(LevelsPlan, OfAChainOfFiveThousandFieldsLooksAtEachFourTimes) {
  constexpr int32_t kFields = 5000;
  const Graph g = chain_of(kFields);
  const std::vector<double> draws(kFields, 6), price(kFields, 0.5);
  const LevelsPlan p = plan_of(g, draws, price, 1);
  EXPECT_LE(p.steps(), 4 * kFields);
  for (int32_t f = 0; f < kFields; ++f) {
    ASSERT_EQ(p.passes(f), 1) << f;
    ASSERT_EQ(p.behind(f), kFields - 1 - f) << f;
  }
}

TEST(LevelsPlan, OfALongerChainGivesItsFieldsTheSamePasses) {
  constexpr auto kFew = static_cast<int32_t>(LevelsPlan::kCutOneByOne);
  for (uint64_t n = 0; n < 20; ++n) {
    PhiloxStream r(n, 81);
    std::vector<double> draws, price;
    for (int32_t f = 0; f <= kFew; ++f) {
      draws.push_back(r.uniform(1, 9));
      price.push_back(r.uniform(0, 2));
    }
    const LevelsPlan longer = plan_of(chain_of(kFew + 1), draws, price, 1);
    draws.pop_back();
    price.pop_back();
    const LevelsPlan plan = plan_of(chain_of(kFew), draws, price, 1);
    for (int32_t f = 0; f < kFew; ++f) {
      ASSERT_EQ(plan.passes(f), longer.passes(f)) << n << " " << f;
      ASSERT_EQ(plan.passes(f) < draws[static_cast<size_t>(f)],
                price[static_cast<size_t>(f)] < 1 && draws[static_cast<size_t>(f)] > 1.5);
    }
  }
}

TEST(LevelsPlan, CutsNoLevelWhoseMasksCostMoreThanAPass) {
  Graph g = chain_of(202);
  for (int32_t f = 1; f < 202; ++f) g.fields[static_cast<size_t>(f)].parents = {f <= 200 ? 0 : 200};
  const std::vector<double> draws(202, 6), price(202, 0.4);
  const LevelsPlan p = plan_of(g, draws, price, 1);
  EXPECT_EQ(p.passes(0), 1);
  for (int32_t f = 1; f <= 200; ++f) ASSERT_EQ(p.passes(f), 6) << f;
  EXPECT_EQ(p.passes(201), 1);
  EXPECT_EQ(p.behind(0), 7);
}

/// Two fields side by side, 9 and 6 draws, before one of 4: only the longer is cut until both are equally long, then both or the third.
TEST(LevelsPlan, CutsTheLongestPathWhereItIsCheapest) {
  Graph g = chain_of(3);
  g.fields[1].parents.clear();
  g.fields[2].parents = {0, 1};
  const std::vector<double> draws{9, 6, 4};
  const double price[] = {0.5, 0.6, 0.7};
  const LevelsPlan p = plan_of(g, draws, price, 1);
  EXPECT_EQ(p.passes(0), 6) << "both together would cost more than a pass";
  EXPECT_EQ(p.passes(1), 6);
  EXPECT_EQ(p.passes(2), 1);
  EXPECT_EQ(p.behind(0), 1);
}

}  // namespace
}  // namespace slip
