// SPDX-License-Identifier: Apache-2.0
// Promises of the action bins, against the plan fixture.
#include "plan/action_bins.h"

#include <array>

#include "plan/json_testing.h"

namespace slip {
namespace {

ActionBins bins_of(const json::value& c) { return ActionBins(c.at("model").as_string() == "openvla" ? 32000 : 151921); }

void expect_all_near(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-9);
}

TEST(ActionBins, EqualTheFixture) {
  int encoded = 0, decoded = 0, scaled = 0;
  const json::value fixture = plan_fixture("action_bins.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    if (c.at("kind").as_string() == "encode") {
      EXPECT_EQ(bins_of(c).encode(number(c.at("value"))).value, c.at("token").as_int64()) << number(c.at("value"));
      ++encoded;
    } else if (c.at("kind").as_string() == "decode") {
      const auto got = bins_of(c).decode({static_cast<int32_t>(c.at("token").as_int64())});
      EXPECT_NEAR(got.action, number(c.at("value")), 1e-12);
      EXPECT_EQ(got.is_action, c.at("is_action").as_bool());
      ++decoded;
    } else {
      ActionStatistics s{numbers(c.at("q01")), numbers(c.at("q99")), {}};
      for (const json::value& m : c.at("mask").as_array()) s.mask.push_back(m.as_bool());
      expect_all_near(*unnormalise(numbers(c.at("action")), s), numbers(c.at("value")));
      expect_all_near(*normalise(numbers(c.at("raw")), s), numbers(c.at("normalised")));
      ++scaled;
    }
  }
  EXPECT_GE(encoded, 150);
  EXPECT_GE(decoded, 50);
  EXPECT_GE(scaled, 20);
}

TEST(ActionBins, GiveEveryCentreBackAsItsOwnId) {
  const ActionBins bins(32000);
  for (int id = bins.first().value + 1; id <= bins.last().value; ++id) EXPECT_EQ(bins.encode(bins.decode({id}).action).value, id);
  EXPECT_EQ(bins.decode(bins.first()).action, bins.decode({bins.first().value + 1}).action);
}

/// numpy 1.24: np.digitize(clip(x, -1, 1), np.linspace(-1, 1, n)), subtracted from 32000; centres as (edges[:-1] + edges[1:]) / 2.
TEST(ActionBins, OfOtherNumbersAreNumpys) {
  constexpr std::array kX{-2.0, -1.0, -0.5, -1.0 / 3, 0.0, 0.1, 1.0 / 3, 0.999, 1.0};
  const auto ids = [&](int n) {
    std::vector<int32_t> out;
    for (const double x : kX) out.push_back(ActionBins(32000, n).encode(x).value);
    return out;
  };
  EXPECT_EQ(ids(2), (std::vector<int32_t>{31999, 31999, 31999, 31999, 31999, 31999, 31999, 31999, 31998}));
  EXPECT_EQ(ids(3), (std::vector<int32_t>{31999, 31999, 31999, 31999, 31998, 31998, 31998, 31998, 31997}));
  EXPECT_EQ(ids(64), (std::vector<int32_t>{31999, 31999, 31984, 31978, 31968, 31965, 31957, 31937, 31936}));
  EXPECT_EQ(ids(1000), (std::vector<int32_t>{31999, 31999, 31750, 31666, 31500, 31450, 31333, 31001, 31000}));
  const auto centre = [](int n, int32_t id) { return ActionBins(32000, n).decode({id}).action; };
  EXPECT_EQ(centre(2, 31999), 0);
  EXPECT_NEAR(centre(64, 31999), -0.9841269841269842, 1e-15);
  EXPECT_NEAR(centre(64, 31998), -0.9523809523809523, 1e-15);
  EXPECT_NEAR(centre(1000, 31000), 0.998998998998999, 1e-15);
  EXPECT_FALSE(ActionBins(32000, 64).decode({31935}).is_action);
  EXPECT_TRUE(ActionBins(32000, 64).decode({31936}).is_action);
}

TEST(ActionStatistics, MustCoverEveryDimension) {
  const std::vector<double> seven(7, 0.0);
  EXPECT_FALSE(unnormalise(seven, {std::vector<double>(7), std::vector<double>(6), std::vector<bool>(7)}));
}

}  // namespace
}  // namespace slip
