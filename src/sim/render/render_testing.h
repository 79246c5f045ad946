// SPDX-License-Identifier: Apache-2.0
// What the tests of the rasteriser share: pictures as bytes, agents of usual sizes, a road, a busy street, six golden moments.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "sim/math.h"
#include "sim/render/render.h"

namespace slip::sim {

using Bytes = std::vector<uint8_t>;

inline uint64_t fnv1a(const Bytes& bytes) {
  uint64_t h = 0xCBF29CE484222325U;
  for (const uint8_t b : bytes) h = (h ^ b) * 0x100000001B3U;
  return h;
}

inline Bytes picture(const Moment& m, const Camera& c = front_cameras()[1]) {
  Bytes out(image_bytes(c));
  render(m, c, out);
  return out;
}

inline Bytes pictures(const Moment& m) {
  Bytes out(3 * image_bytes(Camera{}));
  render_all(m, out);
  return out;
}

/// Pixels in which some channel differs by more than `levels`.
inline int changed(const Bytes& a, const Bytes& b, int levels = 24) {
  int n = 0;
  for (size_t i = 0; i < a.size(); i += 3) {
    int most = 0;
    for (size_t k = 0; k < 3; ++k) most = std::max(most, std::abs(int{a[i + k]} - int{b[i + k]}));
    n += most > levels;
  }
  return n;
}

inline void rectangle(Moment& m, Ground kind, double x0, double x1, double y0, double y1) {
  m.ground.push_back({kind, {{x0, y0}, {x1, y0}, {x1, y1}, {x0, y1}}});
}

inline Agent agent(AgentType type, double x, double y, double yaw = 0) {
  static constexpr double kSize[][3] = {{4.5, 1.85, 1.5}, {8.5, 2.5, 3.4},  {11, 2.55, 3.1},  {10, 2.5, 3.1},  {8, 2.5, 3.4},
                                        {2.1, 0.8, 1.5},  {1.8, 0.6, 1.75}, {0.5, 0.6, 1.75}, {1.6, 0.5, 1.3}, {6, 2.1, 2.6},
                                        {9, 2.5, 3.3},    {4.7, 1.9, 1.5},  {0.4, 0.4, 0.8},  {0.4, 2.4, 1.0}, {1.2, 1.0, 0.6},
                                        {0.5, 0.6, 1.8},  {4.2, 2.2, 2.8}};
  Agent a;
  a.id = static_cast<uint32_t>(type) + 1;
  a.type = type;
  a.pose = {x, y, yaw};
  const auto& size = kSize[static_cast<size_t>(type)];
  a.length = size[0], a.width = size[1], a.height = size[2];
  a.looks.colour = {40, 90, 170};
  return a;
}

inline constexpr int kAgentTypes = 17;

inline Moment road() {
  Moment m;
  m.env.texture_seed = 11;
  m.ego = {0, -1.75, 0};
  rectangle(m, Ground::kAsphalt, -20, 250, -7, 7);
  return m;
}

inline Moment street() {
  Moment m = road();
  rectangle(m, Ground::kSidewalk, -20, 250, 7, 10);
  rectangle(m, Ground::kSidewalk, -20, 250, -10, -7);
  rectangle(m, Ground::kLaneLineYellow, -20, 250, -0.08, 0.08);
  for (int i = -4; i < 40; ++i) rectangle(m, Ground::kLaneLineWhite, 6.0 * i, 6.0 * i + 3, -3.57, -3.43);
  rectangle(m, Ground::kStopLine, 20, 20.4, -7, 0);
  rectangle(m, Ground::kCrosswalk, 21.5, 24.5, -7, 7);
  rectangle(m, Ground::kPuddle, 9, 11, -5, -4);
  for (int i = 0; i < 28; ++i) {
    const double x = 20.0 * (i / 2) - 20, side = i % 2 == 0 ? 1 : -1;
    const auto shade = static_cast<uint8_t>(110 + i * 29 % 90);
    m.scenery.push_back(
        {SceneryKind::kBuilding, {x, side * 20, 0}, 16, 12, 7.0 + i * 7 % 11, {shade, static_cast<uint8_t>(shade - 10), 110}});
    m.scenery.push_back({SceneryKind::kTree, {x + 3, side * 11.5, 0}, 4, 4, 6.0 + i % 3, {}});
    m.scenery.push_back({SceneryKind::kPole, {x + 9, side * 9.3, side > 0 ? -1.57 : 1.57}, 1, 1, 7, {}});
  }
  m.scenery.push_back({SceneryKind::kParkedRow, {70, -8.5, 0}, 50, 2, 1.5, {}});
  for (int i = 0; i < 30; ++i) {
    Agent a = agent(static_cast<AgentType>(i % kAgentTypes), 8 + 4.0 * i, (i % 4) * 3.5 - 5.25, i % 4 < 2 ? 0 : kPi);
    a.id = static_cast<uint32_t>(i);
    a.speed_mps = i % 3;
    a.looks.brake = i % 2 == 0, a.looks.indicator_left = i % 5 == 0, a.looks.beacons = i % 3 == 0;
    a.looks.door_open = i % 7 == 0, a.looks.stop_arm = true;
    m.agents.push_back(a);
  }
  for (int i = 0; i < 3; ++i) m.lights.push_back({{26.0 + 8 * i, i == 1 ? 8.0 : -8.0, kPi}, 4.5, static_cast<LightState>(i)});
  for (int i = 0; i < 7; ++i)
    m.signs.push_back({static_cast<SignKind>(i), {9.0 + 3 * i, i % 2 ? 7.6 : -7.6, kPi}, 2.2, 30 + 10 * i});
  return m;
}

inline Moment golden_moment(int i) {
  Moment m = street();
  m.env.texture_seed = 100 + static_cast<uint64_t>(i);
  switch (i) {
    case 0:
      break;
    case 1:
      m.env.weather = Weather::kRain, m.env.wet = true, m.ego = {3.25, -5, 0.1};
      break;
    case 2:
      m.env.weather = Weather::kFog, m.env.fog_beta_per_m = 0.04;
      break;
    case 3:
      m.env.weather = Weather::kSnow, m.env.icy = true, m.ego = {-4, 2, 3.0};
      break;
    case 4:
      m.env.lighting = Lighting::kDusk, m.ego.yaw = -0.4;
      break;
    default:
      m.env.lighting = Lighting::kNight, m.env.weather = Weather::kRain, m.env.wet = true;
      break;
  }
  return m;
}

}  // namespace slip::sim
