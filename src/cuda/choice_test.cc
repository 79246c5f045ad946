// SPDX-License-Identifier: Apache-2.0
// The device's choice among logits against the host's (lm/lm.h), whatever the parts that are joined.
#include "cuda/choice.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "lm/lm.h"

namespace slip::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

Choice choice_of(std::span<const float> logits_V, size_t part) {
  Choice whole = no_choice();
  for (size_t first = 0; first < logits_V.size(); first += part) {
    Choice c = no_choice();
    for (size_t v = first; v < std::min(first + part, logits_V.size()); ++v) choose(c, logits_V[v], static_cast<int>(v));
    const Choice left = joined(whole, c), right = joined(c, whole);
    EXPECT_EQ(std::memcmp(&left, &right, sizeof left), 0) << "both lanes of an exchange come to the same bits";
    whole = left;
  }
  return whole;
}

void expect_the_hosts(const std::vector<float>& logits_V) {
  const RowChoice host = choose_from(logits_V, {});
  for (const size_t part : {size_t{1}, size_t{3}, size_t{64}, logits_V.size()}) {
    const Choice c = choice_of(logits_V, part);
    EXPECT_EQ(c.id < 0 ? 0 : c.id, host.argmax.value);
    if (c.id >= 0) {
      EXPECT_EQ(c.largest, host.statistics.largest);
    }
    EXPECT_EQ(c.second, host.statistics.second);
    EXPECT_EQ(c.nan != 0, std::isnan(host.statistics.log_sum_exp) && std::isfinite(c.largest));
    if (c.nan == 0) {
      EXPECT_NEAR(c.largest + std::log(c.sum), host.statistics.log_sum_exp, 1e-5);
    }
  }
}

TEST(Choice, IsTheHostsWhateverThePartsAreThatAreJoined) {
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 5);
  for (const size_t n : {1, 2, 31, 32, 200, 1000}) {
    std::vector<float> logits_V(n);
    for (float& v : logits_V) v = normal(random);
    expect_the_hosts(logits_V);
  }
}

TEST(Choice, TakesTheLowestOfEqualsAndNeverWhatIsNoNumber) {
  expect_the_hosts({1, 3, 3, 2, 3});
  expect_the_hosts({2, 2});
  expect_the_hosts({kNan, 1, 0.5F});
  expect_the_hosts({1, kNan, 7, kNan});
  expect_the_hosts({-kInfinity, 1});
  EXPECT_EQ(choice_of(std::vector<float>{kNan, kNan}, 1).id, -1);
}

}  // namespace
}  // namespace slip::cuda
