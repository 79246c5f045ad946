// SPDX-License-Identifier: Apache-2.0
// Polygons into a picture. A Canvas holds, per pixel, a packed colour (red, green, blue, tag) and an inverse depth in
// fixed point (larger is nearer, 0 is the sky). Ground is one plane, so its depth depends on the row alone and patches
// are painted as tags in order; bodies go through the depth buffer. Coordinates snap to 1/256 pixel and edges are walked
// from their upper end, so two polygons that share an edge neither overlap nor leave a gap.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/bodies/bodies.h"
#include "sim/scene.h"

namespace slip::sim {

inline constexpr double kNearM = 0.2;
inline constexpr double kDepthOne = 268435456.0;  // 2^28: inverse depth of 1 m; at the near plane 1.34e9, below 2^31

/// What a pixel's top byte says. Ground pixels are kTagGround | kind, with kTagShadow where a body shades them.
enum PixelTag : uint8_t { kTagSky = 0, kTagBody = 1, kTagEmissive = 2, kTagShadow = 0x20, kTagGround = 0x40 };

constexpr uint32_t pack(Rgb c, uint8_t tag) {
  return uint32_t{c.r} | uint32_t{c.g} << 8 | uint32_t{c.b} << 16 | uint32_t{tag} << 24;
}

/// The camera's axes in the ego frame (x forward, y left, z up) and its pinhole.
struct View {
  double right[3], up[3], forward[3], position[3];
  double focal_px = 0, centre_x = 0, centre_y = 0;
  int width = 0, height = 0;
};
View make_view(const Camera& camera);

/// A point in camera axes: to the right, up, forward.
struct CameraPoint {
  double r = 0, u = 0, f = 0;
};
CameraPoint to_camera(const View& v, double x, double y, double z);

/// One row of the ground plane: forward depth, and the ego-frame point of pixel 0's centre with its step per pixel.
struct GroundRow {
  bool seen = false;
  double depth_m = 0, x = 0, y = 0, step_x = 0, step_y = 0;
};
GroundRow ground_row(const View& v, int row);

/// A lamp that was drawn and lights the air around it.
struct Glow {
  float x, y, radius_px;
  int32_t inverse_depth;
  Rgb colour;
};

struct Canvas {
  int width = 0, height = 0;
  std::vector<uint32_t> colour;
  std::vector<int32_t> inverse_depth;
  std::vector<int32_t> left, right;  // scratch: the row spans of the polygon at hand
  std::vector<Glow> glows;
  /// Everything sky above the horizon, grass below.
  void clear(const View& v);
};

/// Paints the convex ego-frame polygon with `kind`; with `shadow` it only darkens what is there.
void paint_ground(Canvas& canvas, const View& v, std::span<const Vec2> corners, Ground kind, bool shadow);
void draw_bodies(Canvas& canvas, const View& v, const Mesh& mesh);

}  // namespace slip::sim
