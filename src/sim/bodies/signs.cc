// SPDX-License-Identifier: Apache-2.0
// Traffic lights and signs. Both face +x of their pose. Lamps have a radius of 0.3 m and plates 0.9 m, so that colour and
// place of the lit lamp, and the outline of a plate, survive at 30 m.
#include <algorithm>

#include "sim/bodies/bodies.h"

namespace slip::sim {
namespace {

constexpr Rgb kPole{104, 108, 112}, kHousing{26, 28, 30}, kWhite{246, 246, 242}, kRed{208, 16, 24}, kBlack{16, 16, 18};

/// Digits in three columns and five rows, the top row in the highest three bits.
constexpr uint16_t kDigits[10] = {0b111101101101111, 0b010110010010111, 0b111001111100111, 0b111001111001111, 0b101101111001001,
                                  0b111100111001111, 0b111100111101111, 0b111001010010010, 0b111101111101111, 0b111101111001111};

/// A number centred at (y 0, z), its digits `height` tall.
void number(BodyBuilder& b, int value, float x, float z, float height, Rgb c) {
  int digit[3], n = 0;
  for (int v = std::clamp(value, 0, 999); n == 0 || (v > 0 && n < 3); v /= 10) digit[n++] = v % 10;
  const float cell = height / 5, pitch = 4 * cell;
  // Digits run from the least one; a plate that faces +x is read with +y on the reader's right.
  for (int k = 0; k < n; ++k) {
    const float right = 0.5F * (pitch * static_cast<float>(n) - cell) - pitch * static_cast<float>(k);
    for (int i = 0; i < 15; ++i) {
      if ((kDigits[digit[k]] >> (14 - i) & 1) == 0) continue;
      const int line = i / 3, column = i % 3;
      const float y = right - cell * static_cast<float>(3 - column), top = z + 0.5F * height - cell * static_cast<float>(line);
      b.plate(x, {y, y + cell}, {top - cell, top}, 1, c);
    }
  }
}

/// The figure of a walking person, 1 tall at scale 1.
void figure(BodyBuilder& b, float x, float y, float z, float k, Rgb c) {
  b.disc(x, y, z + 0.4F * k, 0.11F * k, 8, 0, 1, c);
  b.plate(x, {y - 0.1F * k, y + 0.1F * k}, {z - 0.1F * k, z + 0.28F * k}, 1, c);
  b.polygon({Vec3{x, y - 0.1F * k, z - 0.1F * k}, Vec3{x, y - 0.32F * k, z - 0.5F * k}, Vec3{x, y - 0.2F * k, z - 0.5F * k},
             Vec3{x, y + 0.06F * k, z - 0.1F * k}},
            c);
  b.polygon({Vec3{x, y - 0.06F * k, z - 0.1F * k}, Vec3{x, y + 0.2F * k, z - 0.5F * k}, Vec3{x, y + 0.32F * k, z - 0.5F * k},
             Vec3{x, y + 0.1F * k, z - 0.1F * k}},
            c);
  b.plate(x, {y - 0.28F * k, y + 0.28F * k}, {z + 0.1F * k, z + 0.2F * k}, 1, c);
}

void ring(BodyBuilder& b, float z, float r) {
  b.disc(0.06F, 0, z, r, 12, 0, 1, kRed);
  b.disc(0.07F, 0, z, 0.74F * r, 12, 0, 1, kWhite);
}

}  // namespace

void build_light(BodyBuilder& b, const TrafficLight& light) {
  constexpr float kRadius = 0.3F, kPitch = 0.7F;
  const float z = static_cast<float>(light.height >= 1.5 ? std::min(light.height, 12.0) : 1.5);
  const float half = 1.5F * kPitch;
  b.column(-0.3F, 0, 0.1F, 0.08F, {0, z + half}, 6, kPole);
  b.plate(0.0F, {-0.62F, 0.62F}, {z - half - 0.18F, z + half + 0.18F}, 1, {222, 200, 60});
  b.plate(0.01F, {-0.56F, 0.56F}, {z - half - 0.12F, z + half + 0.12F}, 1, {14, 15, 16});
  b.box({-0.2F, -0.01F}, {-0.5F, 0.5F}, {z - half - 0.1F, z + half + 0.1F}, kHousing);
  const Rgb on[3] = {{255, 28, 20}, {255, 196, 10}, {40, 255, 120}}, off[3] = {{62, 12, 12}, {60, 46, 10}, {10, 52, 26}};
  for (int i = 0; i < 3; ++i) {
    const bool lit = static_cast<int>(light.state) == i;
    const float lamp_z = z + kPitch * static_cast<float>(1 - i);
    b.disc(0.03F, 0, lamp_z, lit ? kRadius + 0.03F : kRadius - 0.03F, 12, 0, 1, lit ? on[i] : off[i], lit ? kLamp : kPlain);
    b.plate(0.05F, {-kRadius, kRadius}, {lamp_z + kRadius, lamp_z + kRadius + 0.05F}, 1, {6, 6, 6});
  }
}

void build_sign(BodyBuilder& b, const Sign& sign) {
  constexpr float kHalf = 0.45F, kUp = 1.5707963F;
  const float z = static_cast<float>(sign.height >= 0.8 ? std::min(sign.height, 8.0) : 0.8);
  b.column(-0.06F, 0, 0.05F, 0.05F, {0, z + 0.3F}, 5, kPole);
  b.plate(0.0F, {-0.3F, 0.3F}, {z - 0.3F, z + 0.3F}, -1, {142, 146, 150});
  switch (sign.kind) {
    case SignKind::kStop:
      b.disc(0.05F, 0, z, 1.15F * kHalf, 8, 0.3927F, 1, kWhite);
      b.disc(0.06F, 0, z, 1.02F * kHalf, 8, 0.3927F, 1, {214, 14, 24});
      b.plate(0.07F, {-0.32F, 0.32F}, {z - 0.1F, z + 0.1F}, 1, kWhite);
      for (const float y : {-0.18F, -0.02F, 0.14F}) b.plate(0.08F, {y, y + 0.05F}, {z - 0.1F, z + 0.1F}, 1, {214, 14, 24});
      break;
    case SignKind::kYield:
      b.disc(0.05F, 0, z, 1.35F * kHalf, 3, -kUp, 1, kRed);
      b.disc(0.06F, 0, z, 0.75F * kHalf, 3, -kUp, 1, kWhite);
      break;
    case SignKind::kSpeedLimit:
      ring(b, z, 1.1F * kHalf);
      number(b, sign.value, 0.08F, z, 0.34F, kBlack);
      break;
    case SignKind::kRoadWork:
      b.disc(0.05F, 0, z, 1.4F * kHalf, 4, kUp, 1, kBlack);
      b.disc(0.06F, 0, z, 1.28F * kHalf, 4, kUp, 1, {255, 128, 0});
      figure(b, 0.07F, -0.08F, z, 0.5F, kBlack);
      b.polygon({Vec3{0.07F, 0.08F, z - 0.25F}, Vec3{0.07F, 0.36F, z - 0.25F}, Vec3{0.07F, 0.2F, z - 0.05F}}, kBlack);
      break;
    case SignKind::kNoTurn:
      ring(b, z, 1.1F * kHalf);
      b.plate(0.08F, {0.02F, 0.1F}, {z - 0.25F, z + 0.12F}, 1, kBlack);
      b.plate(0.08F, {-0.16F, 0.1F}, {z + 0.05F, z + 0.13F}, 1, kBlack);
      b.polygon({Vec3{0.08F, -0.16F, z - 0.02F}, Vec3{0.08F, -0.16F, z + 0.2F}, Vec3{0.08F, -0.3F, z + 0.09F}}, kBlack);
      b.polygon({Vec3{0.09F, -0.36F, z + 0.28F}, Vec3{0.09F, 0.28F, z - 0.36F}, Vec3{0.09F, 0.36F, z - 0.28F},
                 Vec3{0.09F, -0.28F, z + 0.36F}},
                kRed);
      break;
    case SignKind::kSchoolZone:
      b.polygon({Vec3{0.05F, -kHalf, z - kHalf}, Vec3{0.05F, kHalf, z - kHalf}, Vec3{0.05F, kHalf, z + 0.15F},
                 Vec3{0.05F, 0, z + 0.62F}, Vec3{0.05F, -kHalf, z + 0.15F}},
                {190, 240, 20});
      figure(b, 0.06F, -0.17F, z - 0.08F, 0.62F, kBlack);
      figure(b, 0.06F, 0.2F, z - 0.13F, 0.48F, kBlack);
      break;
    case SignKind::kPedestrianCrossing:
      b.plate(0.04F, {-1.12F * kHalf, 1.12F * kHalf}, {z - 1.12F * kHalf, z + 1.12F * kHalf}, 1, {250, 214, 0});
      b.plate(0.05F, {-0.98F * kHalf, 0.98F * kHalf}, {z - 0.98F * kHalf, z + 0.98F * kHalf}, 1, {16, 62, 190});
      b.polygon({Vec3{0.06F, -0.38F, z - 0.36F}, Vec3{0.06F, 0.38F, z - 0.36F}, Vec3{0.06F, 0, z + 0.4F}}, kWhite);
      figure(b, 0.07F, 0, z - 0.12F, 0.46F, kBlack);
      break;
  }
}

}  // namespace slip::sim
