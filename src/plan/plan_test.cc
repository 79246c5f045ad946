// SPDX-License-Identifier: Apache-2.0
// Promises of the small parts: frames, parser, baselines, kinematic checks, behaviour from a trajectory, label scores.
#include <cmath>
#include <numbers>

#include "plan/baselines.h"
#include "plan/feasibility.h"
#include "plan/json_testing.h"
#include "plan/label_scores.h"

namespace slip {
namespace {

TEST(Frames, ConvertThereAndBack) {
  const Pose ego{10, -3, 0.7};
  const Waypoint ahead = to_world({5, 0}, ego);
  EXPECT_NEAR(ahead.x, 10 + 5 * std::cos(0.7), 1e-12);
  EXPECT_NEAR(ahead.y, -3 + 5 * std::sin(0.7), 1e-12);
  const Waypoint back = to_ego(to_world({2, 3}, ego), ego);
  EXPECT_NEAR(back.x, 2, 1e-12);
  EXPECT_NEAR(back.y, 3, 1e-12);
}

TEST(Baselines, FollowTheirMotion) {
  EXPECT_EQ(stay().points, std::vector<Waypoint>(20));
  EXPECT_EQ(constant_velocity({8, -1}).points[19], (Waypoint{40, -5}));
  // A quarter circle to the left in 5 s: radius v / w.
  const double w = std::numbers::pi / 10, r = 10 / w;
  const auto arc = constant_turn({10, 0}, w);
  EXPECT_NEAR(arc.points[19].x, r, 1e-9);
  EXPECT_NEAR(arc.points[19].y, r, 1e-9);
  for (const Waypoint& p : arc.points) EXPECT_NEAR(std::hypot(p.x, p.y - r), r, 1e-9);
  EXPECT_NEAR(constant_turn({10, 0}, 1e-12).points[19].x, 50, 1e-9);
}

TEST(Kinematics, MeasureACircle) {
  const auto k = kinematics_of(constant_turn({10, 0}, 0.5));  // curvature w / v = 0.05, acceleration v w = 5
  EXPECT_NEAR(k.max_speed_mps, 10, 0.05);
  EXPECT_NEAR(k.max_curvature_1pm, 0.05, 5e-4);
  EXPECT_NEAR(k.max_acceleration_mps2, 5, 0.05);
  EXPECT_NEAR(k.jerk_rms_mps3, 2.5, 0.05);  // v w^2
  EXPECT_TRUE(k.feasible());
  EXPECT_FALSE(kinematics_of(constant_turn({10, 0}, 1.2)).feasible());  // 12 m/s^2
  EXPECT_FALSE(kinematics_of(constant_turn({3, 0}, 0.9)).feasible());   // curvature 0.3
  EXPECT_TRUE(kinematics_of(stay()).feasible());
  EXPECT_FALSE(kinematics_of({4, {{NAN, 0}}}).feasible());
}

TEST(MetaBehaviour, FollowsItsThresholds) {
  using Lo = LongitudinalBehaviour;
  using La = LateralBehaviour;
  EXPECT_EQ(meta_behaviour(constant_velocity({10, 0}), 10), (MetaBehaviour{Lo::kKeepSpeed, La::kGoStraight}));
  EXPECT_EQ(meta_behaviour(constant_velocity({10, 0}), 8.6).longitudinal, Lo::kSpeedUp);
  EXPECT_EQ(meta_behaviour(constant_velocity({10, 0}), 11.8).longitudinal, Lo::kSlowDown);
  EXPECT_EQ(meta_behaviour(stay(), 5), (MetaBehaviour{Lo::kComeToStop, La::kGoStraight}));
  EXPECT_EQ(meta_behaviour(constant_turn({8, 0}, 0.1), 8).lateral, La::kTurnLeft);
  EXPECT_EQ(meta_behaviour(constant_turn({8, 0}, -0.1), 8).lateral, La::kTurnRight);
  EXPECT_EQ(meta_behaviour(constant_velocity({10, 0.5}), 10).lateral, La::kChangeLeft);
  EXPECT_EQ(meta_behaviour(constant_velocity({10, -0.5}), 10).lateral, La::kChangeRight);
  EXPECT_EQ(meta_behaviour(constant_velocity({-2, 0}), 2).lateral, La::kGoStraight);  // reversing is no turn
  EXPECT_EQ(words(Lo::kComeToStop), "come to stop");
  EXPECT_EQ(words(La::kChangeRight), "change right");
}

TEST(MetaBehaviour, AcceptsPlansShorterThanASecond) {
  EXPECT_EQ(meta_behaviour({4, {{2.5, 0}}}, 10).longitudinal, LongitudinalBehaviour::kKeepSpeed);
  EXPECT_EQ(meta_behaviour({4, {}}, 10).longitudinal, LongitudinalBehaviour::kComeToStop);
}

TEST(LabelScores, CountYesAndNo) {
  YesNoCounts c;
  for (int i = 0; i < 6; ++i) c.add(true, true);
  for (int i = 0; i < 2; ++i) c.add(true, false);
  for (int i = 0; i < 4; ++i) c.add(false, true);
  for (int i = 0; i < 8; ++i) c.add(false, false);
  EXPECT_DOUBLE_EQ(c.precision(), 0.75);
  EXPECT_DOUBLE_EQ(c.recall(), 0.6);
  EXPECT_NEAR(c.f1(), 2 * 0.75 * 0.6 / 1.35, 1e-12);
  EXPECT_DOUBLE_EQ(c.prior(), 0.5);
  EXPECT_NEAR(c.always_yes_f1(), 2.0 / 3, 1e-12);
  YesNoCounts never;
  never.add(false, false);
  EXPECT_EQ(never.f1(), 0);
  const std::array<YesNoCounts, 2> both = {c, never};
  EXPECT_DOUBLE_EQ(macro_f1(both), c.f1());  // a class without any yes is left out
  EXPECT_EQ(macro_f1({}), 0);
}

}  // namespace
}  // namespace slip
