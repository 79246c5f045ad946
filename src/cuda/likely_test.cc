// SPDX-License-Identifier: Apache-2.0
// The largest logits of rows, and draws, against their definitions over all logits.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <vector>

#include "cuda/kernels.h"

namespace slip::cuda {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity(), kNan = std::numeric_limits<float>::quiet_NaN();

/// With ties, infinities and what is no number.
std::vector<float> random_logits(int vocab, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 4);
  std::uniform_real_distribution<float> chance(0, 1);
  const float strange = chance(random) < 0.3F ? 0.3F : 0.01F;
  std::vector<float> logits_V(static_cast<size_t>(vocab));
  for (float& x : logits_V) {
    x = normal(random);
    if (chance(random) < strange) x = chance(random) < 0.5F ? 5 : chance(random) < 0.5F ? -kInfinity : kNan;
  }
  return logits_V;
}

std::vector<LikelyLogit> largest_by_sorting(std::span<const float> logits_V) {
  std::vector<LikelyLogit> all;
  for (size_t i = 0; i < logits_V.size(); ++i)
    if (!std::isnan(logits_V[i])) all.push_back({logits_V[i], static_cast<int32_t>(i)});
  std::ranges::stable_sort(all, [](const LikelyLogit& a, const LikelyLogit& b) { return a.logit > b.logit; });
  return all;
}

TEST(Likely, AreTheLargestLogitsInOrder) {
  std::mt19937 random(3);
  for (const int vocab : {1, 7, 16, 33, 300, 1024, 4100, 9000}) {
    constexpr int kWanted = 9, kChosen = 2, kFirst = 4, kLogits = kWanted - kChosen;
    std::vector<float> logits_LV;
    for (int row = 0; row < kLogits; ++row) {
      const std::vector<float> line =
          row == 5 ? std::vector<float>(static_cast<size_t>(vocab), kNan) : random_logits(vocab, random);
      logits_LV.insert(logits_LV.end(), line.begin(), line.end());
    }
    const PassCounts counts{.rows = 30, .wanted = kWanted, .items = 0, .chosen = kChosen, .likely = kFirst};
    std::vector<LikelyLogit> out_TK(16 * kLikely, {123, 456});
    likely({&counts, logits_LV.data(), vocab, out_TK.data()}, 16, nullptr);
    for (int t = 0; t < 16; ++t) {
      const auto got = std::span(out_TK).subspan(static_cast<size_t>(t * kLikely), kLikely);
      if (t < kFirst || t >= kWanted) {
        EXPECT_EQ(got.front().id, 456) << "not a row that wants them";
        continue;
      }
      const auto want =
          largest_by_sorting(std::span(logits_LV).subspan(static_cast<size_t>((t - kChosen) * vocab), static_cast<size_t>(vocab)));
      for (size_t k = 0; k < kLikely; ++k) {
        ASSERT_EQ(got[k].id, k < want.size() ? want[k].id : -1) << vocab << " row " << t << " " << k;
        if (k < want.size()) {
          ASSERT_EQ(got[k].logit, want[k].logit);
        }
      }
    }
  }
}

struct ADraw {
  std::vector<float> logits_V;
  std::vector<uint32_t> bits_W;  // empty: all
  double temperature = 1;

  bool allows(size_t i) const { return bits_W.empty() || (bits_W[i / 32] >> (i % 32) & 1U) != 0; }
  int32_t at(double u) const {
    int32_t out = 777;
    draw({logits_V.data(), static_cast<int32_t>(logits_V.size()), bits_W.empty() ? nullptr : bits_W.data(), temperature, u, &out},
         nullptr);
    return out;
  }
  /// Probabilities by the definition, in double.
  std::vector<double> law() const {
    double most = -static_cast<double>(kInfinity), sum = 0;
    for (size_t i = 0; i < logits_V.size(); ++i)
      if (allows(i) && logits_V[i] > most) most = logits_V[i];
    std::vector<double> p(logits_V.size());
    for (size_t i = 0; i < p.size(); ++i) {
      const double w = allows(i) ? std::exp(logits_V[i] / temperature - most / temperature) : 0;
      p[i] = std::isnan(w) ? 0 : w;
      sum += p[i];
    }
    for (double& x : p) x /= sum;
    return p;
  }
};

// On either side of the edges between ids, and at both ends.
TEST(Draw, IsTheIdWhoseCumulativeProbabilityExceedsU) {
  std::mt19937 random(5);
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const int vocab : {1, 5, 33, 300, 1023, 2049, 5000}) {
    for (int trial = 0; trial < 12; ++trial) {
      ADraw d{.logits_V = random_logits(vocab, random), .bits_W = {}, .temperature = trial % 3 == 0 ? 1 : 0.3 + uniform(random)};
      if (trial % 2 == 1) {
        d.bits_W.resize(static_cast<size_t>(vocab + 63) / 64 * 2);
        for (uint32_t& word : d.bits_W) word = static_cast<uint32_t>(random() & random());
      }
      const std::vector<double> p_V = d.law();
      double sum = 0;
      for (const double p : p_V) sum += p;
      if (!(sum > 0)) {
        EXPECT_EQ(d.at(0.5), -1);
        continue;
      }
      std::vector<double> edges = {0};
      std::vector<int32_t> ids;
      for (size_t i = 0; i < p_V.size(); ++i)
        if (p_V[i] > 0) ids.push_back(static_cast<int32_t>(i)), edges.push_back(edges.back() + p_V[i]);
      EXPECT_EQ(d.at(0), ids.front());
      const int32_t last = d.at(std::nextafter(1.0, 0.0));
      ASSERT_GE(last, 0) << "rounding keeps nothing from being drawn";
      EXPECT_GT(p_V[static_cast<size_t>(last)], 0);
      double behind = 0;
      for (size_t i = static_cast<size_t>(last) + 1; i < p_V.size(); ++i) behind += p_V[i];
      EXPECT_LT(behind, 1e-12);
      for (int k = 0; k < 12; ++k) {
        const size_t i = random() % ids.size();
        const double width = edges[i + 1] - edges[i];
        if (width < 1e-9) continue;
        EXPECT_EQ(d.at(edges[i] + 1e-3 * width), ids[i]);
        EXPECT_EQ(d.at(edges[i + 1] - 1e-3 * width), ids[i]);
      }
    }
  }
}

TEST(Draw, SaysWhereNothingCanBeDrawn) {
  EXPECT_EQ((ADraw{.logits_V = {kNan, -kInfinity, kNan}, .bits_W = {}, .temperature = 1}.at(0.3)), -1);
  EXPECT_EQ((ADraw{.logits_V = {1, 2, 3}, .bits_W = {0, 0}, .temperature = 1}.at(0.3)), -1);
  EXPECT_EQ((ADraw{.logits_V = {1, kInfinity, 3}, .bits_W = {}, .temperature = 1}.at(0.3)), -1) << "as keyed_draw's sum";
}

}  // namespace
}  // namespace slip::cuda
