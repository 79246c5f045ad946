// SPDX-License-Identifier: Apache-2.0
// Riders, walkers, animals and what lies on the road. Limbs are a little thicker than life (0.18 m legs), because a
// pedestrian at 20 m is 8 pixels wide in the picture that a model sees a third of.
#include <algorithm>

#include "sim/bodies/bodies.h"

namespace slip::sim {
namespace {

constexpr Rgb kSkin{214, 164, 128}, kTyre{20, 20, 22}, kSteel{120, 124, 130}, kTrousers{44, 50, 74};
constexpr Rgb kOrange{255, 106, 0}, kWhite{245, 245, 240}, kBrakeOn{255, 22, 16}, kLime{215, 255, 40};

float pick(double v, double low, double high) { return static_cast<float>(v >= low ? std::min(v, high) : low); }

/// Where in the stride a walker is: -1 .. 1 along a triangle wave of period 1.4 m of ground covered; 0 for who stands.
float stride(const Agent& a) {
  if (!(a.speed_mps > 0.1)) return 0;
  const double way = (a.pose.x + a.pose.y) / 1.4 + static_cast<double>(a.id % 7) / 7;
  const double turn = way - static_cast<double>(static_cast<int64_t>(way));
  const double t = turn < 0 ? turn + 1 : turn;
  return static_cast<float>(t < 0.5 ? 4 * t - 1 : 3 - 4 * t);
}

struct Person {
  float hip_x, hip_z, shoulder_x, shoulder_z, width;
  Rgb torso, head;
  bool helmet;
};

void torso_and_head(BodyBuilder& b, const Person& p) {
  const float lean = p.shoulder_x - p.hip_x, depth = 0.14F;
  b.frustum({p.hip_x - depth, p.hip_x + depth}, {-0.4F * p.width, 0.4F * p.width}, p.hip_z,
            {p.shoulder_x - depth, p.shoulder_x + depth}, {-0.5F * p.width, 0.5F * p.width}, p.shoulder_z, p.torso, p.torso);
  const float hx = p.shoulder_x + 0.3F * lean, hz = p.shoulder_z + 0.05F;
  b.column(hx, 0, 0.13F, 0.12F, {hz - 0.04F, hz + 0.2F}, 6, kSkin);
  b.column(hx, 0, p.helmet ? 0.18F : 0.14F, 0.08F, {hz + 0.12F, hz + (p.helmet ? 0.32F : 0.26F)}, 6, p.head);
}

void walker(BodyBuilder& b, const Agent& a) {
  const bool worker = a.type == AgentType::kWorker;
  const float h = pick(a.height, 0.9, 2.2), w = std::max(0.5F * std::min(1.0F, h / 1.7F), 0.3F), swing = 0.22F * h * stride(a);
  const float hip = 0.48F * h, shoulder = 0.82F * h;
  const Rgb torso = worker ? kOrange : a.looks.colour;
  const Rgb legs = worker ? Rgb{50, 60, 90} : look_hash(a.id) % 2 == 0 ? kTrousers : Rgb{84, 74, 62};
  const Rgb hair = worker ? Rgb{255, 235, 40} : look_hash(a.id, 3) % 2 == 0 ? Rgb{46, 34, 28} : Rgb{120, 84, 40};
  b.bar({swing, 0.1F, 0}, {0, 0.1F, hip}, 0.18F, legs);
  b.bar({-swing, -0.1F, 0}, {0, -0.1F, hip}, 0.18F, legs);
  torso_and_head(b, {0, hip - 0.04F, 0, shoulder, w, torso, hair, worker});
  const Rgb sleeve = worker ? Rgb{60, 70, 100} : mixed(torso, {0, 0, 0}, 50);
  for (const float side : {-1.0F, 1.0F}) {
    b.bar({0, side * (0.5F * w + 0.05F), shoulder - 0.03F}, {-side * swing * 0.8F, side * (0.5F * w + 0.09F), hip}, 0.12F, sleeve);
  }
  if (!worker) return;
  for (const int side : {-1, 1}) {
    const float x = static_cast<float>(side) * 0.155F;
    b.plate(x, {-0.43F * w, 0.43F * w}, {hip + 0.1F, hip + 0.2F}, side, kLime, kEmissive);
    for (const float y : {-0.3F, 0.2F})
      b.plate(x, {y * w, (y + 0.12F) * w}, {hip + 0.2F, shoulder - 0.02F}, side, kLime, kEmissive);
  }
}

/// Four legs, a barrel of a trunk, a neck and a head: a deer or a large dog by its height.
void animal(BodyBuilder& b, const Agent& a) {
  const float h = pick(a.height, 0.4, 2.0), l = pick(a.length, 0.6, 2.5) / 2, w = std::max(pick(a.width, 0.2, 1.0) / 2, 0.16F);
  const Rgb brown =
      a.looks.colour.r + a.looks.colour.g + a.looks.colour.b > 60 ? mixed(a.looks.colour, {146, 88, 36}, 216) : Rgb{146, 88, 36};
  const float swing = 0.2F * h * stride(a), belly = 0.42F * h, back = 0.78F * h;
  for (const float side : {-1.0F, 1.0F}) {
    b.bar({-0.75F * l + side * swing, side * 0.7F * w, 0}, {-0.75F * l, side * 0.7F * w, belly + 0.05F}, 0.12F,
          mixed(brown, {30, 20, 10}, 90));
    b.bar({0.6F * l - side * swing, side * 0.7F * w, 0}, {0.6F * l, side * 0.7F * w, belly + 0.05F}, 0.12F,
          mixed(brown, {30, 20, 10}, 90));
  }
  b.frustum({-0.9F * l, 0.75F * l}, {-w, w}, belly, {-0.85F * l, 0.7F * l}, {-0.7F * w, 0.7F * w}, back, brown, brown);
  b.bar({0.6F * l, 0, back - 0.1F}, {0.88F * l, 0, h}, 0.22F, brown);
  b.box({0.78F * l, 1.15F * l}, {-0.12F, 0.12F}, {h - 0.12F, h + 0.1F}, mixed(brown, {20, 14, 8}, 60));
  b.plate(-0.9F * l - 0.01F, {-0.5F * w, 0.5F * w}, {belly + 0.1F, back - 0.05F}, -1, {238, 232, 220});
  b.bar({-0.88F * l, 0, back - 0.05F}, {-1.05F * l, 0, back - 0.25F}, 0.1F, kWhite);
  for (const float side : {-1.0F, 1.0F})
    b.bar({0.85F * l, side * 0.08F, h + 0.08F}, {0.75F * l, side * 0.22F, h + 0.3F}, 0.06F, mixed(brown, {240, 220, 180}, 120));
}

/// Thin wheels, an upright rider in a bright jersey and a white helmet.
void cyclist(BodyBuilder& b, const Agent& a) {
  const float l = pick(a.length, 1.4, 2.2) / 2, h = pick(a.height, 1.4, 2.1), r = 0.34F;
  const int strongest = std::max({int{a.looks.colour.r}, int{a.looks.colour.g}, int{a.looks.colour.b}, 1});
  const Rgb jersey = scaled(a.looks.colour, 250.0F / static_cast<float>(strongest)), frame{30, 34, 40};
  for (const float x : {-l + r, l - r}) b.wheel(x, r, r, {-0.06F, 0.06F}, kTyre, {190, 192, 196});
  b.bar({-l + r, 0, r}, {0.0F, 0, 0.3F}, 0.07F, frame);
  b.bar({-0.15F, 0, 0.9F}, {0.0F, 0, 0.3F}, 0.07F, frame);
  b.bar({0.0F, 0, 0.3F}, {l - r - 0.2F, 0, 0.85F}, 0.07F, frame);
  b.bar({l - r, 0, r}, {l - r - 0.2F, 0, 1.05F}, 0.07F, frame);
  b.bar({l - r - 0.2F, -0.3F, 1.05F}, {l - r - 0.2F, 0.3F, 1.05F}, 0.07F, frame);
  const float phase = 0.14F * stride(a);
  for (const float side : {-1.0F, 1.0F}) {
    b.bar({-0.12F, side * 0.13F, 0.95F}, {0.22F, side * 0.14F, 0.62F + side * phase}, 0.16F, kTrousers);
    b.bar({0.22F, side * 0.14F, 0.62F + side * phase}, {0.05F, side * 0.14F, 0.2F + side * phase}, 0.13F, kSkin);
    b.bar({0.08F, side * 0.24F, h - 0.42F}, {l - r - 0.22F, side * 0.26F, 1.07F}, 0.11F, jersey);
  }
  torso_and_head(b, {-0.15F, 0.92F, 0.08F, h - 0.33F, 0.5F, jersey, kWhite, true});
  const bool lit = b.shading().lamps_lit;
  b.plate(-l + 0.03F, {-0.13F, 0.13F}, {0.7F, 0.94F}, -1, lit || a.looks.brake ? kBrakeOn : Rgb{196, 16, 20},
          lit || a.looks.brake ? kLamp : kPlain);
  if (lit) b.plate(l - 0.1F, {-0.08F, 0.08F}, {0.85F, 1.0F}, 1, {255, 250, 225}, kLamp);
}

/// Thick wheels, a tank, a crouched rider in dark leather with a full helmet.
void motorcycle(BodyBuilder& b, const Agent& a) {
  const float l = pick(a.length, 1.7, 2.6) / 2, r = 0.34F;
  const Rgb paint = a.looks.colour, leather{30, 30, 36};
  for (const float x : {-l + r, l - r}) b.wheel(x, r, r, {-0.11F, 0.11F}, kTyre, kSteel);
  b.box({-0.5F * l, 0.35F * l}, {-0.2F, 0.2F}, {0.35F, 0.75F}, {60, 62, 66});
  b.frustum({-0.3F * l, 0.65F * l}, {-0.24F, 0.24F}, 0.6F, {0.0F, 0.5F * l}, {-0.16F, 0.16F}, 1.05F, paint, paint);
  b.box({-0.95F * l, -0.2F * l}, {-0.16F, 0.16F}, {0.72F, 0.86F}, paint);
  b.bar({l - r, 0, r}, {0.5F * l, 0, 1.05F}, 0.14F, kSteel);
  b.bar({0.48F * l, -0.42F, 1.1F}, {0.48F * l, 0.42F, 1.1F}, 0.08F, kTyre);
  for (const float side : {-1.0F, 1.0F}) {
    b.bar({-0.25F, side * 0.2F, 0.85F}, {0.25F, side * 0.3F, 0.7F}, 0.2F, leather);
    b.bar({0.25F, side * 0.3F, 0.7F}, {-0.1F, side * 0.28F, 0.3F}, 0.17F, leather);
    b.bar({0.15F, side * 0.27F, 1.32F}, {0.46F * l, side * 0.36F, 1.12F}, 0.14F, leather);
  }
  torso_and_head(b, {-0.3F, 0.85F, 0.12F, 1.4F, 0.52F, leather, mixed(paint, {20, 20, 20}, 60), true});
  const bool lit = b.shading().lamps_lit, brake = a.looks.brake;
  b.plate(-0.96F * l, {-0.17F, 0.17F}, {0.66F, 0.92F}, -1,
          brake ? kBrakeOn
          : lit ? Rgb{150, 14, 12}
                : Rgb{96, 12, 14},
          brake ? kLamp
          : lit ? kEmissive
                : kPlain);
  b.disc(0.68F * l, 0, 0.95F, 0.16F, 8, 0, 1, {255, 250, 225}, lit ? kLamp : kEmissive);
  for (const int side : {-1, 1}) {
    const bool on = a.looks.hazard || (side > 0 ? a.looks.indicator_left : a.looks.indicator_right);
    const Range y = side > 0 ? Range{0.2F, 0.42F} : Range{-0.42F, -0.2F};
    b.box({-0.98F * l, -0.9F * l}, y, {0.66F, 0.86F}, on ? Rgb{255, 166, 10} : Rgb{150, 96, 40}, on ? kLamp : kPlain);
  }
}

void cone(BodyBuilder& b, const Agent& a) {
  const float h = pick(a.height, 0.5, 1.2), r = std::max(0.24F * h, 0.16F);
  b.box({-1.3F * r, 1.3F * r}, {-1.3F * r, 1.3F * r}, {0.0F, 0.06F}, {200, 80, 10});
  b.column(0, 0, r, 0.68F * r, {0.05F, 0.4F * h}, 8, kOrange);
  b.column(0, 0, 0.68F * r, 0.4F * r, {0.4F * h, 0.7F * h}, 8, kWhite);
  b.column(0, 0, 0.4F * r, 0.12F * r, {0.7F * h, h}, 8, kOrange);
}

void barrier(BodyBuilder& b, const Agent& a) {
  // Barriers may lie along or across their heading; stripes run along the longer side.
  const float l = pick(a.length, 0.1, 12) / 2, w = pick(a.width, 0.1, 12) / 2, h = pick(a.height, 0.6, 1.6);
  const bool along = l > w;
  const float half = along ? l : w, thick = std::clamp(along ? w : l, 0.06F, 0.4F);
  const int stripes = std::max(4, static_cast<int>(half * 2 / 0.35F));
  for (int i = 0; i < stripes; ++i) {
    const float t0 = -half + 2 * half * static_cast<float>(i) / static_cast<float>(stripes);
    const float t1 = -half + 2 * half * static_cast<float>(i + 1) / static_cast<float>(stripes);
    const Rgb c = i % 2 == 0 ? Rgb{220, 24, 26} : kWhite;
    for (const float z : {0.5F, 0.12F}) {
      if (along)
        b.box({t0, t1}, {-thick, thick}, {z * h, z * h + 0.32F * h}, c);
      else
        b.box({-thick, thick}, {t0, t1}, {z * h, z * h + 0.32F * h}, c);
    }
  }
  for (const float t : {-0.8F, 0.8F}) {
    if (along)
      b.box({t * half - 0.06F, t * half + 0.06F}, {-1.4F * thick, 1.4F * thick}, {0, 0.95F * h}, kSteel);
    else
      b.box({-1.4F * thick, 1.4F * thick}, {t * half - 0.06F, t * half + 0.06F}, {0, 0.95F * h}, kSteel);
  }
  const Vec3 lamp = along ? Vec3{0.8F * half, 0, h} : Vec3{0, 0.8F * half, h};
  b.box({lamp.x - 0.1F, lamp.x + 0.1F}, {lamp.y - 0.1F, lamp.y + 0.1F}, {h - 0.05F, h + 0.18F}, {255, 180, 0}, kEmissive);
}

/// A tyre, or a spill of broken boxes and planks, by the agent's number.
void debris(BodyBuilder& b, const Agent& a) {
  const float l = pick(a.length, 0.4, 4) / 2, w = pick(a.width, 0.4, 3) / 2, h = pick(a.height, 0.25, 1.5);
  if (a.id % 3 == 0) {
    const float r = std::max(0.8F * std::min(l, w), 0.3F);
    b.column(0, 0, r, 0.95F * r, {0, 0.6F * h}, 10, kTyre);
    b.column(0, 0, 0.5F * r, 0.5F * r, {0, 0.6F * h + 0.01F}, 8, {90, 88, 84});
    b.bar({-0.9F * l, 0.6F * w, 0.08F}, {0.4F * l, -0.9F * w, 0.1F}, 0.14F, kTyre);
    return;
  }
  const Rgb dark[4] = {{58, 46, 36}, {78, 66, 52}, {40, 40, 44}, {96, 72, 44}};
  for (uint32_t i = 0; i < 6; ++i) {
    const auto at = [&](uint32_t k) { return static_cast<float>(look_hash(a.id, i, k) % 1000) / 500.0F - 1.0F; };
    const float x = 0.65F * l * at(1), y = 0.65F * w * at(2), s = 0.35F * std::min(l, w) + 0.05F,
                top = h * (0.55F + 0.45F * at(3) * at(3));
    b.frustum({x - s, x + 0.9F * s}, {y - 0.8F * s, y + s}, 0, {x - 0.6F * s, x + 0.5F * s}, {y - 0.7F * s, y + 0.4F * s}, top,
              dark[i % 4], dark[(i + 1) % 4]);
  }
  b.bar({-l, -0.5F * w, 0.1F}, {0.8F * l, 0.8F * w, 0.8F * h}, 0.12F, {120, 92, 58});
}

}  // namespace

void build_rider(BodyBuilder& b, const Agent& a) { a.type == AgentType::kCyclist ? cyclist(b, a) : motorcycle(b, a); }

void build_walker(BodyBuilder& b, const Agent& a) { a.type == AgentType::kAnimal ? animal(b, a) : walker(b, a); }

void build_obstacle(BodyBuilder& b, const Agent& a) {
  if (a.type == AgentType::kCone) return cone(b, a);
  return a.type == AgentType::kBarrier ? barrier(b, a) : debris(b, a);
}

}  // namespace slip::sim
