// SPDX-License-Identifier: Apache-2.0
// Vehicles: body, cabin, wheels and the lamps that say something. Every kind has its own silhouette and colours, so that
// it is told apart at a third of the resolution: yellow school bus, green hopper, white and red ambulance, red ladder.
#include <algorithm>

#include "sim/bodies/bodies.h"

namespace slip::sim {
namespace {

constexpr Rgb kGlass{38, 52, 68}, kTyre{24, 24, 26}, kRim{150, 152, 156}, kTrim{52, 54, 58}, kWhite{236, 238, 240};
constexpr Rgb kBrakeOn{255, 22, 16}, kBrakeOff{96, 12, 14}, kTailLit{150, 14, 12}, kAmberOn{255, 166, 10}, kAmberOff{150, 96, 40};
constexpr Rgb kHeadLit{255, 250, 225}, kHeadOff{214, 220, 226}, kRedBeacon{255, 24, 30}, kBlueBeacon{30, 70, 255};

/// The footprint as half extents, and the height, kept within what a drawing can show.
struct Size {
  float l, w, h;
};
Size size_of(const Agent& a, double low_l, double low_w, double low_h) {
  const auto pick = [](double v, double low, double high) { return static_cast<float>(v >= low ? std::min(v, high) : low); };
  return {pick(a.length, low_l, 30) / 2, pick(a.width, low_w, 6) / 2, pick(a.height, low_h, 8)};
}

struct LampSpots {
  float x_rear, x_front, half_width, z_rear, z_front, size;
};

/// Tail, brake, indicator and head lamps. A lit brake lamp is half as large again as a dark one, and a bar joins the pair.
void lamps(BodyBuilder& b, const Agent& a, const LampSpots& s) {
  const AgentLooks& k = a.looks;
  const bool lit = b.shading().lamps_lit;
  const float tail = k.brake ? s.size * 1.4F : s.size;
  const Rgb tail_colour = k.brake ? kBrakeOn : lit ? kTailLit : kBrakeOff;
  const uint8_t tail_flags = k.brake ? kLamp : lit ? kEmissive : kPlain;
  for (const int side : {-1, 1}) {
    const auto sign = static_cast<float>(side);
    const auto across = [&](float inner, float outer) {
      return side > 0 ? Range{s.half_width - outer, s.half_width - inner} : Range{inner - s.half_width, outer - s.half_width};
    };
    const bool on = k.hazard || (side > 0 ? k.indicator_left : k.indicator_right);
    const Rgb amber = on ? kAmberOn : kAmberOff;
    const uint8_t amber_flags = on ? kLamp : kPlain;
    const float blink = on ? s.size * 1.3F : s.size * 0.5F;
    b.plate(s.x_rear - 0.02F, across(0.02F, 0.02F + 1.1F * tail), {s.z_rear, s.z_rear + tail}, -1, tail_colour, tail_flags);
    b.plate(s.x_rear - 0.03F, across(-0.06F, blink), {s.z_rear - blink, s.z_rear - 0.02F}, -1, amber, amber_flags);
    b.plate(s.x_front + 0.03F, across(-0.06F, blink), {s.z_front - blink, s.z_front - 0.02F}, 1, amber, amber_flags);
    if (on)
      b.side_plate(sign * (s.half_width + 0.03F), {s.x_front - 0.9F, s.x_front - 0.4F}, {s.z_front, s.z_front + 0.25F}, side, amber,
                   kLamp);
    b.plate(s.x_front + 0.02F, across(0.05F, 0.05F + 1.2F * s.size), {s.z_front, s.z_front + 0.8F * s.size}, 1,
            lit ? kHeadLit : kHeadOff, lit ? kLamp : kPlain);
  }
  if (k.brake)
    b.plate(s.x_rear - 0.02F, {-0.35F * s.half_width, 0.35F * s.half_width}, {s.z_rear + 0.9F * tail, s.z_rear + 1.2F * tail}, -1,
            kBrakeOn, kEmissive);
}

void wheels(BodyBuilder& b, std::initializer_list<float> axles, float radius, float half_width) {
  for (const float x : axles) {
    b.wheel(x, radius, radius, {-half_width - 0.02F, -half_width + 0.25F}, kTyre, kRim);
    b.wheel(x, radius, radius, {half_width - 0.25F, half_width + 0.02F}, kTyre, kRim);
  }
}

/// A light bar across the roof: dark lumps when off, large and shining when on.
void beacons(BodyBuilder& b, bool on, float x, float half_width, float z) {
  if (!on) {
    b.box({x - 0.15F, x + 0.15F}, {-half_width, -0.1F}, {z, z + 0.16F}, {120, 30, 34});
    b.box({x - 0.15F, x + 0.15F}, {0.1F, half_width}, {z, z + 0.16F}, {30, 42, 120});
    return;
  }
  b.box({x - 0.25F, x + 0.25F}, {-half_width, -0.06F}, {z, z + 0.45F}, kRedBeacon, kLamp);
  b.box({x - 0.25F, x + 0.25F}, {0.06F, half_width}, {z, z + 0.45F}, kBlueBeacon, kLamp);
}

/// The driver's door standing open at the left, hinged at its front edge, with the dark opening behind it.
void open_door(BodyBuilder& b, bool open, float hinge_x, float side_y, Range z, float width, Rgb c) {
  if (!open) return;
  b.side_plate(side_y + 0.02F, {hinge_x - width, hinge_x}, z, 1, {16, 16, 18});
  const float y1 = side_y + 0.95F * width, x1 = hinge_x - 0.2F * width, middle = 0.5F * (z.low + z.high);
  b.bar({hinge_x, side_y, middle}, {hinge_x, side_y + 0.01F, middle}, 0.1F, kTrim);
  const Vec3 p[4] = {{hinge_x, side_y, z.low}, {x1, y1, z.low}, {x1, y1, z.high}, {hinge_x, side_y, z.high}};
  b.polygon({p[0], p[1], p[2], p[3]}, c);
  b.polygon({p[3], p[2], p[1], p[0]}, mixed(c, {60, 60, 64}, 110));
  const Vec3 edge{-0.02F, 0.05F, 0};
  b.polygon({p[1], Vec3{x1 + edge.x, y1 + edge.y, z.low}, Vec3{x1 + edge.x, y1 + edge.y, z.high}, p[2]}, {230, 60, 40});
  b.polygon({p[2], Vec3{x1 + edge.x, y1 + edge.y, z.high}, Vec3{x1 + edge.x, y1 + edge.y, z.low}, p[1]}, {230, 60, 40});
}

void number_plate(BodyBuilder& b, float x_rear, float x_front, float z) {
  b.plate(x_rear - 0.03F, {-0.27F, 0.27F}, {z, z + 0.15F}, -1, {232, 228, 200});
  b.plate(x_front + 0.03F, {-0.27F, 0.27F}, {z, z + 0.13F}, 1, {232, 228, 200});
}

/// Saloon: lower body, tapering glass house, four wheels. Police wears blue doors and bonnet over white.
void car(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 2.5, 1.2, 1.1);
  const bool police = a.type == AgentType::kPolice;
  const Rgb paint = police ? kWhite : a.looks.colour;
  const float waist = 0.58F * s.h, r = std::min(0.36F, 0.24F * s.h);
  b.frustum({-s.l, s.l}, {-s.w, s.w}, 0.22F, {-0.97F * s.l, 0.97F * s.l}, {-0.96F * s.w, 0.96F * s.w}, waist, paint, paint);
  b.box({-s.l - 0.01F, s.l + 0.01F}, {-s.w - 0.01F, s.w + 0.01F}, {0.22F, 0.36F}, kTrim);
  b.frustum({-0.74F * s.l, 0.42F * s.l}, {-0.92F * s.w, 0.92F * s.w}, waist, {-0.48F * s.l, 0.12F * s.l},
            {-0.74F * s.w, 0.74F * s.w}, s.h - 0.05F, kGlass, paint);
  b.frustum({-0.5F * s.l, 0.14F * s.l}, {-0.76F * s.w, 0.76F * s.w}, s.h - 0.06F, {-0.47F * s.l, 0.1F * s.l},
            {-0.7F * s.w, 0.7F * s.w}, s.h, paint, paint);
  for (const float side : {-1.0F, 1.0F})
    b.bar({-0.2F * s.l, side * 0.93F * s.w, waist}, {-0.18F * s.l, side * 0.76F * s.w, s.h - 0.05F}, 0.1F, paint);
  if (police) {
    for (const int side : {-1, 1}) {
      b.side_plate(static_cast<float>(side) * (s.w + 0.015F), {-0.85F * s.l, 0.85F * s.l}, {0.42F, 0.78F * waist + 0.12F}, side,
                   {24, 60, 170});
    }
    b.plate(-s.l - 0.015F, {-0.55F * s.w, 0.55F * s.w}, {0.4F, waist - 0.06F}, -1, {24, 60, 170});
    b.polygon({Vec3{0.5F * s.l, -0.8F * s.w, waist + 0.01F}, Vec3{0.95F * s.l, -0.8F * s.w, waist + 0.01F},
               Vec3{0.95F * s.l, 0.8F * s.w, waist + 0.01F}, Vec3{0.5F * s.l, 0.8F * s.w, waist + 0.01F}},
              {24, 60, 170});
    beacons(b, a.looks.beacons, -0.18F * s.l, 0.8F * s.w, s.h);
  }
  wheels(b, {-0.62F * s.l, 0.64F * s.l}, r, s.w);
  number_plate(b, -s.l, s.l, 0.4F);
  lamps(b, a, {-s.l, s.l, s.w, waist - 0.33F, waist - 0.34F, 0.28F});
  open_door(b, a.looks.door_open, 0.3F * s.l, s.w, {0.3F, s.h - 0.15F}, 1.15F, paint);
}

/// The lorry's front: a tall cab with a slanted windscreen, from x to the front.
void cab(BodyBuilder& b, const Size& s, float x, float top, Rgb paint) {
  const float sill = 0.55F * top;
  b.box({x, s.l}, {-s.w, s.w}, {0.45F, sill}, paint);
  b.frustum({x, s.l}, {-s.w, s.w}, sill, {x, s.l - 0.3F}, {-0.94F * s.w, 0.94F * s.w}, top, kGlass, paint);
  b.box({x - 0.02F, x + 0.25F * (s.l - x)}, {-s.w - 0.02F, s.w + 0.02F}, {0.5F, top - 0.02F}, paint);
  b.plate(s.l + 0.01F, {-0.7F * s.w, 0.7F * s.w}, {0.6F, sill - 0.15F}, 1, kTrim);
}

void truck(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 5, 1.8, 2.4);
  const Rgb paint = a.looks.colour;
  const float cab_x = s.l - std::min(2.2F, 0.55F * s.l), back = cab_x - 0.35F;
  const Rgb cargo = mixed(paint, {226, 226, 222}, 190);
  cab(b, s, cab_x, std::min(0.82F * s.h, 2.9F), paint);
  b.box({-s.l, back}, {-s.w, s.w}, {1.0F, s.h}, cargo);
  b.box({-s.l, s.l - 0.1F}, {-0.6F * s.w, 0.6F * s.w}, {0.5F, 1.02F}, kTrim);
  b.plate(-s.l - 0.01F, {-0.03F, 0.03F}, {1.05F, s.h - 0.05F}, -1, {70, 70, 74});
  for (const float y : {-0.93F, 0.88F})
    b.plate(-s.l - 0.01F, {y * s.w, (y + 0.05F) * s.w}, {1.05F, s.h - 0.05F}, -1, {110, 110, 112});
  for (const int side : {-1, 1})
    b.side_plate(static_cast<float>(side) * (s.w + 0.01F), {-0.96F * s.l, back - 0.15F}, {1.5F, 1.9F}, side, paint);
  wheels(b, {-0.8F * s.l, -0.8F * s.l + 1.15F, s.l - 1.0F}, 0.5F, s.w);
  number_plate(b, -s.l, s.l, 0.62F);
  lamps(b, a, {-s.l, s.l, s.w, 0.72F, 0.78F, 0.32F});
  open_door(b, a.looks.door_open, s.l - 0.4F, s.w, {0.6F, 2.2F}, 1.2F, paint);
}

void stop_arm(BodyBuilder& b, bool out, float x, float side_y, float z) {
  const Rgb red{214, 18, 26};
  if (!out) {
    b.box({x - 0.3F, x + 0.3F}, {side_y, side_y + 0.06F}, {z - 0.3F, z + 0.3F}, red);
    return;
  }
  const float y = side_y + 0.85F;
  b.bar({x, side_y, z}, {x, y - 0.3F, z}, 0.1F, kTrim);
  for (const int facing : {-1, 1}) {
    const auto f = static_cast<float>(facing);
    b.disc(x + 0.02F * f, y, z, 0.6F, 8, 0.3927F, facing, kWhite);
    b.disc(x + 0.03F * f, y, z, 0.52F, 8, 0.3927F, facing, red);
    b.plate(x + 0.04F * f, {y - 0.36F, y + 0.36F}, {z - 0.09F, z + 0.09F}, facing, kWhite);
    for (const float dz : {-0.42F, 0.42F}) b.disc(x + 0.05F * f, y, z + dz, 0.14F, 6, 0, facing, kBrakeOn, kLamp);
  }
}

/// City bus in its own colour, school bus in yellow with black rails, a nose and a stop arm.
void bus(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 5, 2, 2.4);
  const bool school = a.type == AgentType::kSchoolBus;
  const Rgb paint = school ? Rgb{255, 190, 0} : a.looks.colour;
  const float front = school ? s.l - 1.3F : s.l, sill = 0.5F * s.h, lintel = 0.8F * s.h;
  b.box({-s.l, front}, {-s.w, s.w}, {0.4F, s.h}, paint);
  if (school) {
    b.box({front, s.l}, {-0.82F * s.w, 0.82F * s.w}, {0.45F, 0.5F * s.h}, paint);
    b.box({-s.l + 0.3F, front - 0.3F}, {-0.85F * s.w, 0.85F * s.w}, {s.h, s.h + 0.06F}, {250, 250, 246});
  }
  for (const int side : {-1, 1}) {
    const float y = static_cast<float>(side) * (s.w + 0.01F);
    const int panes = std::max(3, static_cast<int>((front + s.l) / 1.3F));
    const float pitch = (front + s.l - 0.4F) / static_cast<float>(panes);
    for (int i = 0; i < panes; ++i) {
      const float x = -s.l + 0.2F + pitch * static_cast<float>(i);
      b.side_plate(y, {x + 0.06F, x + pitch - 0.06F}, {sill, lintel}, side, kGlass);
    }
    if (school) {
      for (const float z : {0.3F, 0.42F}) b.side_plate(y, {-s.l, front}, {z * s.h, z * s.h + 0.1F}, side, {20, 20, 20});
    } else {
      b.side_plate(y, {-s.l, front}, {0.5F, 0.27F * s.h}, side, mixed(paint, {20, 20, 24}, 130));
      b.side_plate(y, {-s.l, front}, {lintel + 0.12F, lintel + 0.28F}, side, kWhite);
    }
  }
  b.plate(-s.l - 0.01F, {-0.8F * s.w, 0.8F * s.w}, {sill + 0.1F, lintel}, -1, kGlass);
  b.plate(front + 0.01F, {-0.9F * s.w, 0.9F * s.w}, {school ? 0.52F * s.h : 0.36F * s.h, lintel}, 1, kGlass);
  if (!school) b.plate(front + 0.01F, {-0.7F * s.w, 0.7F * s.w}, {lintel + 0.08F, s.h - 0.06F}, 1, {255, 170, 30}, kEmissive);
  if (school) {
    for (const float y : {-0.82F, 0.82F}) {
      const Rgb c = a.looks.stop_arm ? kBrakeOn : Rgb{110, 16, 16};
      b.disc(-s.l - 0.02F, y * s.w, s.h - 0.28F, 0.24F, 8, 0, -1, c, a.looks.stop_arm ? kLamp : kPlain);
      b.disc(front + 0.02F, y * s.w, s.h - 0.28F, 0.24F, 8, 0, 1, c, a.looks.stop_arm ? kLamp : kPlain);
    }
    b.plate(-s.l - 0.01F, {-0.3F * s.w, 0.3F * s.w}, {0.5F, sill}, -1, {235, 170, 0});
    b.plate(-s.l - 0.02F, {-s.w, s.w}, {0.4F, 0.62F}, -1, {20, 20, 20});
    stop_arm(b, a.looks.stop_arm, 0.45F * s.l, s.w, 0.55F * s.h);
  }
  wheels(b, {-0.58F * s.l, 0.62F * s.l}, 0.5F, s.w);
  lamps(b, a, {-s.l, s.l, s.w, 0.85F, 0.8F, 0.34F});
  open_door(b, a.looks.door_open, front - 0.3F, s.w, {0.4F, 2.3F}, 1.2F, paint);
}

void garbage_truck(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 5, 1.8, 2.6);
  const Rgb green{30, 132, 56}, dark{16, 70, 32};
  const float cab_x = s.l - std::min(1.9F, 0.5F * s.l), rear = -s.l + 0.32F * s.l;
  cab(b, s, cab_x, 0.84F * s.h, {236, 236, 230});
  b.box({rear, cab_x - 0.15F}, {-s.w, s.w}, {0.8F, s.h}, green);
  b.frustum({-s.l, rear}, {-s.w, s.w}, 0.6F, {-s.l + 0.18F * s.l, rear}, {-0.98F * s.w, 0.98F * s.w}, 0.97F * s.h, dark, green);
  b.box({-s.l, s.l - 0.1F}, {-0.6F * s.w, 0.6F * s.w}, {0.5F, 0.82F}, kTrim);
  b.plate(-s.l - 0.02F, {-0.78F * s.w, 0.78F * s.w}, {1.0F, 1.75F}, -1, {14, 16, 14});
  for (const int side : {-1, 1}) {
    const float y = static_cast<float>(side) * (s.w + 0.012F);
    for (int i = 0; i < 4; ++i) {
      const float x = rear + (cab_x - rear) * (0.12F + 0.22F * static_cast<float>(i));
      b.side_plate(y, {x, x + 0.12F}, {0.85F, s.h - 0.05F}, side, dark);
    }
    b.side_plate(y, {rear, cab_x - 0.2F}, {1.5F, 1.75F}, side, {240, 210, 30});
  }
  for (int i = 0; i < 6; ++i) {
    const float y = -s.w + s.w / 3 * static_cast<float>(i);
    b.plate(-s.l - 0.03F, {y, y + s.w / 3}, {0.6F, 0.95F}, -1, i % 2 == 0 ? Rgb{250, 210, 20} : Rgb{200, 30, 20});
  }
  const uint8_t flash = a.looks.hazard || a.looks.beacons ? kLamp : kPlain;
  b.box({cab_x + 0.4F, cab_x + 0.7F}, {-0.3F, 0.3F}, {0.84F * s.h, 0.84F * s.h + 0.25F}, kAmberOn, flash);
  wheels(b, {-0.55F * s.l, -0.55F * s.l + 1.15F, s.l - 1.0F}, 0.5F, s.w);
  lamps(b, a, {-s.l, s.l, s.w, 1.85F, 0.78F, 0.32F});
  open_door(b, a.looks.door_open, s.l - 0.4F, s.w, {0.6F, 2.2F}, 1.2F, {236, 236, 230});
}

void ambulance(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 4, 1.7, 2.1);
  const Rgb red{216, 24, 34};
  const float cab_x = s.l - 0.55F * s.l;
  b.box({-s.l, cab_x}, {-s.w, s.w}, {0.4F, s.h}, kWhite);
  b.box({cab_x, s.l}, {-0.95F * s.w, 0.95F * s.w}, {0.4F, 0.5F * s.h}, kWhite);
  b.frustum({cab_x, s.l - 0.25F * s.l}, {-0.93F * s.w, 0.93F * s.w}, 0.5F * s.h, {cab_x, cab_x + 0.12F * s.l},
            {-0.85F * s.w, 0.85F * s.w}, 0.85F * s.h, kGlass, kWhite);
  const float z = 0.68F * s.h, arm = 0.19F * s.h, bar = 0.07F * s.h;
  for (const int side : {-1, 1}) {
    const float y = static_cast<float>(side) * (s.w + 0.01F), mid = -0.35F * s.l;
    b.side_plate(y, {-s.l, s.l - 0.2F}, {0.32F * s.h, 0.43F * s.h}, side, red);
    b.side_plate(y, {mid - arm, mid + arm}, {z - bar, z + bar}, side, red);
    b.side_plate(y, {mid - bar, mid + bar}, {z - arm, z + arm}, side, red);
  }
  b.plate(-s.l - 0.01F, {-s.w, s.w}, {0.32F * s.h, 0.43F * s.h}, -1, red);
  b.plate(-s.l - 0.01F, {-arm, arm}, {z - bar, z + bar}, -1, red);
  b.plate(-s.l - 0.01F, {-bar, bar}, {z - arm, z + arm}, -1, red);
  b.plate(s.l + 0.01F, {-0.9F * s.w, 0.9F * s.w}, {0.32F * s.h, 0.43F * s.h}, 1, red);
  beacons(b, a.looks.beacons, cab_x - 0.3F, 0.85F * s.w, s.h);
  beacons(b, a.looks.beacons, -s.l + 0.3F, 0.85F * s.w, s.h);
  wheels(b, {-0.55F * s.l, 0.64F * s.l}, 0.38F, s.w);
  lamps(b, a, {-s.l, s.l, s.w, 0.62F, 0.6F, 0.3F});
  open_door(b, a.looks.door_open, 0.75F * s.l, s.w, {0.45F, 0.8F * s.h}, 1.1F, kWhite);
}

void fire_truck(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 5, 1.9, 2.5);
  const Rgb red{206, 20, 22}, steel{176, 180, 186};
  const float cab_x = s.l - 0.45F * s.l, deck = 0.86F * s.h;
  cab(b, s, cab_x, 0.9F * s.h, red);
  b.box({-s.l, cab_x}, {-s.w, s.w}, {0.5F, deck}, red);
  for (const int side : {-1, 1}) {
    const float y = static_cast<float>(side) * (s.w + 0.012F);
    b.side_plate(y, {-s.l, s.l}, {0.36F * s.h, 0.43F * s.h}, side, kWhite);
    for (int i = 0; i < 3; ++i) {
      const float x = -0.92F * s.l + (cab_x + 0.92F * s.l) * static_cast<float>(i) / 3;
      b.side_plate(y, {x, x + 0.28F * (cab_x + 0.92F * s.l)}, {0.48F * s.h, 0.8F * s.h}, side, steel);
    }
    b.bar({-s.l - 0.1F, static_cast<float>(side) * 0.35F, s.h - 0.02F}, {s.l - 0.4F, static_cast<float>(side) * 0.35F, s.h + 0.1F},
          0.12F, steel);
  }
  for (int i = 0; i < 9; ++i) {
    const float x = -s.l + 2 * s.l * (static_cast<float>(i) + 0.3F) / 9;
    b.bar({x, -0.35F, s.h}, {x, 0.35F, s.h}, 0.1F, steel);
  }
  b.plate(-s.l - 0.01F, {-s.w, s.w}, {0.36F * s.h, 0.43F * s.h}, -1, kWhite);
  b.plate(-s.l - 0.01F, {-0.6F * s.w, 0.6F * s.w}, {0.48F * s.h, 0.8F * s.h}, -1, steel);
  beacons(b, a.looks.beacons, cab_x + 0.5F, 0.9F * s.w, 0.9F * s.h);
  if (a.looks.beacons) beacons(b, true, -s.l + 0.3F, 0.95F * s.w, deck);
  wheels(b, {-0.6F * s.l, 0.62F * s.l}, 0.52F, s.w);
  lamps(b, a, {-s.l, s.l, s.w, 0.75F, 0.72F, 0.32F});
  open_door(b, a.looks.door_open, s.l - 0.4F, s.w, {0.6F, 2.1F}, 1.2F, red);
}

/// Two huge rear wheels with yellow rims, a narrow bonnet, a glass cab, and the orange triangle of slow vehicles.
void tractor(BodyBuilder& b, const Agent& a) {
  const Size s = size_of(a, 2.6, 1.5, 2.0);
  const Rgb paint = a.looks.colour, rim{240, 200, 40};
  const float big = 0.32F * s.h, small = 0.19F * s.h, waist = 0.52F * s.h;
  b.box({-0.1F * s.l, 0.95F * s.l}, {-0.36F * s.w, 0.36F * s.w}, {small, waist}, paint);
  b.box({-0.75F * s.l, 0.0F}, {-0.5F * s.w, 0.5F * s.w}, {0.5F * big, waist}, paint);
  b.frustum({-0.75F * s.l, 0.05F * s.l}, {-0.52F * s.w, 0.52F * s.w}, waist, {-0.7F * s.l, -0.02F}, {-0.46F * s.w, 0.46F * s.w},
            s.h - 0.12F, {96, 128, 148}, kWhite);
  b.box({-0.78F * s.l, 0.05F * s.l}, {-0.55F * s.w, 0.55F * s.w}, {s.h - 0.13F, s.h}, paint);
  for (const float side : {-1.0F, 1.0F}) {
    const Range wide = side < 0 ? Range{-s.w, -0.55F * s.w} : Range{0.55F * s.w, s.w};
    const Range narrow = side < 0 ? Range{-0.85F * s.w, -0.5F * s.w} : Range{0.5F * s.w, 0.85F * s.w};
    b.wheel(-s.l + big, big, big, wide, kTyre, rim);
    b.wheel(s.l - small, small, small, narrow, kTyre, rim);
  }
  b.column(0.4F * s.l, 0.2F * s.w, 0.06F, 0.06F, {waist, s.h}, 6, kTrim);
  b.polygon(
      {Vec3{-0.8F * s.l, -0.32F, waist - 0.1F}, Vec3{-0.8F * s.l, 0.0F, waist + 0.45F}, Vec3{-0.8F * s.l, 0.32F, waist - 0.1F}},
      {255, 110, 10});
  const bool flash = a.looks.beacons || a.looks.hazard;
  b.box({-0.5F * s.l, -0.3F * s.l}, {-0.12F, 0.12F}, {s.h, s.h + 0.25F}, kAmberOn, flash ? kLamp : kPlain);
  lamps(b, a, {-0.79F * s.l, 0.95F * s.l, 0.52F * s.w, 0.38F * s.h, 0.38F * s.h, 0.24F});
}

}  // namespace

void build_vehicle(BodyBuilder& b, const Agent& a) {
  switch (a.type) {
    case AgentType::kTruck:
      return truck(b, a);
    case AgentType::kBus:
    case AgentType::kSchoolBus:
      return bus(b, a);
    case AgentType::kGarbageTruck:
      return garbage_truck(b, a);
    case AgentType::kAmbulance:
      return ambulance(b, a);
    case AgentType::kFireTruck:
      return fire_truck(b, a);
    case AgentType::kTractor:
      return tractor(b, a);
    default:
      return car(b, a);
  }
}

}  // namespace slip::sim
