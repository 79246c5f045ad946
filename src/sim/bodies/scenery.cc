// SPDX-License-Identifier: Apache-2.0
// Scenery: buildings with a grid of windows (some lit after dusk), trees, lamp posts, rows of parked cars. Variety comes
// from a hash of the place, so that a thing looks the same in every moment of a scene.
#include <algorithm>

#include "sim/bodies/bodies.h"
#include "sim/math.h"

namespace slip::sim {
namespace {

uint32_t place_hash(const Scenery& s) {
  return look_hash(static_cast<uint32_t>(det_floor(s.pose.x * 4)), static_cast<uint32_t>(det_floor(s.pose.y * 4)));
}

float pick(double v, double low, double high) { return static_cast<float>(v >= low ? std::min(v, high) : low); }

struct Wall {
  int facing;
  bool along_x;
  float at, half;
};

void windows(BodyBuilder& b, const Wall& w, float top, uint32_t seed) {
  const int columns = std::clamp(static_cast<int>(w.half * 2 / 3.2F), 1, 12),
            floors = std::clamp(static_cast<int>(top / 3.1F), 1, 9);
  const float pitch = 2 * w.half / static_cast<float>(columns), storey = top / static_cast<float>(floors);
  for (int f = 0; f < floors; ++f) {
    for (int c = 0; c < columns; ++c) {
      const uint32_t h = look_hash(seed, static_cast<uint32_t>(f * 64 + c), static_cast<uint32_t>(w.facing + 2 * w.along_x));
      const float middle = -w.half + pitch * (static_cast<float>(c) + 0.5F), z = storey * (static_cast<float>(f) + 0.32F);
      const Range across{middle - 0.27F * pitch, middle + 0.27F * pitch}, up{z, z + 0.46F * storey};
      const bool lit = b.shading().lamps_lit && h % 5 < 2;
      const Rgb pane = lit ? Rgb{255, static_cast<uint8_t>(196 + h % 40), static_cast<uint8_t>(110 + h % 50)}
                           : scaled({74, 92, 110}, 0.75F + 0.001F * static_cast<float>(h % 500));
      const uint8_t flags = lit ? kEmissive : kPlain;
      if (w.along_x)
        b.side_plate(w.at, across, up, w.facing, pane, flags);
      else
        b.plate(w.at, across, up, w.facing, pane, flags);
    }
  }
}

void building(BodyBuilder& b, const Scenery& s) {
  const float l = pick(s.length, 2, 120) / 2, w = pick(s.width, 2, 120) / 2, h = pick(s.height, 2.5, 60);
  const uint32_t seed = place_hash(s);
  b.box({-l, l}, {-w, w}, {0, h}, s.colour);
  b.box({-l - 0.15F, l + 0.15F}, {-w - 0.15F, w + 0.15F}, {h, h + 0.4F}, scaled(s.colour, 0.6F));
  for (const int side : {-1, 1}) {
    const auto sign = static_cast<float>(side);
    windows(b, {side, true, sign * (w + 0.04F), l}, h, seed);
    windows(b, {side, false, sign * (l + 0.04F), w}, h, seed);
  }
}

void tree(BodyBuilder& b, const Scenery& s) {
  const float h = pick(s.height, 2, 20), r = std::max(0.22F * h, pick(s.width, 0.8, 8) * 0.4F) * 0.8F;
  const uint32_t seed = place_hash(s);
  Rgb leaf = s.colour.g > s.colour.r && s.colour.g > 40
                 ? s.colour
                 : Rgb{static_cast<uint8_t>(44 + seed % 30), static_cast<uint8_t>(96 + seed / 64 % 40), 40};
  if (b.shading().snow) leaf = mixed(leaf, {236, 240, 246}, 130);
  b.column(0, 0, 0.05F * h * 0.6F, 0.03F * h, {0, 0.5F * h}, 6, {88, 64, 44});
  if (seed / 7 % 3 == 0) {  // a conifer
    b.column(0, 0, r, 0.5F * r, {0.2F * h, 0.5F * h}, 7, scaled(leaf, 0.8F));
    b.column(0, 0, 0.8F * r, 0.0F, {0.45F * h, h}, 7, scaled(leaf, 0.85F));
    return;
  }
  b.column(0, 0, 0.5F * r, r, {0.32F * h, 0.52F * h}, 7, scaled(leaf, 0.8F));
  b.column(0, 0, r, 0.95F * r, {0.52F * h, 0.74F * h}, 7, leaf);
  b.column(0.1F * r, 0, 0.95F * r, 0.35F * r, {0.74F * h, h}, 7, scaled(leaf, 1.1F));
}

void lamp_post(BodyBuilder& b, const Scenery& s) {
  const float h = pick(s.height, 3, 14);
  b.column(0, 0, 0.12F, 0.08F, {0, h}, 6, {92, 96, 98});
  b.bar({0, 0, h - 0.1F}, {1.6F, 0, h + 0.05F}, 0.12F, {92, 96, 98});
  const bool lit = b.shading().lamps_lit;
  b.box({1.2F, 2.0F}, {-0.2F, 0.2F}, {h - 0.14F, h - 0.02F}, lit ? Rgb{255, 226, 160} : Rgb{200, 200, 196}, lit ? kLamp : kPlain);
}

void parked_row(BodyBuilder& b, const Scenery& s) {
  // Lightweight cars: no lamps are ever lit, so a parked row cannot be taken for an agent that signals.
  static constexpr Rgb kPaints[6] = {{168, 170, 174}, {64, 66, 72}, {124, 28, 30}, {36, 56, 104}, {214, 214, 210}, {92, 98, 84}};
  const float l = pick(s.length, 4, 120) / 2, w = std::min(pick(s.width, 1.4, 2.2) / 2, 0.95F);
  const uint32_t seed = place_hash(s);
  const int cars = std::max(1, static_cast<int>(2 * l / 5.6F));
  for (int i = 0; i < cars; ++i) {
    const uint32_t h = look_hash(seed, static_cast<uint32_t>(i));
    if (cars > 2 && h % 6 == 0) continue;
    const float x = -l + 2 * l * (static_cast<float>(i) + 0.5F) / static_cast<float>(cars);
    const Rgb paint = kPaints[h / 8 % 6];
    b.box({x - 2.1F, x + 2.1F}, {-w, w}, {0.24F, 0.82F}, paint);
    b.frustum({x - 1.6F, x + 1.0F}, {-0.92F * w, 0.92F * w}, 0.82F, {x - 1.1F, x + 0.3F}, {-0.75F * w, 0.75F * w}, 1.42F,
              {38, 50, 64}, paint);
    for (const float dx : {-1.35F, 1.35F})
      b.box({x + dx - 0.32F, x + dx + 0.32F}, {-w - 0.02F, w + 0.02F}, {0.0F, 0.62F}, {22, 22, 24});
    b.plate(x - 2.12F, {-0.9F * w, -0.6F * w}, {0.55F, 0.72F}, -1, {96, 12, 14});
    b.plate(x - 2.12F, {0.6F * w, 0.9F * w}, {0.55F, 0.72F}, -1, {96, 12, 14});
  }
}

}  // namespace

void build_scenery(BodyBuilder& b, const Scenery& s) {
  switch (s.kind) {
    case SceneryKind::kBuilding:
      return building(b, s);
    case SceneryKind::kTree:
      return tree(b, s);
    case SceneryKind::kPole:
      return lamp_post(b, s);
    case SceneryKind::kParkedRow:
      return parked_row(b, s);
  }
}

}  // namespace slip::sim
