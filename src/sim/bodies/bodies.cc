// SPDX-License-Identifier: Apache-2.0
// Primitives of the bodies: every solid becomes convex faces, counter-clockwise from outside, shaded when added.
#include "sim/bodies/bodies.h"

#include <algorithm>
#include <cmath>

#include "sim/math.h"

namespace slip::sim {
namespace {

Vec3 operator-(Vec3 a, Vec3 b) { return {a.x - b.x, a.y - b.y, a.z - b.z}; }
Vec3 operator+(Vec3 a, Vec3 b) { return {a.x + b.x, a.y + b.y, a.z + b.z}; }
Vec3 operator*(Vec3 a, float k) { return {a.x * k, a.y * k, a.z * k}; }
Vec3 cross(Vec3 a, Vec3 b) { return {a.y * b.z - a.z * b.y, a.z * b.x - a.x * b.z, a.x * b.y - a.y * b.x}; }
float dot(Vec3 a, Vec3 b) { return a.x * b.x + a.y * b.y + a.z * b.z; }

constexpr int kMaxSides = 12;
constexpr float kTau = 6.2831853F;

/// cos and sin of 2 pi i / sides + phase.
void circle(int sides, float phase, float (&c)[kMaxSides], float (&s)[kMaxSides]) {
  for (int i = 0; i < sides; ++i) {
    const double a = static_cast<double>(phase) + static_cast<double>(kTau) * i / sides;
    c[i] = static_cast<float>(det_cos(a));
    s[i] = static_cast<float>(det_sin(a));
  }
}

}  // namespace

bool BodyBuilder::begin(const Pose& world) {
  const double dx = world.x - ego_.x, dy = world.y - ego_.y;
  if (!(dx * dx + dy * dy < kFarM * kFarM) || !(std::fabs(world.x) + std::fabs(world.y) < 1e9)) return false;
  if (!(std::fabs(world.yaw) < 1e4) || !(std::fabs(ego_.yaw) < 1e4)) return false;
  const double c = det_cos(ego_.yaw), s = det_sin(ego_.yaw);
  x_ = static_cast<float>(dx * c + dy * s);
  y_ = static_cast<float>(dy * c - dx * s);
  cos_ = static_cast<float>(det_cos(world.yaw - ego_.yaw));
  sin_ = static_cast<float>(det_sin(world.yaw - ego_.yaw));
  first_vertex_ = static_cast<uint32_t>(mesh_.vertices.size());
  Body body;
  body.first_face = static_cast<uint32_t>(mesh_.faces.size());
  mesh_.bodies.push_back(body);
  return true;
}

void BodyBuilder::end() {
  Body& body = mesh_.bodies.back();
  body.face_count = static_cast<uint32_t>(mesh_.faces.size()) - body.first_face;
  if (body.face_count == 0) {
    mesh_.bodies.pop_back();
    return;
  }
  Vec3 low = mesh_.vertices[first_vertex_], high = low;
  for (size_t i = first_vertex_; i < mesh_.vertices.size(); ++i) {
    const Vec3 p = mesh_.vertices[i];
    low = {std::min(low.x, p.x), std::min(low.y, p.y), std::min(low.z, p.z)};
    high = {std::max(high.x, p.x), std::max(high.y, p.y), std::max(high.z, p.z)};
  }
  body.centre = (low + high) * 0.5F;
  const Vec3 half = (high - low) * 0.5F;
  body.radius = std::sqrt(dot(half, half)) + 0.01F;
}

Vec3 BodyBuilder::place(Vec3 p) const { return {x_ + p.x * cos_ - p.y * sin_, y_ + p.x * sin_ + p.y * cos_, p.z}; }

void BodyBuilder::polygon(std::span<const Vec3> corners, Rgb c, uint8_t flags) {
  Face f;
  f.first = static_cast<uint32_t>(mesh_.vertices.size());
  f.count = static_cast<uint8_t>(corners.size());
  f.flags = flags;
  for (const Vec3 p : corners) mesh_.vertices.push_back(place(p));
  const Vec3* v = &mesh_.vertices[f.first];
  // The diagonal pair survives a degenerate first edge, as the tips of cones have.
  f.normal = corners.size() == 4 ? cross(v[2] - v[0], v[3] - v[1]) : cross(v[1] - v[0], v[2] - v[0]);
  const float length = std::sqrt(dot(f.normal, f.normal));
  if (!(length > 1e-9F)) {
    mesh_.vertices.resize(f.first);
    return;
  }
  float light = 1;
  if ((flags & kEmissive) == 0) {
    const float facing = dot(f.normal, shading_.sun) / length;
    light = shading_.ambient + shading_.diffuse * std::max(facing, 0.0F);
    if (shading_.snow && f.normal.z > 0.75F * length) c = mixed(c, {240, 243, 248}, 190);
  }
  f.colour = scaled(c, light);
  mesh_.faces.push_back(f);
}

void BodyBuilder::hexahedron(const Vec3 (&p)[8], Rgb side, Rgb top, uint8_t flags) {
  // p[0..3] below, p[4..7] above, both counter-clockwise from above. Nobody looks at a body from below: no floor face
  // unless it floats, where its edge-on view would show the sky through.
  polygon({p[4], p[5], p[6], p[7]}, top, flags);
  polygon({p[3], p[2], p[1], p[0]}, side, flags);
  for (int i = 0; i < 4; ++i) {
    const int j = (i + 1) % 4;
    polygon({p[i], p[j], p[j + 4], p[i + 4]}, side, flags);
  }
}

void BodyBuilder::box(Range x, Range y, Range z, Rgb c, uint8_t flags) {
  const Vec3 p[8] = {{x.low, y.low, z.low},  {x.high, y.low, z.low},  {x.high, y.high, z.low},  {x.low, y.high, z.low},
                     {x.low, y.low, z.high}, {x.high, y.low, z.high}, {x.high, y.high, z.high}, {x.low, y.high, z.high}};
  hexahedron(p, c, c, flags);
}

void BodyBuilder::frustum(Range x0, Range y0, float z0, Range x1, Range y1, float z1, Rgb side, Rgb top) {
  const Vec3 p[8] = {{x0.low, y0.low, z0}, {x0.high, y0.low, z0}, {x0.high, y0.high, z0}, {x0.low, y0.high, z0},
                     {x1.low, y1.low, z1}, {x1.high, y1.low, z1}, {x1.high, y1.high, z1}, {x1.low, y1.high, z1}};
  hexahedron(p, side, top, kPlain);
}

void BodyBuilder::bar(Vec3 a, Vec3 b, float t, Rgb c, uint8_t flags) {
  const Vec3 axis = b - a;
  const float length = std::sqrt(dot(axis, axis));
  if (!(length > 1e-4F)) return;
  const Vec3 u = axis * (1 / length);
  const Vec3 other = std::fabs(u.y) < 0.8F ? Vec3{0, 1, 0} : Vec3{1, 0, 0};
  Vec3 s = cross(other, u);
  s = s * (0.5F * t / std::sqrt(dot(s, s)));
  const Vec3 w = cross(u, s);
  const Vec3 p[8] = {a - s - w, a + s - w, a + s + w, a - s + w, b - s - w, b + s - w, b + s + w, b - s + w};
  hexahedron(p, c, c, flags);
}

void BodyBuilder::wheel(float x, float z, float radius, Range y, Rgb tyre, Rgb rim) {
  constexpr int kSides = 10;
  float c[kMaxSides], s[kMaxSides];
  circle(kSides, 0, c, s);
  Vec3 right[kSides], left[kSides], rim_right[kSides], rim_left[kSides];
  for (int i = 0; i < kSides; ++i) {
    right[i] = {x + radius * c[i], y.low, z + radius * s[i]};
    left[kSides - 1 - i] = {x + radius * c[i], y.high, z + radius * s[i]};
    rim_right[i] = {x + 0.55F * radius * c[i], y.low - 0.01F, z + 0.55F * radius * s[i]};
    rim_left[kSides - 1 - i] = {x + 0.55F * radius * c[i], y.high + 0.01F, z + 0.55F * radius * s[i]};
  }
  for (int i = 0; i < kSides; ++i) {
    const int j = (i + 1) % kSides;
    polygon({right[j], right[i], left[kSides - 1 - i], left[kSides - 1 - j]}, tyre);
  }
  polygon(right, tyre);
  polygon(left, tyre);
  polygon(rim_right, rim);
  polygon(rim_left, rim);
}

void BodyBuilder::column(float x, float y, float r0, float r1, Range z, int sides, Rgb colour, uint8_t flags) {
  float c[kMaxSides], s[kMaxSides];
  circle(sides, 0.3F, c, s);
  Vec3 top[kMaxSides];
  for (int i = 0; i < sides; ++i) top[i] = {x + r1 * c[i], y + r1 * s[i], z.high};
  for (int i = 0; i < sides; ++i) {
    const int j = (i + 1) % sides;
    polygon({Vec3{x + r0 * c[i], y + r0 * s[i], z.low}, Vec3{x + r0 * c[j], y + r0 * s[j], z.low}, top[j], top[i]}, colour, flags);
  }
  if (r1 > 0.01F) polygon(std::span<const Vec3>(top, static_cast<size_t>(sides)), colour, flags);
}

void BodyBuilder::disc(float x, float y, float z, float radius, int sides, float phase, int facing, Rgb colour, uint8_t flags) {
  float c[kMaxSides], s[kMaxSides];
  circle(sides, phase, c, s);
  Vec3 p[kMaxSides];
  for (int i = 0; i < sides; ++i) {
    const int k = facing > 0 ? i : sides - 1 - i;
    p[i] = {x, y + radius * c[k], z + radius * s[k]};
  }
  polygon(std::span<const Vec3>(p, static_cast<size_t>(sides)), colour, flags);
}

void BodyBuilder::plate(float x, Range y, Range z, int facing, Rgb c, uint8_t flags) {
  if (facing < 0) std::swap(y.low, y.high);
  polygon({Vec3{x, y.low, z.low}, Vec3{x, y.high, z.low}, Vec3{x, y.high, z.high}, Vec3{x, y.low, z.high}}, c, flags);
}

void BodyBuilder::side_plate(float y, Range x, Range z, int facing, Rgb c, uint8_t flags) {
  if (facing > 0) std::swap(x.low, x.high);
  polygon({Vec3{x.low, y, z.low}, Vec3{x.high, y, z.low}, Vec3{x.high, y, z.high}, Vec3{x.low, y, z.high}}, c, flags);
}

void build_agent(BodyBuilder& b, const Agent& a) {
  switch (a.type) {
    case AgentType::kMotorcycle:
    case AgentType::kCyclist:
      return build_rider(b, a);
    case AgentType::kPedestrian:
    case AgentType::kWorker:
    case AgentType::kAnimal:
      return build_walker(b, a);
    case AgentType::kCone:
    case AgentType::kBarrier:
    case AgentType::kDebris:
      return build_obstacle(b, a);
    default:
      return build_vehicle(b, a);
  }
}

void build_bodies(Mesh& mesh, const Moment& m, const Shading& shading) {
  mesh.clear();
  BodyBuilder b(mesh, shading, m.ego);
  for (const Scenery& s : m.scenery) {
    if (!b.begin(s.pose)) continue;
    build_scenery(b, s);
    b.end();
  }
  for (const Agent& a : m.agents) {
    if (!b.begin(a.pose)) continue;
    build_agent(b, a);
    b.end();
  }
  for (const TrafficLight& l : m.lights) {
    if (!b.begin(l.pose)) continue;
    build_light(b, l);
    b.end();
  }
  for (const Sign& s : m.signs) {
    if (!b.begin(s.pose)) continue;
    build_sign(b, s);
    b.end();
  }
}

}  // namespace slip::sim
