// SPDX-License-Identifier: Apache-2.0
// Promises of the scores, against the drive fixtures (checked against the public scorers, run as they are) and by hand.
#include "drive/score/score.h"

#include <cmath>

#include "drive/drive_testing.h"
#include "drive/score/bootstrap.h"
#include "drive/score/filter.h"

namespace slip::drive {
namespace {

constexpr double kExact = 1e-9;

Kind kind_of(std::string_view word) {
  return word == "vehicle"      ? Kind::kVehicle
         : word == "pedestrian" ? Kind::kPedestrian
         : word == "bicycle"    ? Kind::kBicycle
                                : Kind::kOther;
}

std::vector<Polygon> polygons(const json::value& v) {
  std::vector<Polygon> out;
  for (const json::value& p : v.as_array()) out.push_back(points(p));
  return out;
}

Surroundings surroundings(const json::value& w) {
  Surroundings out;
  for (const json::value& l : w.at("lanes").as_array()) out.lanes.push_back({points(l.at("polygon")), l.at("on_route").as_bool()});
  out.drivable = polygons(w.at("drivable"));
  out.intersections = polygons(w.at("intersections"));
  out.centre_line = points(w.at("centre_line"));
  for (const json::value& r : w.at("red_lights").as_array())
    out.red.push_back(
        {points(r.at("polygon")), static_cast<int>(whole_number(r.at("from"))), static_cast<int>(whole_number(r.at("to")))});
  for (const json::value& a : w.at("agents").as_array()) {
    Other o{std::string(a.at("id").as_string()), kind_of(a.at("kind").as_string()), num(a.at("length")), num(a.at("width")), {}};
    for (const json::value& p : a.at("poses").as_array()) {
      if (p.is_null()) {
        o.poses.emplace_back();
        continue;
      }
      const auto n = nums(p);
      o.poses.push_back(OtherPose{n.at(0), n.at(1), n.at(2), n.at(3)});
    }
    out.others.push_back(std::move(o));
  }
  return out;
}

std::optional<int> step_at(const json::value& v) {
  return v.is_null() ? std::nullopt : std::optional<int>(static_cast<int>(whole_number(v)));
}

void expect_comfort(const Comfort& c, const json::value& want) {
  EXPECT_EQ(c.lon_acc, want.at("lon_acc").as_bool());
  EXPECT_EQ(c.lat_acc, want.at("lat_acc").as_bool());
  EXPECT_EQ(c.jerk, want.at("jerk").as_bool());
  EXPECT_EQ(c.lon_jerk, want.at("lon_jerk").as_bool());
  EXPECT_EQ(c.yaw_acc, want.at("yaw_acc").as_bool());
  EXPECT_EQ(c.yaw_rate, want.at("yaw_rate").as_bool());
}

void expect_contacts(const TrackScore& s, const Surroundings& world, const json::array& want) {
  ASSERT_EQ(s.contacts.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) {
    const json::array& w = want[i].as_array();
    EXPECT_EQ(s.contacts[i].step, whole_number(w.at(0)));
    EXPECT_EQ(world.others[s.contacts[i].other].id, w.at(1).as_string());
    EXPECT_EQ(name_of(s.contacts[i].type), w.at(2).as_string());
    EXPECT_EQ(s.contacts[i].at_fault, w.at(3).as_bool());
  }
}

void expect_track(const TrackScore& s, const json::value& e) {
  EXPECT_EQ(s.nc, num(e.at("NC")));
  EXPECT_EQ(s.dac, num(e.at("DAC")));
  EXPECT_EQ(s.ddc, num(e.at("DDC")));
  EXPECT_EQ(s.tlc, num(e.at("TLC")));
  EXPECT_EQ(s.ttc, num(e.at("TTC")));
  EXPECT_EQ(s.lane_keeping, num(e.at("LK")));
  EXPECT_NEAR(s.progress_m, num(e.at("progress")), kExact);
}

TEST(PdmScore, EqualsThePublicScorerOnEveryTrack) {
  const json::value f = fixture("pdm/pdm.json");
  int n = 0;
  for (const json::value& c : cases_of(f)) {
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    const json::value& e = c.at("expected");
    const Body body{num(c.at("ego").at("length")), num(c.at("ego").at("width")), num(c.at("ego").at("rear_to_centre"))};
    const Surroundings world = surroundings(c.at("world"));
    const std::vector<State> track = states(c.at("states")), expert_track = states(c.at("expert"));
    const TrackScore own = score_track(track, world, body), expert = score_track(expert_track, world, body);
    expect_track(own, e);
    expect_track(expert, c.at("expert_expected"));
    expect_contacts(own, world, e.at("contacts").as_array());
    EXPECT_EQ(own.first_off_road, step_at(e.at("first_off_road_step")));
    EXPECT_EQ(own.first_red, step_at(e.at("first_red_step")));
    EXPECT_EQ(own.first_ttc, step_at(e.at("first_ttc_step")));
    EXPECT_NEAR(own.oncoming_m, num(e.at("oncoming_metres")), kExact);
    EXPECT_EQ(own.ttc_constant, num(e.at("TTC_constant")));
    ASSERT_EQ(own.least_time_s.has_value(), !e.at("least_time").is_null());
    if (own.least_time_s) {
      EXPECT_NEAR(*own.least_time_s, num(e.at("least_time")), kExact);
    }
    expect_comfort(own.comfort, e.at("C_flags"));
    expect_comfort(own.comfort_loop, e.at("C_loop_flags"));
    EXPECT_NEAR(ego_progress(own, expert), num(e.at("EP")), kExact);
    EXPECT_NEAR(ego_progress_loop(own, expert), num(e.at("EP_loop")), kExact);
    EXPECT_NEAR(pdms(own, expert), num(e.at("PDMS")), kExact);
    EXPECT_NEAR(loop_score(own, expert), num(e.at("loop")), kExact);
    std::vector<State> with_history = states(c.at("history")), expert_history = with_history;
    with_history.insert(with_history.end(), track.begin(), track.end());
    expert_history.insert(expert_history.end(), expert_track.begin(), expert_track.end());
    const bool hc = comfort_of(with_history, body, Acceleration::kNavsim).all();
    EXPECT_EQ(hc ? 1.0 : 0.0, num(e.at("HC")));
    const bool expert_hc = comfort_of(expert_history, body, Acceleration::kNavsim).all();
    EXPECT_NEAR(epdms(own, expert, hc, expert_hc, num(c.at("ec"))), num(e.at("EPDMS")), kExact);
    ++n;
  }
  EXPECT_GE(n, 100);
}

TEST(ExtendedComfort, EqualsThePublicFunction) {
  for (const json::value& c : cases_of(fixture("pdm/extended_comfort.json"))) {
    const ExtendedComfort got = extended_comfort(states(c.at("now")), states(c.at("before")),
                                                 static_cast<size_t>(whole_number(c.at("offset_steps"))), {5.0, 2.0, 1.5});
    EXPECT_NEAR(got.acceleration, num(c.at("rms").at("acceleration")), kExact);
    EXPECT_NEAR(got.jerk, num(c.at("rms").at("jerk")), kExact);
    EXPECT_NEAR(got.yaw_rate, num(c.at("rms").at("yaw_rate")), kExact);
    EXPECT_NEAR(got.yaw_acceleration, num(c.at("rms").at("yaw_accel")), kExact);
    EXPECT_EQ(got.comfortable() ? 1.0 : 0.0, num(c.at("EC")));
  }
}

TEST(SavitzkyGolay, EqualsTheFixtureWithOddAndEvenWindows) {
  const json::value f = fixture("pdm/filter.json");
  const struct {
    const char* name;
    int window, order, derivative;
  } filters[] = {{"smooth_8_2", 8, 2, 0},
                 {"smooth_7_2", 7, 2, 0},
                 {"first_derivative_15_2", 15, 2, 1},
                 {"first_derivative_5_2", 5, 2, 1},
                 {"second_derivative_5_3", 5, 3, 2},
                 {"second_derivative_5_2", 5, 2, 2}};
  for (const json::value& c : cases_of(f)) {
    const auto values = nums(c.at("values"));
    for (const auto& [name, window, order, derivative] : filters) {
      const auto want = nums(c.at(name)), got = savitzky_golay(values, window, order, derivative, num(f.at("dt")));
      ASSERT_EQ(got.size(), want.size());
      for (size_t i = 0; i < want.size(); ++i)
        EXPECT_NEAR(got[i], want[i], 1e-9 * std::max(1.0, std::fabs(want[i]))) << name << " " << i;
    }
  }
}

TEST(NeuroNcap, EqualsTheFixture) {
  for (const json::value& c : cases_of(fixture("pdm/neuroncap.json")))
    EXPECT_NEAR(neuro_ncap(c.at("collided").as_bool(), point(c.at("ego_velocity")), point(c.at("other_velocity")),
                           num(c.at("reference_speed"))),
                num(c.at("score")), kExact);
}

TEST(PairedInterval, EqualsTheFixtureInAllThreeWays) {
  int n = 0;
  for (const json::value& c : cases_of(fixture("bootstrap/paired.json"))) {
    std::vector<std::string> groups;
    for (const json::value& g : c.at("groups").as_array()) groups.emplace_back(g.as_string());
    const std::string_view word = c.at("way").as_string();
    const Resampling way = word == "plain"     ? Resampling::kPlain
                           : word == "grouped" ? Resampling::kGrouped
                                               : Resampling::kStratified;
    std::vector<double> means;
    const uint64_t seed = std::stoull(std::string(c.at("seed").as_string()));
    const Interval got = paired_interval(nums(c.at("a")), nums(c.at("b")), groups, way, seed,
                                         static_cast<uint32_t>(whole_number(c.at("resamples"))), &means);
    // The reader of decimals is within one unit in the last place.
    EXPECT_NEAR(got.mean, num(c.at("mean")), 1e-15);
    EXPECT_NEAR(got.low, num(c.at("low")), 1e-15);
    EXPECT_NEAR(got.high, num(c.at("high")), 1e-15);
    const auto first = nums(c.at("first_means"));
    for (size_t i = 0; i < first.size(); ++i) EXPECT_NEAR(means[i], first[i], 1e-15);
    ++n;
  }
  EXPECT_GE(n, 20);
}

TEST(Geometry, TouchingBoxesOverlapAndBordersAreOutside) {
  const Corners a = corners_of({0, 0, 0}, 4, 2), beside = corners_of({0, 2, 0}, 4, 2), apart = corners_of({0, 2.0625, 0}, 4, 2);
  EXPECT_TRUE(touch(a, beside));
  EXPECT_FALSE(touch(a, apart));
  const Polygon hook{{0, 0}, {4, 0}, {4, 4}, {3, 4}, {3, 1}, {0, 1}};  // not convex
  EXPECT_TRUE(contains(hook, {3.5, 3}));
  EXPECT_FALSE(contains(hook, {1, 3}));
  EXPECT_FALSE(contains(hook, {3, 2}));
  EXPECT_FALSE(contains(hook, {0, 0}));
  EXPECT_TRUE(touches_polygon(corners_of({1, 3, 0}, 1, 6), hook));
  EXPECT_FALSE(touches_polygon(corners_of({1, 3, 0}, 1, 1), hook));
}

}  // namespace
}  // namespace slip::drive
