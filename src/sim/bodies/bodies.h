// SPDX-License-Identifier: Apache-2.0
// The look of everything that stands on the ground, as flat-shaded convex faces in the ego frame (x forward, y left,
// z up). Built once per moment, drawn by every camera. Parts that carry information are larger than life (lamps of
// 0.3 m, signs of 0.9 m), because the models see a third of the pixels: 0.3 m at 30 m is 3 pixels here and 1 there.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <vector>

#include "sim/scene.h"

namespace slip::sim {

inline constexpr double kFarM = 300.0;

struct Vec3 {
  float x = 0, y = 0, z = 0;
};

/// kEmissive: shines by itself, whatever the hour. kGlow: and lights the air around it.
enum FaceFlag : uint8_t { kPlain = 0, kEmissive = 1, kGlow = 2, kLamp = 3 };

struct Face {
  uint32_t first = 0;  // of its vertices, counter-clockwise seen from outside
  uint8_t count = 0;
  uint8_t flags = kPlain;
  Rgb colour;   // shaded already
  Vec3 normal;  // not normalised
};
/// Faces [first_face, first_face + face_count) lie within `radius` of `centre`.
struct Body {
  uint32_t first_face = 0, face_count = 0;
  Vec3 centre;
  float radius = 0;
};
struct Mesh {
  std::vector<Vec3> vertices;
  std::vector<Face> faces;
  std::vector<Body> bodies;
  void clear() { vertices.clear(), faces.clear(), bodies.clear(); }
};

/// How the sun shades a face: ambient + diffuse * max(0, normal . sun), sun as a unit vector in the ego frame.
struct Shading {
  float ambient = 0.6F, diffuse = 0.5F;
  Vec3 sun{0, 0, 1};
  bool lamps_lit = false, snow = false;
};

struct Range {
  float low = 0, high = 0;
};

/// Adds faces in the frame of one thing at a time: x along its yaw, y to its left, z up from the ground.
class BodyBuilder {
 public:
  BodyBuilder(Mesh& mesh, const Shading& shading, const Pose& ego) : mesh_(mesh), shading_(shading), ego_(ego) {}

  /// False (and nothing begun) when the pose is not finite or farther than kFarM.
  bool begin(const Pose& world);
  void end();
  const Shading& shading() const { return shading_; }

  void polygon(std::span<const Vec3> corners, Rgb c, uint8_t flags = kPlain);
  void polygon(std::initializer_list<Vec3> corners, Rgb c, uint8_t flags = kPlain) {
    polygon(std::span<const Vec3>(corners.begin(), corners.size()), c, flags);
  }
  void box(Range x, Range y, Range z, Rgb c, uint8_t flags = kPlain);
  /// A box whose top is another rectangle: cabins, roofs, cones.
  void frustum(Range x0, Range y0, float z0, Range x1, Range y1, float z1, Rgb side, Rgb top);
  /// A square bar of thickness `t` between two points: limbs, frames, poles that lean.
  void bar(Vec3 a, Vec3 b, float t, Rgb c, uint8_t flags = kPlain);
  /// Lying along y: wheels (rim is the inner disc's colour).
  void wheel(float x, float z, float radius, Range y, Rgb tyre, Rgb rim);
  /// Standing: trunks, poles, cones, barrels.
  void column(float x, float y, float r0, float r1, Range z, int sides, Rgb c, uint8_t flags = kPlain);
  /// A regular polygon at x, facing +x (`facing` > 0) or -x; the first corner at `phase` radians from +y.
  void disc(float x, float y, float z, float radius, int sides, float phase, int facing, Rgb c, uint8_t flags = kPlain);
  /// A rectangle at x facing +x or -x.
  void plate(float x, Range y, Range z, int facing, Rgb c, uint8_t flags = kPlain);
  /// A rectangle at y facing +y or -y.
  void side_plate(float y, Range x, Range z, int facing, Rgb c, uint8_t flags = kPlain);

 private:
  Vec3 place(Vec3 local) const;
  void hexahedron(const Vec3 (&p)[8], Rgb side, Rgb top, uint8_t flags);

  Mesh& mesh_;
  Shading shading_;
  Pose ego_;
  float x_ = 0, y_ = 0, cos_ = 1, sin_ = 0;
  uint32_t first_vertex_ = 0;
};

constexpr Rgb scaled(Rgb c, float k) {
  const auto channel = [k](uint8_t v) {
    const float s = static_cast<float>(v) * k;
    return static_cast<uint8_t>(s < 0 ? 0.0F : s > 255 ? 255.0F : s);
  };
  return {channel(c.r), channel(c.g), channel(c.b)};
}
constexpr Rgb mixed(Rgb a, Rgb b, int b_of_256) {
  const auto channel = [b_of_256](int u, int v) { return static_cast<uint8_t>((u * (256 - b_of_256) + v * b_of_256) >> 8); };
  return {channel(a.r, b.r), channel(a.g, b.g), channel(a.b, b.b)};
}
/// A hash of small integers, for looks that must not depend on order.
constexpr uint32_t look_hash(uint32_t a, uint32_t b = 0, uint32_t c = 0) {
  uint32_t h = a * 0x9E3779B1U ^ (b + 0x7F4A7C15U) * 0x85EBCA77U ^ (c + 0x165667B1U) * 0xC2B2AE3DU;
  h ^= h >> 15;
  h *= 0x2C1B3C6DU;
  h ^= h >> 12;
  h *= 0x297A2D39U;
  return h ^ h >> 15;
}

void build_vehicle(BodyBuilder& b, const Agent& agent);   // cars, trucks, buses, emergency, tractor
void build_rider(BodyBuilder& b, const Agent& agent);     // motorcycle, cyclist
void build_walker(BodyBuilder& b, const Agent& agent);    // pedestrian, worker, animal
void build_obstacle(BodyBuilder& b, const Agent& agent);  // cone, barrier, debris
void build_agent(BodyBuilder& b, const Agent& agent);     // any of them
void build_light(BodyBuilder& b, const TrafficLight& light);
void build_sign(BodyBuilder& b, const Sign& sign);
void build_scenery(BodyBuilder& b, const Scenery& scenery);

/// Replaces `mesh` by the bodies of the moment.
void build_bodies(Mesh& mesh, const Moment& moment, const Shading& shading);

}  // namespace slip::sim
