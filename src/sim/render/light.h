// SPDX-License-Identifier: Apache-2.0
// Air and light of a moment: how bright, what the sky and the fog look like, what the ground is made of, and the last
// pass that turns a Canvas into bytes (light, headlamps, fog, rain and snow, grain).
#pragma once
#include <array>
#include <cstdint>
#include <span>

#include "sim/render/raster.h"

namespace slip::sim {

inline constexpr int kGroundKinds = 11;
/// Inverse depths fall into 32 steps per octave (2.2 % each), the top bits of their float: fog steps stay below 3 levels.
inline constexpr int kDepthSteps = 1024;

struct GroundLook {
  Rgb colour;
  int fine = 0, coarse = 0, shine = 0;
};

struct Atmosphere {
  Shading shading;
  std::array<int, 3> light{256, 256, 256};  // of 256, on everything that does not shine
  Rgb sky_top, sky_horizon, fog;
  bool headlamps = false;
  int shadow = 256, grain = 2;  // grain: amplitude in levels
  std::array<GroundLook, kGroundKinds> ground;
  std::array<uint16_t, kDepthSteps> clearness{};  // of 256: how much of a thing is left in front of the fog
  std::array<uint16_t, kDepthSteps> beam{};       // of 256: headlamps by distance
  uint32_t seed = 0;
  Weather weather{};
};
Atmosphere make_atmosphere(const Environment& env, double ego_yaw);

/// `frame` tells moments apart, so that drops and flakes move between them.
void finish(Canvas& canvas, const View& v, const Atmosphere& air, const Pose& ego, uint32_t frame, std::span<uint8_t> rgb);

}  // namespace slip::sim
