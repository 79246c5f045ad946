// SPDX-License-Identifier: Apache-2.0
// Tables of rotary embedding against closed forms and the published numbers.
#include "kernels/rope.h"

#include "kernels/probe.h"
#include "kernels/testing/kernels_testing.h"

namespace slip {
namespace {

struct Tables {
  std::vector<float> cos, sin;
};
Tables tables(const RopeFrequencies& f, const std::vector<Position>& positions) {
  Tables t{std::vector<float>(positions.size() * f.inverse_K2.size()), std::vector<float>(positions.size() * f.inverse_K2.size())};
  rope_tables(f, positions, t.cos.data(), t.sin.data());
  return t;
}

TEST(Rope, RotatesByTheAbsolutePosition) {
  const RopeFrequencies f = rope_frequencies({.width = 128, .theta = 1e6});
  const auto t = tables(f, {Position::text(0), Position::text(3), Position::text(1000)});
  for (int i = 0; i < 64; i++) {
    EXPECT_EQ(t.cos[i], 1);
    EXPECT_EQ(t.sin[i], 0);
    // The f32 angle is off by 2 roundings of the exact one, the table by one more.
    for (const auto& [row, position] : {std::pair{1, 3.0}, std::pair{2, 1000.0}}) {
      const double angle = position * std::pow(1e6, -2.0 * i / 128);
      EXPECT_NEAR(t.cos[row * 64 + i], std::cos(angle), 6 * kRoundoff * angle + kRoundoff);
      EXPECT_NEAR(t.sin[row * 64 + i], std::sin(angle), 6 * kRoundoff * angle + kRoundoff);
    }
  }
}

TEST(Rope, MultimodalSectionsFollowTheirAxis) {
  const RopeFrequencies plain = rope_frequencies({.width = 128, .theta = 1e6});
  const RopeFrequencies f = rope_frequencies({.width = 128, .theta = 1e6, .sections = {16, 24, 24}});
  const auto t = tables(f, {{5, 7, 11}, {9, 9, 9}});
  const auto want = tables(plain, {Position::text(5), Position::text(7), Position::text(11), Position::text(9)});
  for (int i = 0; i < 64; i++) {
    const int axis = i < 16 ? 0 : i < 40 ? 1 : 2;
    EXPECT_EQ(t.cos[i], want.cos[axis * 64 + i]);
    EXPECT_EQ(t.sin[i], want.sin[axis * 64 + i]);
    EXPECT_EQ(t.cos[64 + i], want.cos[3 * 64 + i]) << "three equal axes are plain rotary embedding";
  }
}

TEST(Rope, VisionTurnsOneHalfOfThePairsByRowTheOtherByColumn) {
  const RopeFrequencies f = vision_rope_frequencies(80);
  ASSERT_EQ(f.half(), 40);
  const auto t = tables(f, {{99, 3, 8}});
  for (int i = 0; i < 40; i++) {
    const double angle = (i < 20 ? 3 : 8) * std::pow(1e4, -2.0 * (i % 20) / 40);
    EXPECT_NEAR(t.sin[i], std::sin(angle), 6 * kRoundoff * angle + kRoundoff);
    EXPECT_NEAR(t.cos[i], std::cos(angle), 6 * kRoundoff * angle + kRoundoff);
  }
}

TEST(Rope, YarnHasThePublishedFrequencies) {
  // Ministral 3 as released: the ramp runs over pairs 20 .. 37.
  RopeSpec spec{.width = 128,
                .theta = 1e6,
                .scaling = RopeYarn{.factor = 16, .original_max_position = 16384, .mscale = 1, .mscale_all_dim = 1}};
  const RopeFrequencies f = rope_frequencies(spec), plain = rope_frequencies({.width = 128, .theta = 1e6});
  EXPECT_EQ(f.factor, 1);
  EXPECT_FLOAT_EQ(f.inverse_K2[0], 1.0F);
  EXPECT_NEAR(f.inverse_K2[20], 0.0133352, 5e-8);
  EXPECT_NEAR(f.inverse_K2[40], 1.11142e-5, 5e-11);
  EXPECT_NEAR(f.inverse_K2[63], 7.75586e-8, 5e-13);
  EXPECT_LT(f.inverse_K2[21], plain.inverse_K2[21]);
  EXPECT_NEAR(f.inverse_K2[37] * 16 / plain.inverse_K2[37], 1, 1e-6);
  spec.scaling = RopeYarn{.factor = 16, .original_max_position = 16384};
  EXPECT_FLOAT_EQ(rope_frequencies(spec).factor, static_cast<float>(0.1 * std::log(16.0) + 1));
  const auto t = tables(rope_frequencies(spec), {Position::text(0)});
  EXPECT_EQ(t.cos[5], rope_frequencies(spec).factor) << "the factor multiplies cosine and sine";
}

TEST(Rope, Llama3KeepsFastPairsAndSlowsSlowOnes) {
  const RopeFrequencies plain = rope_frequencies({.width = 128, .theta = 5e5});
  const RopeFrequencies f = rope_frequencies({.width = 128, .theta = 5e5, .scaling = RopeLlama3{}});
  for (size_t i = 0; i < 64; i++) {
    const double frequency = std::pow(5e5, -2.0 * double(i) / 128), wavelength = 2 * M_PI / frequency;
    const double smooth = std::clamp((8192 / wavelength - 1) / 3, 0.0, 1.0);
    EXPECT_NEAR(f.inverse_K2[i] / ((1 - smooth) * frequency / 8 + smooth * frequency), 1, 2e-6) << i;
  }
  EXPECT_EQ(f.inverse_K2[0], plain.inverse_K2[0]);
  EXPECT_EQ(f.inverse_K2[63], plain.inverse_K2[63] / 8);
}

TEST(Rope, QueryScaleStepsAtTheOriginalLength) {
  EXPECT_EQ(query_scale(0.1, 16384, 16383), 1.0F);
  EXPECT_NEAR(query_scale(0.1, 16384, 16384), 1.069315, 1e-6);
  EXPECT_NEAR(query_scale(0.1, 16384, 32768), 1.109861, 1e-6);
}

TEST(Probe, MeasuresSomethingPositiveInTime) {
  ThreadPool pool(2);
  EXPECT_GT(read_bandwidth_gbps(pool), 0.1);
  for (const WeightType type : kWeightTypes) EXPECT_GT(dot_gops(type, pool), 0.1);
  EXPECT_GT(fork_join_ns(pool), 1);
}

}  // namespace
}  // namespace slip
