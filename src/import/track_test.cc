// SPDX-License-Identifier: Apache-2.0
// Promises of tracks: labels are those of the path that was driven, nothing is made up where a recording has a hole, and what no car drives is
// refused.
#include "import/track.h"

#include <gtest/gtest.h>

#include <cmath>

namespace slip {
namespace {

/// A circle of 50 m at 10 m/s, turning left.
Track circle() {
  std::vector<TimedPose> poses;
  for (int i = 0; i <= 300; ++i) {
    const double t = 0.05 * i, a = t * 10 / 50;
    poses.push_back({t, {50 * std::sin(a), 50 - 50 * std::cos(a), a}});
  }
  auto t = Track::of(std::move(poses), "circle");
  EXPECT_TRUE(t);
  return *t;
}

TEST(Track, LabelsOfACircleAreThoseOfACircle) {
  const sim::Labels l = labels_at(circle(), 6, sim::Intent::kGoLeft);
  for (const double t : {1.0, 3.0, 5.0}) {
    const sim::Vec2 p = sim::future_at(l, t);
    EXPECT_NEAR(p.x, 50 * std::sin(t / 5), 0.01) << t;
    EXPECT_NEAR(p.y, 50 - 50 * std::cos(t / 5), 0.01) << t;
  }
  for (const sim::EgoState& e : l.history) {
    EXPECT_NEAR(e.x, 50 * std::sin(e.t_s / 5), 0.01);
    EXPECT_NEAR(std::hypot(e.vx, e.vy), 10, 0.05);
    EXPECT_NEAR(e.vx, 10 * std::cos(e.t_s / 5), 0.05);
    EXPECT_NEAR(std::hypot(e.ax, e.ay), 2, 0.1);  // v^2 / r
  }
  EXPECT_NEAR(l.future[30].kappa, 1 / 50.0, 1e-3);
  EXPECT_NEAR(l.future[9].yaw, 0.2, 1e-3);
  EXPECT_EQ(l.longitudinal, sim::Longitudinal::kKeepSpeed);
  EXPECT_EQ(l.lateral, sim::Lateral::kTurnLeft);
  EXPECT_EQ(l.unknown, sim::kImported | sim::kUnknownObjects | sim::kUnknownExplanation);
}

TEST(Track, AFutureThatEndsIsUnknown) {
  const sim::Labels l = labels_at(circle(), 12, sim::Intent::kGoStraight);  // 3 s are left
  EXPECT_NE(l.unknown & sim::kUnknownFuture, 0U);
  EXPECT_NE(l.unknown & sim::kUnknownBehaviour, 0U);
}

TEST(Track, RefusesTimesThatDoNotAscend) {
  EXPECT_FALSE(Track::of({{0, {}}, {0, {}}}, "t"));
  EXPECT_FALSE(Track::of({{0, {}}}, "t"));
  EXPECT_FALSE(Track::of({{0, {}}, {1, {NAN, 0, 0}}}, "t"));
}

/// A car at 10 m/s, seen at these times.
std::vector<TimedPose> seen_at(const std::vector<double>& times) {
  std::vector<TimedPose> out;
  for (const double t : times) out.push_back({t, {10 * t, 0, 0}});
  return out;
}

std::vector<double> steps(double first_s, double step_s, int count) {
  std::vector<double> out;
  for (int i = 0; i < count; ++i) out.push_back(first_s + step_s * i);
  return out;
}

TEST(TrackPieces, KnowsNothingInAHole) {
  std::vector<double> times = steps(0, 0.1, 101), later = steps(40, 0.1, 101);
  times.insert(times.end(), later.begin(), later.end());
  times.push_back(90);  // a pose alone
  const auto t = TrackPieces::of(seen_at(times), "t");
  ASSERT_TRUE(t) << t.error().message;
  EXPECT_EQ(t->holes, 2);
  ASSERT_EQ(t->pieces.size(), 2U);
  EXPECT_NEAR(t->pieces[0].last_s(), 10, 1e-9);
  EXPECT_NEAR(t->pieces[1].speed(40).x, 10, 1e-9);
  for (const double in : {-1.0, 0.0, 5.0, 10.03}) EXPECT_EQ(t->at(in), &t->pieces[0]) << in;
  for (const double in : {39.97, 45.0, 50.5}) EXPECT_EQ(t->at(in), &t->pieces[1]) << in;
  for (const double in : {10.2, 25.0, 39.8, 52.0, 90.0}) EXPECT_EQ(t->at(in), nullptr) << in;
}

TEST(TrackPieces, AHoleIsWhatIsLongBesideTheUsualStep) {
  struct Case {
    double step_s, gap_s;
    int64_t holes;
  };
  for (const Case& c : {Case{0.05, 0.95, 0}, {0.05, 1.05, 1}, {0.5, 1.5, 0}, {0.5, 1.6, 1}, {1, 2, 0}, {1, 2.1, 1}}) {
    std::vector<double> times = steps(0, c.step_s, 20), later = steps(times.back() + c.gap_s, c.step_s, 20);
    times.insert(times.end(), later.begin(), later.end());
    const auto t = TrackPieces::of(seen_at(times), "t");
    ASSERT_TRUE(t) << t.error().message;
    EXPECT_EQ(t->holes, c.holes) << c.step_s << " " << c.gap_s;
  }
  EXPECT_FALSE(TrackPieces::of(seen_at({0, 5, 10, 15}), "t")) << "all of them alone";
}

TEST(Track, RefusesWhatNoCarDrives) {
  std::vector<TimedPose> poses = seen_at(steps(0, 0.1, 20));
  poses[7].pose.y = 12;
  const auto t = Track::of(poses, "t");
  ASSERT_FALSE(t);
  EXPECT_NE(t.error().message.find("t: pose 7 at 0.7 s: expected a place that 100 m/s lead to, got one 12"), std::string::npos)
      << t.error().message;
  poses[7].pose.y = 0.9;  // noise, although 9 m/s to the side
  EXPECT_TRUE(Track::of(poses, "t"));
}

}  // namespace
}  // namespace slip
