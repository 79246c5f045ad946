// SPDX-License-Identifier: Apache-2.0
// Promises of trajectory codebooks. The oracles are paths whose codes are known because they were put together from them, and a second way
// to choose a code: among whole decoded paths, in the frame where the car began, with complex numbers.
#include "plan/codebook.h"

#include <gmock/gmock.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "base/file.h"
#include "base/folder_testing.h"
#include "base/must_testing.h"
#include "base/philox.h"

namespace slip {
namespace {

using testing::HasSubstr;
constexpr double kQuarter = std::numbers::pi / 2;

TrajectoryCodebook book(std::string_view codes, int steps = 2) {
  const std::string text =
      fmt::format(R"({{"format": "slipstream-codebook", "step_s": 0.1, "steps": {}, "codes": {}}})", steps, codes);
  return must(TrajectoryCodebook::parse(must(parse_json(text, "book")), "book"));
}

/// A car that keeps its speed and its curvature, and so does each of its pieces.
std::vector<Pose> arc(double speed_mps, double curvature, size_t n) {
  std::vector<Pose> out;
  for (size_t i = 1; i <= n; ++i) {
    const double s = speed_mps * 0.1 * static_cast<double>(i), yaw = curvature * s;
    const bool straight = std::fabs(curvature) < 1e-9;
    out.push_back({straight ? s : std::sin(yaw) / curvature, straight ? 0 : (1 - std::cos(yaw)) / curvature, yaw});
  }
  return out;
}

std::vector<std::vector<Pose>> drives(uint64_t seed, size_t n) {
  PhiloxStream draw(seed, 9);
  std::vector<std::vector<Pose>> out;
  for (size_t i = 0; i < n; ++i) {
    std::vector<Pose> path;
    Pose at;
    double v = draw.uniform(0, 20), a = draw.uniform(-3, 2);
    const double curvature = draw.uniform(-0.05, 0.05);
    for (int k = 0; k < 64; ++k) {
      v = std::max(0.0, v + 0.1 * a);
      at.yaw_rad += curvature * v * 0.1;
      at.x += 0.1 * v * std::cos(at.yaw_rad);
      at.y += 0.1 * v * std::sin(at.yaw_rad);
      path.push_back(at);
    }
    out.push_back(std::move(path));
  }
  return out;
}

/// A squared distance out of complex numbers.
double apart(const Pose& a, const Pose& b) {
  const std::complex<double> p(a.x, a.y), q(b.x, b.y), front = 2.0 * (std::polar(1.0, a.yaw_rad) - std::polar(1.0, b.yaw_rad));
  return std::norm(p - q) + std::norm(p - q + front);
}

/// What encode() promises, the slow way: every code is tried behind those before it, and whole paths are compared.
std::vector<int32_t> encoded_slowly(const TrajectoryCodebook& b, const std::vector<Pose>& future, int32_t count) {
  std::vector<int32_t> out;
  while (out.size() < static_cast<size_t>(count)) {
    out.push_back(0);
    int32_t best = -1;
    double least = 0;
    for (int32_t c = 0; c < b.codes(); ++c) {
      out.back() = c;
      const std::vector<Pose> path = b.decode(out);
      double sum = 0;
      for (size_t i = (out.size() - 1) * static_cast<size_t>(b.steps()); i < std::min(path.size(), future.size()); ++i)
        sum += apart(path[i], future[i]);
      if (best < 0 || sum < least) best = c, least = sum;
    }
    out.back() = best;
  }
  return out;
}

TEST(Codebook, APieceGoesOnFromWhereTheOneBeforeItEnds) {
  // 0: 2 m straight on. 1: a step ahead, one to the left, a quarter turned.
  const TrajectoryCodebook b = book("[[1, 0, 0, 2, 0, 0], [1, 0, 0, 1, 1, 1.5707963267948966]]");
  EXPECT_EQ(b.codes(), 2);
  const std::vector<int32_t> codes{0, 1, 0, 1};
  const std::vector<Pose> path = b.decode(codes);
  const std::vector<Pose> want{{1, 0, 0},        {2, 0, 0},        {3, 0, 0},        {3, 1, kQuarter},
                               {3, 2, kQuarter}, {3, 3, kQuarter}, {3, 4, kQuarter}, {2, 4, 2 * kQuarter}};
  ASSERT_EQ(path.size(), want.size());
  for (size_t i = 0; i < want.size(); ++i) EXPECT_LT(distance2_m2(path[i], want[i]), 1e-24) << i;
  EXPECT_EQ(b.encode(path, 4), codes);
}

TEST(Codebook, HeadingsCountAsMetresAndFullTurnsAreNone) {
  EXPECT_DOUBLE_EQ(distance2_m2({0, 0, 0}, {3, 4, 0}), 50);
  EXPECT_NEAR(distance2_m2({0, 0, 0}, {0, 0, kQuarter}), 8, 1e-12);
  EXPECT_NEAR(distance2_m2({1, 1, 0.3}, {1, 1, 0.3 + 8 * kQuarter}), 0, 1e-12);
  // Where a car turns on the spot its place says nothing.
  const TrajectoryCodebook b = book("[[0, 0, 0], [0, 0, 0.5], [0, 0, -0.5]]", 1);
  const std::vector<Pose> future{{0, 0, 0.45}, {0, 0, 0.05}, {0, 0, 0.05}};
  EXPECT_EQ(b.encode(future, 3), (std::vector<int32_t>{1, 2, 0}));
}

TEST(Codebook, OfEqualCodesTheLowestIsTaken) {
  const TrajectoryCodebook b = book("[[5, 0, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]]", 1);
  EXPECT_EQ(b.encode(std::vector<Pose>{{1, 0, 0}}, 1), (std::vector<int32_t>{1}));
  // Exactly between two: 1 m and 5 m.
  EXPECT_EQ(b.encode(std::vector<Pose>{{3, 0, 0}}, 1), (std::vector<int32_t>{0}));
}

TEST(Codebook, EncodesAsTryingEveryCodeOnWholePathsDoes) {
  const auto futures = drives(1, 120);
  for (const int32_t steps : {1, 4, 11}) {
    const auto b = must(TrajectoryCodebook::make(futures, {.codes = 24, .steps = steps, .iterations = 5}));
    const int32_t count = (64 + steps - 1) / steps;  // the last one is cut off at 11
    for (const std::vector<Pose>& future : drives(2, 20))
      EXPECT_EQ(b.encode(future, count), encoded_slowly(b, future, count)) << steps;
  }
}

TEST(Codebook, WhatCodesSayIsEncodedAsTheseCodes) {
  const auto b = must(TrajectoryCodebook::make(drives(3, 200), {.codes = 64, .steps = 8}));
  PhiloxStream draw(5, 5);
  for (int n = 0; n < 200; ++n) {
    std::vector<int32_t> codes;
    for (int i = 0; i < 8; ++i) codes.push_back(static_cast<int32_t>(draw.below(64)));
    EXPECT_EQ(b.encode(b.decode(codes), 8), codes);
  }
}

TEST(Codebook, OfPathsMadeOfFewPiecesItsCodesAreThese) {
  // Eight ways to drive for 0.4 s, in all orders that were drawn: there is nothing else to find.
  std::vector<std::vector<Pose>> pieces;
  for (const double speed : {0.0, 5.0, 10.0, 20.0})
    for (const double curvature : {0.0, 0.03}) pieces.push_back(arc(speed, speed > 0 ? curvature : 0, 4));
  pieces.erase(pieces.begin() + 1);  // standing has no curvature
  PhiloxStream draw(1, 2);
  std::vector<std::vector<Pose>> futures;
  for (int n = 0; n < 40; ++n) {
    std::vector<Pose> path;
    std::complex<double> at;
    double yaw = 0;
    for (int i = 0; i < 16; ++i) {
      for (const Pose& p : pieces[draw.below(static_cast<uint32_t>(pieces.size()))]) {
        const std::complex<double> next = at + std::polar(1.0, yaw) * std::complex<double>(p.x, p.y);
        path.push_back({next.real(), next.imag(), yaw + p.yaw_rad});
      }
      at = {path.back().x, path.back().y};
      yaw = path.back().yaw_rad;
    }
    futures.push_back(std::move(path));
  }
  const auto b = must(TrajectoryCodebook::make(futures, {.codes = static_cast<int32_t>(pieces.size()), .steps = 4}));
  for (const std::vector<Pose>& piece : pieces) {
    const std::vector<Pose> said = b.decode(b.encode(piece, 1));
    for (size_t i = 0; i < piece.size(); ++i) EXPECT_LT(std::sqrt(distance2_m2(said[i], piece[i])), 5e-4);
  }
  EXPECT_THAT(TrajectoryCodebook::make(futures, {.codes = 8, .steps = 4}).error().message,
              HasSubstr("expected at least 8 different pieces of path, got 7"));
}

TEST(Codebook, EveryRoundOfMakingBringsCentresNearer) {
  const auto futures = drives(7, 200);
  std::vector<double> errors;
  const auto told = [&](int32_t, double error) {
    errors.push_back(error);
    return Status();
  };
  const auto first = must(TrajectoryCodebook::make(futures, {.codes = 40, .steps = 8, .iterations = 12, .told = told}));
  ASSERT_EQ(errors.size(), 12U);
  for (size_t i = 1; i < errors.size(); ++i) EXPECT_LE(errors[i], errors[i - 1] + 1e-6) << i;
  EXPECT_LT(errors.back(), 0.8 * errors.front());
  const auto again = must(TrajectoryCodebook::make(futures, {.codes = 40, .steps = 8, .iterations = 12}));
  EXPECT_EQ(json::serialize(first.to_json()), json::serialize(again.to_json()));
  const auto other = must(TrajectoryCodebook::make(futures, {.codes = 40, .steps = 8, .iterations = 12, .seed = 2}));
  EXPECT_NE(json::serialize(first.to_json()), json::serialize(other.to_json()));
}

TEST(Codebook, AnErrorOfTheListenerEndsTheMaking) {
  const auto made =
      TrajectoryCodebook::make(drives(7, 40), {.codes = 4, .told = [](int32_t, double) -> Status { return bad_input("enough"); }});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().message, "enough");
}

TEST(Codebook, WhatIsWrittenIsReadAgain) {
  const auto b = must(TrajectoryCodebook::make(drives(4, 100), {.codes = 32}));
  const test::TemporaryFolder folder;
  ASSERT_TRUE(write_file(folder.path / "codebook.json", pretty(b.to_json())));
  const auto read = must(TrajectoryCodebook::load(folder.path / "codebook.json"));
  EXPECT_EQ(json::serialize(read->to_json()), json::serialize(b.to_json()));
  EXPECT_EQ(read->steps(), 11);
}

TEST(Codebook, OtherFilesAreRefusedInWords) {
  const auto error = [](std::string_view text) {
    const auto v = parse_json(text, "b");
    return v ? TrajectoryCodebook::parse(*v, "b.json").error().message : v.error().message;
  };
  const auto with = [&](std::string_view steps, std::string_view codes) {
    return error(fmt::format(R"({{"format": "slipstream-codebook", "step_s": 0.1, "steps": {}, "codes": {}}})", steps, codes));
  };
  EXPECT_EQ(error("[]"), "b.json: expected an object, got another type");
  EXPECT_THAT(error("{}"), HasSubstr("\"format\""));
  EXPECT_THAT(error(R"({"format": "slipstream-width"})"), HasSubstr("expected slipstream-codebook, got slipstream-width"));
  EXPECT_THAT(error(R"({"format": "slipstream-codebook", "step_s": 0.25})"), HasSubstr("step_s: expected 0.1, got 0.25"));
  EXPECT_THAT(with("0", "[]"), HasSubstr("steps: expected 1 to 64, got 0"));
  EXPECT_THAT(with("9223372036854775807", "[]"), HasSubstr("steps: expected 1 to 64"));
  EXPECT_THAT(with("1.5", "[]"), HasSubstr("steps"));
  EXPECT_THAT(with("1", "[[0, 0, 0]]"), HasSubstr("codes: expected 2 to 65536, got 1"));
  EXPECT_THAT(with("1", "{}"), HasSubstr("codes"));
  EXPECT_THAT(with("2", "[[0, 0, 0], [0, 0, 0]]"), HasSubstr("expected 6 numbers in each (x, y and yaw at 2 times), got 3"));
  EXPECT_THAT(with("1", "[[0, 0, 0], 7]"), HasSubstr("expected 3 numbers in each (x, y and yaw at 1 times), got another type"));
  EXPECT_THAT(with("1", "[[0, 0, 0], [0, 0, \"x\"]]"), HasSubstr("expected numbers from -1000 to 1000, got another type"));
  EXPECT_THAT(with("1", "[[0, 0, 0], [0, 1e300, 0]]"), HasSubstr("expected numbers from -1000 to 1000, got 1e+300"));
}

TEST(Resampled, IsLinearBetweenPointsAndEndsWithThem) {
  const std::vector<Pose> path{{1, 0, 0}, {2, 2, 0}, {4, 4, 0}};  // 0.3 s
  const Trajectory five = resampled(path, 5), twenty = resampled(path, 20);
  EXPECT_EQ(five.points, (std::vector<Waypoint>{{2, 2}}));
  EXPECT_EQ(twenty.points, (std::vector<Waypoint>{{0.5, 0}, {1, 0}, {1.5, 1}, {2, 2}, {3, 3}, {4, 4}}));
  EXPECT_EQ(resampled(path, 10).points.size(), 3U);
  const std::vector<Pose> long_path(64);
  EXPECT_EQ(resampled(long_path, 4).points.size(), 25U);
  EXPECT_EQ(resampled(long_path, 1).points.size(), 6U);
  EXPECT_TRUE(resampled({}, 4).points.empty());
}

}  // namespace
}  // namespace slip
