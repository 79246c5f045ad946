// SPDX-License-Identifier: Apache-2.0
// Promises of followers and the controller, against the drive fixtures.
#include "drive/control.h"

#include "drive/drive_testing.h"

namespace slip::drive {
namespace {

constexpr double kExact = 1e-9;

Idm idm_of(const json::value& p) { return {num(p.at("a_max")), num(p.at("b")), num(p.at("s0")), num(p.at("T"))}; }

TEST(IntelligentDriver, EqualsTheFixture) {
  const json::value f = fixture("control/idm.json");
  for (const json::value& c : cases_of(f)) {
    const Idm idm = idm_of(c.at("parameters"));
    const std::optional<double> gap = c.at("gap").is_null() ? std::nullopt : std::optional<double>(num(c.at("gap")));
    EXPECT_NEAR(idm.desired_gap(num(c.at("v")), num(c.at("dv"))), num(c.at("desired_gap")), kExact);
    const double want = num(c.at("acceleration"));
    EXPECT_NEAR(idm.acceleration(num(c.at("v")), num(c.at("v0")), gap, num(c.at("dv"))), want,
                kExact * std::max(1.0, std::abs(want)));
  }
}

TEST(Bicycle, EqualsTheClosedForm) {
  for (const json::value& c : cases_of(fixture("control/bicycle.json"))) {
    const auto want = nums(c.at("exact"));
    const Motion got = bicycle_step({num(c.at("x")), num(c.at("y")), num(c.at("heading")), num(c.at("v"))}, num(c.at("a")),
                                    num(c.at("curvature")), num(c.at("dt")));
    EXPECT_NEAR(got.x, want[0], kExact);
    EXPECT_NEAR(got.y, want[1], kExact);
    EXPECT_NEAR(got.heading, want[2], kExact);
    EXPECT_NEAR(got.v, want[3], kExact);
  }
}

TEST(PurePursuit, EqualsTheFixture) {
  for (const json::value& c : cases_of(fixture("control/pursuit.json"))) {
    const json::value& want = c.at("euclid");
    const Pursuit got = pursue(points(c.at("path")), num(c.at("v")));
    const sim::Vec2 at = point(want.at("point"));
    SCOPED_TRACE(std::string(c.at("name").as_string()));
    EXPECT_NEAR(got.look_ahead, num(want.at("look_ahead")), kExact);
    EXPECT_NEAR(got.point.x, at.x, kExact);
    EXPECT_NEAR(got.point.y, at.y, kExact);
    EXPECT_NEAR(got.curvature, num(want.at("curvature")), kExact);
  }
}

SpeedControl gains_of(const json::value& g) {
  SpeedControl out;
  out.kp = num(g.at("kp")), out.ki = num(g.at("ki")), out.low = num(g.at("low")), out.high = num(g.at("high"));
  return out;
}

TEST(SpeedController, EqualsTheFixture) {
  const json::value f = fixture("control/speed_pi.json");
  for (const json::value& c : cases_of(f)) {
    SpeedControl pi = gains_of(c.at("gains"));
    for (const json::value& r : c.at("rows").as_array()) {
      const auto row = nums(r);  // t, target, v, a, integral after
      EXPECT_NEAR(pi.acceleration(row[1], row[2], num(f.at("dt"))), row[3], kExact);
      EXPECT_NEAR(pi.integral, row[4], kExact);
    }
  }
}

TEST(Follower, DrivesTheFixturesPlansStepByStep) {
  const json::value f = fixture("control/loop.json");
  for (const json::value& c : cases_of(f)) {
    Follower follower;
    const auto plan = points(c.at("plan"));
    const json::array& rows = c.at("rows").as_array();
    const auto first = nums(rows.front());
    Motion m{first[1], first[2], first[3], first[4]};
    for (const json::value& r : rows) {
      const auto row = nums(r);  // t, x, y, heading, v, target speed, a, curvature
      EXPECT_NEAR(m.x, row[1], 1e-8);
      EXPECT_NEAR(m.y, row[2], 1e-8);
      EXPECT_NEAR(m.heading, row[3], 1e-8);
      EXPECT_NEAR(m.v, row[4], 1e-8);
      const Follower::Command command = follower.follow(plan, num(c.at("plan_dt")), row[0], m);
      EXPECT_NEAR(command.target, row[5], 1e-8);
      EXPECT_NEAR(command.a, row[6], 1e-8);
      EXPECT_NEAR(command.curvature, row[7], 1e-8);
      m = bicycle_step(m, command.a, command.curvature, kControlStep);
    }
  }
}

TEST(Pace, OfABrakingPlanIsItsSpeedAndItsAcceleration) {
  // 10 m/s, braking with 4 m/s^2: s(t) = 10 t - 2 t^2.
  for (const double dt : {0.1, 0.25}) {
    std::vector<sim::Vec2> plan;
    for (int i = 0; i <= 8; ++i) plan.push_back({10 * dt * i - 2 * dt * i * dt * i, 0});
    for (const double t : {0.0, 0.05, 0.3, 0.6}) {
      const Pace p = pace_of(plan, dt, t);
      EXPECT_NEAR(p.v, 10 - 4 * t, 1e-9) << dt << " " << t;
      EXPECT_NEAR(p.a, -4, 1e-9);
    }
    EXPECT_EQ(pace_of(plan, dt, 60).a, 0);  // behind its end it goes on as it was
    EXPECT_NEAR(pace_of(plan, dt, 60).v, 10 - 4 * 7.5 * dt, 1e-9);
  }
}

TEST(Follower, BrakesAsAPlanDoesThatIsMadeAnewAtEveryTenthOfASecond) {
  // Every plan begins with the car's own speed: its error is zero and its acceleration is all that there is to go by.
  Follower follower(0, kLoopGains, true);
  Motion m{0, 0, 0, 10};
  for (int k = 0; k < 20; ++k) {
    std::vector<sim::Vec2> plan;
    for (int i = 0; i <= 10; ++i) plan.push_back({m.x + m.v * 0.1 * i - 1.5 * 0.01 * i * i, 0});
    for (const double offset : {0.0, 0.05}) {
      const Follower::Command c = follower.follow(plan, 0.1, offset, m);
      m = bicycle_step(m, c.a, c.curvature, kControlStep);
    }
  }
  EXPECT_NEAR(m.v, 10 - 3 * 2.0, 1e-6);
}

}  // namespace
}  // namespace slip::drive
