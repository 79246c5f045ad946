// SPDX-License-Identifier: Apache-2.0
// A moment into pictures: ground patches in painter's order, shadows, bodies through the depth buffer, then light and air.
#include "sim/render/render.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "sim/math.h"
#include "sim/render/light.h"
#include "sim/render/raster.h"

namespace slip::sim {
namespace {

struct ToEgo {
  double x, y, c, s;
  explicit ToEgo(const Pose& e)
      : x(e.x), y(e.y), c(std::fabs(e.yaw) < 1e4 ? det_cos(e.yaw) : 1), s(std::fabs(e.yaw) < 1e4 ? det_sin(e.yaw) : 0) {}
  Vec2 operator()(Vec2 p) const {
    const double dx = p.x - x, dy = p.y - y;
    return {dx * c + dy * s, dy * c - dx * s};
  }
};

Vec2 lerp(Vec2 a, Vec2 b, double t) { return {a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}; }
double length2(Vec2 a, Vec2 b) { return (a.x - b.x) * (a.x - b.x) + (a.y - b.y) * (a.y - b.y); }

/// A crosswalk given as one area becomes stripes of half a metre across its longer sides; a single stripe stays as it is.
void paint_crosswalk(Canvas& canvas, const View& v, std::vector<Vec2> p) {
  if (p.size() == 4 && length2(p[1], p[2]) > length2(p[0], p[1])) std::rotate(p.begin(), p.begin() + 1, p.end());
  const double area_side = p.size() == 4 ? std::min(length2(p[0], p[1]), length2(p[1], p[2])) : 0;
  if (!(area_side > 1.44) || !(length2(p[0], p[1]) < 1e6)) return paint_ground(canvas, v, p, Ground::kCrosswalk, false);
  const double length = std::sqrt(length2(p[0], p[1]));
  const int stripes = std::max(1, static_cast<int>(length));
  for (int i = 0; i < stripes; ++i) {
    const double t0 = (i + 0.25) / stripes, t1 = (i + 0.75) / stripes;
    const Vec2 q[4] = {lerp(p[0], p[1], t0), lerp(p[0], p[1], t1), lerp(p[3], p[2], t1), lerp(p[3], p[2], t0)};
    paint_ground(canvas, v, q, Ground::kCrosswalk, false);
  }
}

void paint_patches(Canvas& canvas, const View& v, const Moment& m) {
  const ToEgo to_ego(m.ego);
  std::vector<Vec2> corners;
  for (const GroundPatch& patch : m.ground) {
    corners.clear();
    for (const Vec2 c : patch.corners) corners.push_back(to_ego(c));
    if (patch.kind == Ground::kCrosswalk)
      paint_crosswalk(canvas, v, corners);
    else
      paint_ground(canvas, v, corners, patch.kind, false);
  }
}

/// The footprint, moved away from the sun by a third of the height.
void paint_shadows(Canvas& canvas, const View& v, const Moment& m, const Atmosphere& air) {
  const ToEgo to_ego(m.ego);
  const auto paint = [&](const Pose& pose, double length, double width, double height) {
    if (!(std::fabs(pose.yaw) < 1e4)) return;
    const double c = det_cos(pose.yaw), s = det_sin(pose.yaw), l = std::min(length, 60.0) / 2, w = std::min(width, 60.0) / 2;
    const double shift = air.shading.lamps_lit ? 0 : 0.35 * std::min(height, 12.0);
    Vec2 q[4];
    const double sign[4][2] = {{1, 1}, {-1, 1}, {-1, -1}, {1, -1}};
    for (int i = 0; i < 4; ++i) {
      const double x = sign[i][0] * l, y = sign[i][1] * w;
      q[i] = to_ego({pose.x + x * c - y * s, pose.y + x * s + y * c});
      q[i].x -= shift * static_cast<double>(air.shading.sun.x);
      q[i].y -= shift * static_cast<double>(air.shading.sun.y);
    }
    paint_ground(canvas, v, q, Ground::kGrass, true);
  };
  for (const Agent& a : m.agents) paint(a.pose, a.length, a.width, a.height);
  for (const Scenery& s : m.scenery) {
    const double crown = s.kind == SceneryKind::kTree ? 0.45 * s.height : 0;
    if (s.kind == SceneryKind::kTree) paint(s.pose, crown, crown, s.height);
    if (s.kind == SceneryKind::kBuilding || s.kind == SceneryKind::kParkedRow) paint(s.pose, s.length, s.width, s.height);
  }
}

uint32_t frame_number(const Moment& m) {
  const auto part = [](double v) { return std::fabs(v) < 1e9 ? static_cast<uint32_t>(det_floor(v * 64)) : 0U; };
  return look_hash(part(m.ego.x), part(m.ego.y), part(m.ego.yaw * 64) + part(m.ego_speed_mps));
}

bool usable(const Camera& c) {
  return c.width > 0 && c.height > 0 && c.width <= 8192 && c.height <= 8192 && c.fov_rad > 0.01 && c.fov_rad < 3.1 &&
         std::fabs(c.yaw_rad) < 1e4 && std::fabs(c.pitch_rad) < 1.5 && std::fabs(c.forward_m) < 1e3 && std::fabs(c.height_m) < 1e3;
}

void render_one(const Moment& m, const Camera& camera, const Atmosphere& air, const Mesh& mesh, std::span<uint8_t> rgb) {
  SLIP_CHECK(usable(camera), "cameras are made by this program, not by its input");
  SLIP_CHECK(rgb.size() == image_bytes(camera), "the caller sizes the picture with image_bytes");
  thread_local Canvas canvas;
  const View v = make_view(camera);
  canvas.clear(v);
  paint_patches(canvas, v, m);
  paint_shadows(canvas, v, m, air);
  draw_bodies(canvas, v, mesh);
  // Cameras of one moment have different drops, so that no network learns to match them.
  finish(canvas, v, air, m.ego, frame_number(m) + static_cast<uint32_t>(det_floor(camera.yaw_rad * 1000)), rgb);
}

}  // namespace

std::array<Camera, 3> front_cameras() {
  const auto camera = [](double yaw) {
    Camera c;
    c.yaw_rad = yaw;
    c.pitch_rad = -0.12;
    return c;
  };
  return {camera(kPi / 4), camera(0), camera(-kPi / 4)};
}

void render(const Moment& m, const Camera& camera, std::span<uint8_t> rgb) {
  const Atmosphere air = make_atmosphere(m.env, m.ego.yaw);
  thread_local Mesh mesh;
  build_bodies(mesh, m, air.shading);
  render_one(m, camera, air, mesh, rgb);
}

void render_all(const Moment& m, std::span<uint8_t> three_images) {
  const Atmosphere air = make_atmosphere(m.env, m.ego.yaw);
  thread_local Mesh mesh;
  build_bodies(mesh, m, air.shading);
  size_t at = 0;
  for (const Camera& camera : front_cameras()) {
    const size_t bytes = image_bytes(camera);
    SLIP_CHECK(at + bytes <= three_images.size(), "the caller gives room for the three front cameras");
    render_one(m, camera, air, mesh, three_images.subspan(at, bytes));
    at += bytes;
  }
  SLIP_CHECK(at == three_images.size(), "the caller gives room for exactly the three front cameras");
}

std::optional<Pixel> project(const Camera& camera, const Pose& ego, double x, double y, double z) {
  const View v = make_view(camera);
  const Vec2 p = ToEgo(ego)({x, y});
  const CameraPoint c = to_camera(v, p.x, p.y, z);
  if (!(c.f >= kNearM)) return std::nullopt;
  const Pixel out{v.centre_x + v.focal_px * c.r / c.f, v.centre_y - v.focal_px * c.u / c.f};
  if (!(out.x >= 0 && out.x < v.width && out.y >= 0 && out.y < v.height)) return std::nullopt;
  return out;
}

}  // namespace slip::sim
