// SPDX-License-Identifier: Apache-2.0
// Promises of the fits, against the published ones and against what defines them.
#include "plan/fit.h"

#include <cmath>

#include "plan/json_testing.h"

namespace slip {
namespace {

constexpr double kExact = 1e-9;
constexpr std::array<std::pair<Fit, const char*>, 5> kFits = {{{Fit::kJmtPaperCompat, "jmt_compat"},
                                                               {Fit::kJmtFixed, "jmt_fixed"},
                                                               {Fit::kMinJerkV0, "minjerk_v0"},
                                                               {Fit::kMinJerkFree, "minjerk_free"},
                                                               {Fit::kLinear, "linear"}}};

TEST(FitMap, GivesTheFixturesTrajectories) {
  const json::value fixture = plan_fixture("fits.json");
  for (const auto& [fit, key] : kFits) {
    const auto map = FitMap::make({.fit = fit});
    ASSERT_TRUE(map) << map.error().message;
    int n = 0;
    for (const json::value& c : fixture.at("cases").as_array()) {
      const auto got = map->apply(waypoints(c.at("waypoints")), waypoint(c.at("v0")));
      ASSERT_TRUE(got) << got.error().message;
      expect_near(got->points, waypoints(c.at(key)), kExact, std::string(key) + " " + std::string(c.at("name").as_string()));
      ++n;
    }
    EXPECT_GE(n, 50);
  }
}

TEST(FitMap, GivesTheFixturesMatrices) {
  const json::value fixture = plan_fixture("fits.json");
  for (const auto& [fit, key] : kFits) {
    if (fit == Fit::kLinear) continue;
    const auto map = FitMap::make({.fit = fit});
    const json::array& rows = fixture.at("matrices").at(key).as_array();
    ASSERT_EQ(rows.size() * map->inputs(), map->matrix().size());
    for (size_t r = 0; r < rows.size(); ++r)
      for (size_t c = 0; c < map->inputs(); ++c)
        EXPECT_NEAR(map->matrix()[r * map->inputs() + c], number(rows[r].as_array()[c]), kExact) << key;
  }
}

/// Six waypoints at 2 Hz, 15 points at 5 Hz: knots fall on points only every second.
FitSpec other_rates(Fit fit) { return {.fit = fit, .knots = 6, .knot_rate_hz = 2, .points = 15, .rate_hz = 5}; }

TEST(FitMap, ReproducesParabolasAtAnyRate) {
  // x = 3 t + 0.4 t^2 has no jerk, so every minimum-jerk fit must return it.
  for (const Fit fit : {Fit::kMinJerkFree, Fit::kMinJerkV0}) {
    const auto map = FitMap::make(other_rates(fit));
    ASSERT_TRUE(map);
    std::vector<Waypoint> in;
    for (int k = 1; k <= 6; ++k) in.push_back({3 * 0.5 * k + 0.4 * 0.25 * k * k, -0.5 * k});
    const auto out = map->apply(in, {3, -1});
    ASSERT_TRUE(out);
    for (size_t i = 0; i < out->points.size(); ++i) {
      const double t = out->time_s(i);
      EXPECT_NEAR(out->points[i].x, 3 * t + 0.4 * t * t, kExact);
      EXPECT_NEAR(out->points[i].y, -t, kExact);
    }
  }
}

TEST(FitMap, PassesThroughItsWaypointsAtAnyRate) {
  for (const auto& [fit, key] : kFits) {
    const auto map = FitMap::make(other_rates(fit));
    const std::vector<Waypoint> in = {{1, 0}, {2.5, .1}, {4, .4}, {5, 1}, {5.5, 2}, {5.5, 3.5}};
    const auto out = map->apply(in, {2, 0});
    ASSERT_TRUE(out);
    for (size_t s = 1; s <= 3; ++s) {
      EXPECT_NEAR(out->points[5 * s - 1].x, in[2 * s - 1].x, kExact) << key;
      EXPECT_NEAR(out->points[5 * s - 1].y, in[2 * s - 1].y, kExact) << key;
    }
  }
}

TEST(FitMap, NeverRollsBackFromAStopUnderTheMonotoneRule) {
  const std::vector<Waypoint> stop = {{4, 0}, {7, 0}, {9, 0}, {10, 0}, {10, 0}};
  for (const Fit fit : {Fit::kJmtPaperCompat, Fit::kJmtFixed, Fit::kMinJerkV0, Fit::kMinJerkFree}) {
    const auto plain = FitMap::make({.fit = fit})->apply(stop, {4.5, 0});
    const auto ruled = FitMap::make({.fit = fit, .monotone_stop = true})->apply(stop, {4.5, 0});
    ASSERT_TRUE(plain && ruled);
    EXPECT_GT(plain->points[17].x, 10.01) << name_of(fit);  // what the rule is for
    double before = 0;
    for (const Waypoint& w : ruled->points) {
      EXPECT_GE(w.x, before - kExact) << name_of(fit);
      EXPECT_LE(w.x, 10 + kExact) << name_of(fit);
      before = w.x;
    }
    EXPECT_NEAR(ruled->points[15].x, 10, kExact);
  }
}

TEST(FitMap, LeavesMovingPlansAloneUnderTheMonotoneRule) {
  const std::vector<Waypoint> moving = {{5, .2}, {9.5, 1.5}, {13, 4.2}, {15, 8}, {15.8, 12.5}};
  const auto plain = FitMap::make({.fit = Fit::kMinJerkFree})->apply(moving);
  const auto ruled = FitMap::make({.fit = Fit::kMinJerkFree, .monotone_stop = true})->apply(moving);
  EXPECT_EQ(plain->points, ruled->points);
}

TEST(FitMap, StandsStillWhenEveryWaypointDoes) {
  for (const auto& [fit, key] : kFits) {
    const auto out = FitMap::make({.fit = fit, .monotone_stop = true})->apply(std::vector<Waypoint>(5));
    ASSERT_TRUE(out);
    for (const Waypoint& w : out->points) EXPECT_EQ(w, Waypoint{}) << key;
  }
}

FitSpec half_metres() { return {.fit = Fit::kRounded, .rounding_m = 0.25}; }

/// The integral of the squared jerk by third differences of many points, plus what the waypoints are held with: rounded_fit.h's sum,
/// computed without its matrices.
double rounded_cost(std::span<const Waypoint> places, std::span<const Waypoint> said, Waypoint v0) {
  constexpr int kPer = 400;
  const FitSpec spec{.fit = Fit::kMinJerkV0, .points = 5 * kPer, .rate_hz = kPer};
  std::vector<Waypoint> p{{0, 0}};
  const auto t = FitMap::make(spec)->apply(places, v0);
  p.insert(p.end(), t->points.begin(), t->points.end());
  double sum = 0;
  for (size_t i = 3; i < p.size(); ++i)
    for (const auto axis : {&Waypoint::x, &Waypoint::y}) {
      const double d = p[i].*axis - 3 * (p[i - 1].*axis) + 3 * (p[i - 2].*axis) - p[i - 3].*axis;
      sum += d * d * std::pow(kPer, 5);
    }
  for (size_t k = 0; k < said.size(); ++k) sum += 20 * std::pow(distance_m(places[k], said[k]), 2);
  return sum;
}

TEST(RoundedFit, StaysWithinTheRoundingAndNothingThereIsSmoother) {
  const std::vector<std::vector<Waypoint>> plans = {{{5.5, 0}, {11, 0}, {16.5, 0}, {19.5, -2.5}, {20, -6}},
                                                    {{7, 0}, {13, 0}, {17.5, 1.5}, {21, 3.5}, {25, 3.5}},
                                                    {{6, 0}, {11, .5}, {14, .5}, {15.5, .5}, {17, .5}},
                                                    {{12, 0}, {24, 0}, {36, 0}, {48, 0}, {60, 0}},
                                                    {{0, 0}, {0.5, 0}, {2, 0}, {4.5, 0}, {8, 0}}};
  const FitMap map = *FitMap::make(half_metres());
  for (const std::vector<Waypoint>& said : plans) {
    const Waypoint v0{said[0].x, 0};
    const auto out = map.apply(said, v0);
    ASSERT_TRUE(out);
    std::vector<Waypoint> places;
    for (size_t k = 0; k < 5; ++k) {
      places.push_back(out->points[4 * k + 3]);
      EXPECT_LE(std::abs(places[k].x - said[k].x), 0.25 + kExact);
      EXPECT_LE(std::abs(places[k].y - said[k].y), 0.25 + kExact);
    }
    const double best = rounded_cost(places, said, v0);
    EXPECT_LE(best, rounded_cost(said, said, v0));
    for (size_t k = 0; k < 5; ++k)
      for (const double step : {-0.02, 0.02})
        for (const auto axis : {&Waypoint::x, &Waypoint::y}) {
          std::vector<Waypoint> other = places;
          other[k].*axis += step;
          if (std::abs(other[k].*axis - said[k].*axis) > 0.25) continue;
          EXPECT_GE(rounded_cost(other, said, v0), best) << k;
        }
  }
}

TEST(RoundedFit, GivesBackASteadyDriveThatWasRounded) {
  // 7.3 m/s, a little to the left: said as 7.5, 14.5, 22, 29, 36.5 and 0, 0.5, 0.5, 0.5, 1.
  std::vector<Waypoint> said;
  for (int t = 1; t <= 5; ++t) said.push_back({std::round(7.3 * t * 2) / 2, std::round(0.18 * t * 2) / 2});
  const auto rounded = FitMap::make(half_metres())->apply(said, {7.3, 0.18});
  const auto through = FitMap::make({.fit = Fit::kMinJerkV0})->apply(said, {7.3, 0.18});
  ASSERT_TRUE(rounded && through);
  double near = 0, far = 0;
  for (size_t i = 0; i < rounded->points.size(); ++i) {
    const Waypoint truth{7.3 * rounded->time_s(i), 0.18 * rounded->time_s(i)};
    near = std::max(near, distance_m(rounded->points[i], truth)), far = std::max(far, distance_m(through->points[i], truth));
  }
  EXPECT_LT(near, 0.6 * far);
}

TEST(RoundedFit, KeepsItsWordForOtherRatesAndNumbers) {
  for (const FitSpec spec : {FitSpec{.fit = Fit::kRounded, .knots = 1, .points = 4, .rounding_m = 0.25},
                             FitSpec{.fit = Fit::kRounded, .knots = 6, .knot_rate_hz = 2, .points = 12, .rounding_m = 0.25},
                             FitSpec{.fit = Fit::kRounded, .knots = 64, .points = 256, .rounding_m = 0.05},
                             FitSpec{.fit = Fit::kRounded, .knots = 5, .rounding_m = 0.25, .start_known = false}}) {
    const auto map = FitMap::make(spec);
    ASSERT_TRUE(map) << map.error().message;
    std::vector<Waypoint> said;
    for (int k = 1; k <= spec.knots; ++k)
      said.push_back({std::round(13.1 * k / spec.knot_rate_hz) / 2, std::round(std::sin(k) * 2) / 2});
    const auto out = map->apply(said, {6.5, 0});
    ASSERT_TRUE(out);
    const auto per = static_cast<size_t>(spec.rate_hz / spec.knot_rate_hz);
    for (size_t k = 0; k < said.size(); ++k) {
      EXPECT_LE(std::abs(out->points[per * (k + 1) - 1].x - said[k].x), spec.rounding_m + kExact) << spec.knots << " " << k;
      EXPECT_LE(std::abs(out->points[per * (k + 1) - 1].y - said[k].y), spec.rounding_m + kExact) << spec.knots << " " << k;
    }
  }
  EXPECT_FALSE(FitMap::make({.fit = Fit::kRounded, .knots = 1, .points = 4, .start_known = false}));
  EXPECT_FALSE(FitMap::make({.fit = Fit::kRounded, .knots = 30, .knot_rate_hz = 10, .points = 12}));
}

TEST(RoundedFit, TiesNothingButTheLastPlace) {
  // Two stands; and places that creep by less than counts as standing elsewhere.
  for (const std::vector<Waypoint>& said : {std::vector<Waypoint>{{1, 0}, {1, 0}, {5, 0}, {5, 0}, {5, 0}},
                                            std::vector<Waypoint>{{5, 0}, {9, 0}, {10, 0}, {10.04, 0}, {10.08, 0}}}) {
    const auto out = FitMap::make({.fit = Fit::kRounded, .monotone_stop = true, .rounding_m = 0.005})->apply(said, {1, 0});
    ASSERT_TRUE(out);
    for (size_t k = 0; k < 5; ++k) EXPECT_LE(std::abs(out->points[4 * k + 3].x - said[k].x), 0.005 + kExact) << k;
  }
}

TEST(RoundedFit, IsTheLeastJerkWhereNothingWasRounded) {
  const std::vector<Waypoint> said = {{5, .2}, {9.5, 1.5}, {13, 4.2}, {15, 8}, {15.8, 12.5}};
  const auto exact = FitMap::make({.fit = Fit::kRounded, .rounding_m = 0})->apply(said, {5, 0});
  const auto least = FitMap::make({.fit = Fit::kMinJerkV0})->apply(said, {5, 0});
  ASSERT_TRUE(exact && least);
  expect_near(exact->points, least->points, kExact, "rounding of 0");
}

TEST(RoundedFit, StandsWhereTheLastWaypointsAreOne) {
  const auto out = FitMap::make(half_metres())->apply(std::vector<Waypoint>{{4, 0}, {7, 0}, {9, 0}, {10, 0}, {10, 0}}, {4.5, 0});
  ASSERT_TRUE(out);
  double before = 0;
  for (const Waypoint& w : out->points) {
    EXPECT_GE(w.x, before - kExact);
    before = w.x;
  }
  for (size_t i = 15; i < 20; ++i) EXPECT_NEAR(out->points[i].x, out->points[15].x, kExact);
  const auto still = FitMap::make(half_metres())->apply(std::vector<Waypoint>(5), {0, 0});
  for (const Waypoint& w : still->points) EXPECT_EQ(w, Waypoint{});
}

TEST(FitMap, RefusesWhatDoesNotFitTogether) {
  EXPECT_FALSE(FitMap::make({.knots = 0}));
  for (const double r : {-0.1, 6.0, std::nan("")}) EXPECT_FALSE(FitMap::make({.fit = Fit::kRounded, .rounding_m = r})) << r;
  EXPECT_FALSE(FitMap::make({.knots = 65}));
  EXPECT_FALSE(FitMap::make({.fit = Fit::kMinJerkFree, .knots = 1, .points = 4}));
  EXPECT_FALSE(FitMap::make({.points = 21}));
  EXPECT_FALSE(FitMap::make({.rate_hz = 0}));
  const auto map = FitMap::make({});
  EXPECT_FALSE(map->apply(std::vector<Waypoint>(4)));
  EXPECT_FALSE(map->apply(std::vector<Waypoint>(5, {NAN, 0})));
  for (const Fit fit : {Fit::kJmtPaperCompat, Fit::kMinJerkV0, Fit::kLinear})
    EXPECT_TRUE(FitMap::make({.fit = fit, .knots = 1, .points = 4}));
  EXPECT_TRUE(FitMap::make({.fit = Fit::kMinJerkFree, .knots = 2, .points = 8}));
  EXPECT_TRUE(FitMap::make({.fit = Fit::kMinJerkV0, .knots = 64, .knot_rate_hz = 10, .points = 64, .rate_hz = 10}));
}

TEST(FitNames, AreTheirOwnInverse) {
  for (const auto& [fit, key] : kFits) EXPECT_EQ(fit_named(name_of(fit)), fit);
  EXPECT_EQ(fit_named("rounded"), Fit::kRounded);
  EXPECT_FALSE(fit_named("cubic"));
}

TEST(AverageRollouts, FitsEachAndTakesTheMean) {
  const auto map = FitMap::make({});
  const json::value fixture = plan_fixture("rollouts.json");
  for (const json::value& c : fixture.at("cases").as_array()) {
    const auto got = average_rollouts(*map, many_waypoints(c.at("waypoints")));
    ASSERT_TRUE(got);
    expect_near(got->mean.points, waypoints(c.at("jmt_compat_mean")), kExact, "mean");
  }
}

TEST(AverageRollouts, ReportsHowFarTheRolloutsLieApart) {
  const auto map = FitMap::make({.fit = Fit::kLinear});
  const std::vector<std::vector<Waypoint>> two = {{{1, 1}, {2, 1}, {3, 1}, {4, 1}, {5, 1}},
                                                  {{1, -1}, {2, -1}, {3, -1}, {4, -1}, {5, -1}}};
  const auto got = average_rollouts(*map, two);
  EXPECT_NEAR(got->spread_m[19], 1, kExact);
  EXPECT_NEAR(got->spread_m[0], 0.25, kExact);
  EXPECT_NEAR(average_rollouts(*map, std::span(two).first(1))->spread_m[19], 0, kExact);
  EXPECT_FALSE(average_rollouts(*map, {}));
}

}  // namespace
}  // namespace slip
