// SPDX-License-Identifier: Apache-2.0
// Promises of the scene generator: valid labels, an expert that does not fail, classes with and without consequence, futures
// that continue histories, rates in bounds, and the same bytes on every compiler.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <set>
#include <sstream>

#include "sim/builder.h"
#include "sim/labels.h"
#include "sim/math.h"
#include "sim/record/make.h"

namespace slip::sim {
namespace {

constexpr uint32_t kFamilyCount = 28;

TEST(SimMath, AgreesWithTheLibraryToTenDigits) {
  for (int i = -20000; i <= 20000; ++i) {
    const double x = i * 0.0137;
    ASSERT_NEAR(det_sin(x), std::sin(x), 1e-11);
    ASSERT_NEAR(det_cos(x), std::cos(x), 1e-11);
    ASSERT_NEAR(det_exp(0.1 * x) / std::exp(0.1 * x), 1.0, 1e-12);
    ASSERT_NEAR(det_atan2(x, 3.1 - 0.01 * i), std::atan2(x, 3.1 - 0.01 * i), 1e-11);
  }
  EXPECT_EQ(det_floor(-0.5), -1);
  EXPECT_NEAR(wrap_angle(3 * kPi / 2), -kPi / 2, 1e-12);
}

TEST(SimPath, ProjectionInvertsPosition) {
  const Piece pieces[] = {{20, 0, 0}, {10, 0, 0.05}, {20, 0.05, 0.05}};
  const Path p({1, 2, 0.3}, pieces, 10, 0);
  for (double s = -8; s < 45; s += 0.7)
    for (const double d : {-3.0, 0.0, 2.0}) {
      const Pose q = p.at(s, d);
      const Frenet f = p.project({q.x, q.y});
      ASSERT_NEAR(f.s, s, 0.05);
      ASSERT_NEAR(f.d, d, 0.02);
    }
}

bool separated(const Vec2 (&a)[4], const Vec2 (&b)[4]) {
  for (int i = 0; i < 4; ++i) {
    const double nx = a[(i + 1) % 4].y - a[i].y, ny = a[i].x - a[(i + 1) % 4].x;
    double a_max = -1e300, b_min = 1e300;
    for (int k = 0; k < 4; ++k) {
      a_max = std::max(a_max, nx * a[k].x + ny * a[k].y);
      b_min = std::min(b_min, nx * b[k].x + ny * b[k].y);
    }
    if (b_min >= a_max) return true;
  }
  return false;
}
void corners(double x, double y, double yaw, double length, double width, Vec2 (&out)[4]) {
  const double c = std::cos(yaw), n = std::sin(yaw);
  static constexpr double kSign[4][2] = {{-1, -1}, {1, -1}, {1, 1}, {-1, 1}};
  for (int i = 0; i < 4; ++i) {
    const double u = kSign[i][0] * length / 2, v = kSign[i][1] * width / 2;
    out[i] = {x + u * c - v * n, y + u * n + v * c};
  }
}

TEST(SimFamilies, EveryFamilyYieldsValidLabelsAndAnExpertThatHitsNothing) {
  ASSERT_EQ(family_names().size(), kFamilyCount);
  for (uint32_t f = 0; f < kFamilyCount; ++f) {
    for (uint64_t seed = 0; seed < 200; ++seed) {
      const auto d = draw_accepted(seed, f);
      ASSERT_TRUE(d) << d.error().message;
      const Labels& l = d->labels;
      ASSERT_EQ(l.family, f);
      ASSERT_GE(l.v0_mps, 0);
      ASSERT_LE(l.v0_mps, 20.01);
      ASSERT_FALSE(l.explanation.empty());
      ASSERT_LE(l.explanation.size(), 600U);
      ASSERT_EQ(l.explanation.find_first_of("0123456789\"\\"), std::string::npos);
      for (size_t c = 0; c < 12; ++c) ASSERT_TRUE(!l.critical[c] || l.visible[c]);
      for (size_t k = 0; k < 64; ++k) {
        const FutureState& s = l.future[k];
        ASSERT_TRUE(std::isfinite(s.x) && std::isfinite(s.y));
        ASSERT_GE(s.v, 0);
        ASSERT_LE(s.v, 21);
        ASSERT_LE(std::abs(s.kappa), 0.2001);
        const double mid = 1.4;  // the ego's middle is 1.4 m before its rear axle
        Vec2 ego[4], other[4];
        corners(s.x + mid * std::cos(s.yaw), s.y + mid * std::sin(s.yaw), s.yaw, 4.7, 1.8, ego);
        const Moment m = k % 8 == 7 ? moment_of(d->scene, 0.1 * static_cast<double>(k + 1), {s.x, s.y, s.yaw}, s.v) : Moment{};
        for (const Agent& a : m.agents) {
          corners(a.pose.x, a.pose.y, a.pose.yaw, a.length, a.width, other);
          ASSERT_TRUE(separated(ego, other) || separated(other, ego))
              << family_names()[f] << " seed " << seed << " step " << k << " agent type " << static_cast<int>(a.type);
        }
      }
    }
  }
}

TEST(SimFamilies, TheFutureContinuesTheHistory) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    const auto r = make_record(seed, {}, false);
    ASSERT_TRUE(r);
    const Labels& l = r->labels;
    const EgoState& now = l.history[15];
    ASSERT_EQ(now.t_s, 0);
    ASSERT_NEAR(now.x, 0, 1e-4);
    ASSERT_NEAR(now.y, 0, 1e-4);
    ASSERT_NEAR(det_hypot(now.vx, now.vy), l.v0_mps, 1e-3);
    ASSERT_NEAR(l.future[0].x, 0.1 * l.v0_mps, 0.05);
    ASSERT_NEAR(l.future[0].v, l.v0_mps, 0.45);
    for (size_t i = 1; i < 16; ++i) {  // positions are the integral of velocities
      const EgoState &a = l.history[i - 1], &b = l.history[i];
      ASSERT_NEAR(b.x - a.x, 0.125 * (a.vx + b.vx), 0.12);
      ASSERT_NEAR(b.y - a.y, 0.125 * (a.vy + b.vy), 0.12);
    }
    for (size_t k = 1; k < 64; ++k) {
      const FutureState &a = l.future[k - 1], &b = l.future[k];
      ASSERT_NEAR(det_hypot(b.x - a.x, b.y - a.y), 0.05 * (a.v + b.v), 0.05) << seed << " " << k;
    }
    const Vec2 p = future_at(l, 0.25);
    ASSERT_NEAR(p.x, 0.5 * (l.future[1].x + l.future[2].x), 1e-5);
  }
}

// What many labels have, counted.
struct Rates {
  std::array<int, 12> yes{}, idle{};
  int scenes = 0, rejected = 0, unseen = 0, decoys = 0, before_onset = 0, both = 0;
  double cv = 0;
  std::set<std::string> words;

  void add(const Drawn& d) {
    const Labels& l = d.labels;
    ++scenes;
    rejected += d.rejected;
    unseen += d.unseen;
    bool decoy = false;
    int n = 0;
    for (size_t c = 0; c < 12; ++c) {
      yes[c] += l.critical[c];
      idle[c] += l.visible[c] && !l.causal[c];
      decoy = decoy || (l.visible[c] && !l.critical[c]);
      n += l.critical[c];
    }
    both += n >= 2;
    decoys += decoy;
    std::istringstream explanation(l.explanation);
    for (std::string word; explanation >> word;) words.insert(word);
    if (!l.pre_onset) return;
    ++before_onset;
    for (int k = 1; k <= 20; ++k) {
      const Vec2 p = future_at(l, 0.25 * k);
      cv += det_hypot(p.x - 0.25 * k * l.v0_mps, p.y) / 20;
    }
  }
  double percent(int n) const { return 100.0 * n / scenes; }
};

TEST(SimLabels, RatesAreBoundedAndEveryClassOccursWithAndWithoutConsequence) {
  constexpr int kScenes = 4000;
  Rates r;
  for (int i = 0; i < kScenes; ++i) {
    const auto d = draw_accepted(static_cast<uint64_t>(100000 + i), {});
    ASSERT_TRUE(d);
    r.add(*d);
  }
  r.cv /= r.before_onset;
  for (size_t c = 0; c < 12; ++c) {
    std::printf("%-22s yes %5.1f %%, visible without consequence %5.1f %%\n", std::string(kObjectClasses[c]).c_str(),
                r.percent(r.yes[c]), r.percent(r.idle[c]));
    EXPECT_GE(r.yes[c], kScenes * 0.075) << kObjectClasses[c];
    EXPECT_LE(r.yes[c], kScenes * 0.45) << kObjectClasses[c];
    EXPECT_GE(r.idle[c], kScenes * 0.005) << kObjectClasses[c];
  }
  std::printf(
      "expert refused %.2f %%, unseen cause %.2f %%, decoys in %.1f %%, two classes in %.1f %%, before onset %.1f %% "
      "(constant velocity ADE@5s %.2f m), %zu words\n",
      100.0 * r.rejected / (kScenes + r.rejected), 100.0 * r.unseen / (kScenes + r.unseen), r.percent(r.decoys), r.percent(r.both),
      r.percent(r.before_onset), r.cv, r.words.size());
  EXPECT_LT(r.rejected, kScenes / 10);
  EXPECT_LT(r.unseen, kScenes / 10);
  EXPECT_GT(r.decoys, kScenes / 4);
  EXPECT_GT(r.before_onset, kScenes * 0.4);
  EXPECT_GT(r.cv, 2.5);
  EXPECT_LT(r.words.size(), 180U);
}

TEST(SimLabels, RemovingADecoyChangesNothing) {
  for (uint64_t seed = 0; seed < 300; ++seed) {
    const auto d = draw_accepted(seed, {});
    ASSERT_TRUE(d);
    const Plan full = drive(d->scene);
    for (size_t c = 0; c < 12; ++c) {
      if (!d->labels.visible[c] || d->labels.causal[c]) continue;
      const Plan other = drive(d->scene, 1U << c);
      double ade = 0;
      for (size_t k = 0; k < 50; ++k)
        ade += det_hypot(full.future[k].x - other.future[k].x, full.future[k].y - other.future[k].y) / 50;
      ASSERT_LE(ade, 0.3) << seed << " " << kObjectClasses[c];
    }
  }
}

uint64_t hash_of(const Labels& l) {
  uint64_t h = 0;
  const auto add = [&](const void* p, size_t n) {
    for (size_t i = 0; i < n; ++i) h = (h ^ static_cast<const uint8_t*>(p)[i]) * 0x100000001B3ULL;
  };
  add(&l.seed, 8);
  add(&l.family, 4);
  add(l.history.data(), sizeof l.history);
  add(l.future.data(), sizeof l.future);
  for (size_t c = 0; c < 12; ++c) {
    const uint8_t bits[3] = {l.critical[c], l.visible[c], l.causal[c]};
    add(bits, 3);
  }
  const uint8_t rest[4] = {static_cast<uint8_t>(l.intent), static_cast<uint8_t>(l.longitudinal), static_cast<uint8_t>(l.lateral),
                           l.pre_onset};
  add(rest, 4);
  add(l.explanation.data(), l.explanation.size());
  return h;
}

// Golden bytes of kSimVersion 1: gcc 12 and clang 14, -O2 and -O3, agree on them. A change here is a new kSimVersion.
TEST(SimDeterminism, TwentySeedsHaveTheGoldenBytes) {
  static constexpr uint64_t kGolden[20] = {
      0xE05CB332FFE83984ULL, 0x962B36D762A21C75ULL, 0xFBA9AEE62F9FD661ULL, 0x90B7BB95622EBA86ULL, 0x08858504F0A50C36ULL,
      0xB8FE58BE0773043AULL, 0x1AB37D34AE573DACULL, 0x49312DEC67B4E19FULL, 0x73AC1A48EB0C3805ULL, 0x63D972643A374EB8ULL,
      0xCA5F72C5E30046BAULL, 0xD2094F16955615C6ULL, 0x9AA09054BA93D88BULL, 0x3E8526EA251B83B0ULL, 0x587C4D8B72810F6BULL,
      0x5E176C852815C6A9ULL, 0x148866AE3C1D3F80ULL, 0x35A5DD5511F54D0EULL, 0x823BC89B7819B829ULL, 0xE0D69FA5F0DB2804ULL,
  };
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const auto r = make_record(seed * 7919, {}, false);
    ASSERT_TRUE(r);
    EXPECT_EQ(hash_of(r->labels), kGolden[seed]) << fmt::format("0x{:016X}ULL,", hash_of(r->labels));
  }
}

TEST(SimRecord, AnUnknownFamilyIsBadInput) {
  const auto r = make_record(1, kFamilyCount, false);
  ASSERT_FALSE(r);
  EXPECT_EQ(r.error().kind, ErrorKind::kBadInput);
  EXPECT_NE(r.error().message.find("family: expected"), std::string::npos);
}

TEST(SimRecord, HeldOutFamiliesNeverComeFromASeed) {
  for (uint64_t seed = 0; seed < 20000; ++seed) ASSERT_LT(family_of_seed(seed), training_families());
}

TEST(Perturbed, StartsWhereTheExpertWouldNotBeAndComesBack) {
  int moved = 0, further = 0;
  for (uint64_t seed = 900'200'000; seed < 900'200'020; ++seed) {
    const auto off = make_perturbed(seed, {}, false), on = make_record(seed, {}, false), again = make_perturbed(seed, {}, false);
    ASSERT_TRUE(off && on && again);
    EXPECT_EQ(off->labels.v0_mps, again->labels.v0_mps);
    EXPECT_EQ(off->labels.future.back().x, again->labels.future.back().x);
    EXPECT_EQ(off->labels.family, on->labels.family);
    if (off->labels.v0_mps == on->labels.v0_mps) continue;
    ++moved;
    EXPECT_EQ(off->labels.unknown, kMoved);
    EXPECT_EQ(on->labels.unknown, 0U);
    // The history leads to where the ego is, as fast as it is.
    EXPECT_EQ(off->labels.history.back().x, 0);
    EXPECT_NEAR(off->labels.history.front().x, -3.75F * off->labels.v0_mps, 1e-3);
    EXPECT_EQ(off->labels.history.back().vx, off->labels.v0_mps);
    // On the scene's road he ends about where he would have ended anyway, which from here is to one side.
    further += std::abs(off->labels.future[39].y) > std::abs(on->labels.future[39].y);
  }
  EXPECT_GE(moved, 17);
  EXPECT_GE(further, 12);
  EXPECT_FALSE(make_perturbed(1, 1000, false));
}

}  // namespace
}  // namespace slip::sim
