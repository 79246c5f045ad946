// SPDX-License-Identifier: Apache-2.0
// The rasteriser: near-plane clipping, snapping to 1/256 pixel, integer edge walks, one inverse-depth plane per face.
// Inverse depth is affine in the picture, so it is stepped along each row as an integer; it is clamped to the range of the
// face's corners, because a face seen edge-on extrapolates wildly within its own pixels.
#include "sim/render/raster.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/math.h"

namespace slip::sim {
namespace {

constexpr int kMaxCorners = 32;
struct Snapped {
  int64_t x = 0, y = 0;
};  // 1/256 pixel
struct RowRange {
  int begin = 0, end = 0;
};

constexpr int kSub = 256;
constexpr int64_t kFraction = int64_t{1} << 24;  // of a pixel, in the edge walk

int first_row(int64_t y) {  // the first row whose centre is at or below y
  const int64_t v = y - kSub / 2 + kSub - 1;
  return static_cast<int>(std::clamp<int64_t>(v >= 0 ? v / kSub : -((-v + kSub - 1) / kSub), -1, 1 << 20));
}

/// Walks one edge from its upper end and widens the row spans by it.
void walk_edge(Canvas& canvas, Snapped a, Snapped b) {
  if (a.y > b.y) std::swap(a, b);
  const int begin = std::max(0, first_row(a.y)), end = std::min(canvas.height, first_row(b.y));
  if (begin >= end) return;
  const double slope = static_cast<double>(b.x - a.x) / static_cast<double>(b.y - a.y);
  const int64_t middle = int64_t{begin} * kSub + kSub / 2;
  const double x0 = static_cast<double>(a.x) + static_cast<double>(middle - a.y) * slope;
  int64_t x = static_cast<int64_t>(x0 * 65536.0) - kFraction / 2 + kFraction - 1;
  const int64_t step = static_cast<int64_t>(slope * 16777216.0);
  const int64_t limit = static_cast<int64_t>(canvas.width) << 24;
  for (int row = begin; row < end; ++row, x += step) {
    const auto px = static_cast<int32_t>(std::clamp<int64_t>(x, 0, limit) >> 24);
    canvas.left[static_cast<size_t>(row)] = std::min(canvas.left[static_cast<size_t>(row)], px);
    canvas.right[static_cast<size_t>(row)] = std::max(canvas.right[static_cast<size_t>(row)], px);
  }
}

/// Row spans [left, right) of a convex polygon whose pixel centres it covers.
RowRange scan(Canvas& canvas, const Snapped* p, int n) {
  int64_t top = p[0].y, bottom = p[0].y, west = p[0].x, east = p[0].x;
  for (int i = 1; i < n; ++i) {
    top = std::min(top, p[i].y), bottom = std::max(bottom, p[i].y);
    west = std::min(west, p[i].x), east = std::max(east, p[i].x);
  }
  if (east < 0 || west > int64_t{canvas.width} * kSub) return {};
  const RowRange rows{std::max(0, first_row(top)), std::min(canvas.height, first_row(bottom))};
  if (rows.begin >= rows.end) return {};
  std::fill(canvas.left.begin() + rows.begin, canvas.left.begin() + rows.end, std::numeric_limits<int32_t>::max());
  std::fill(canvas.right.begin() + rows.begin, canvas.right.begin() + rows.end, 0);
  for (int i = 0; i < n; ++i) walk_edge(canvas, p[i], p[i + 1 == n ? 0 : i + 1]);
  return rows;
}

/// Sutherland-Hodgman against the near plane. An edge is cut from its inner end, so neighbours get the same corner.
int clip_near(const CameraPoint* in, int n, CameraPoint* out) {
  int m = 0;
  for (int i = 0; i < n; ++i) {
    const CameraPoint a = in[i], b = in[i + 1 == n ? 0 : i + 1];
    const bool a_in = a.f >= kNearM, b_in = b.f >= kNearM;
    if (a_in) out[m++] = a;
    if (a_in != b_in) {
      const CameraPoint p = a_in ? a : b, q = a_in ? b : a;
      const double t = (kNearM - p.f) / (q.f - p.f);
      out[m++] = {p.r + t * (q.r - p.r), p.u + t * (q.u - p.u), kNearM};
    }
  }
  return m;
}

Snapped snap(const View& v, const CameraPoint& p) {
  const double x = (v.centre_x + v.focal_px * p.r / p.f) * kSub, y = (v.centre_y - v.focal_px * p.u / p.f) * kSub;
  return {static_cast<int64_t>(std::floor(x + 0.5)), static_cast<int64_t>(std::floor(y + 0.5))};
}

struct DepthPlane {
  double per_x = 0, per_y = 0, at_origin = 0;
  int32_t low = 0, high = 0;
};

/// 1/f over the picture, from n . p = d and p = f (x', y', 1).
DepthPlane depth_plane(const View& v, Vec3 normal, const CameraPoint* p, int n) {
  const double nx = static_cast<double>(normal.x), ny = static_cast<double>(normal.y), nz = static_cast<double>(normal.z);
  const double nr = nx * v.right[0] + ny * v.right[1] + nz * v.right[2];
  const double nu = nx * v.up[0] + ny * v.up[1] + nz * v.up[2];
  const double nf = nx * v.forward[0] + ny * v.forward[1] + nz * v.forward[2];
  const double d = nr * p[0].r + nu * p[0].u + nf * p[0].f;
  const double k = kDepthOne / d, q = k / v.focal_px;
  DepthPlane out;
  out.per_x = nr * q;
  out.per_y = -nu * q;
  out.at_origin = nf * k - v.centre_x * out.per_x - v.centre_y * out.per_y;
  double low = p[0].f, high = p[0].f;
  for (int i = 1; i < n; ++i) low = std::min(low, p[i].f), high = std::max(high, p[i].f);
  out.low = static_cast<int32_t>(kDepthOne / high);
  out.high = static_cast<int32_t>(kDepthOne / low);
  return out;
}

void fill_face(Canvas& canvas, RowRange rows, const DepthPlane& plane, uint32_t colour) {
  const double low = plane.low, high = plane.high;
  for (int row = rows.begin; row < rows.end; ++row) {
    const int left = canvas.left[static_cast<size_t>(row)], right = canvas.right[static_cast<size_t>(row)];
    if (left >= right) continue;
    const double base = plane.at_origin + plane.per_y * (row + 0.5);
    const auto first = static_cast<int32_t>(std::clamp(base + plane.per_x * (left + 0.5), low, high));
    const auto last = static_cast<int32_t>(std::clamp(base + plane.per_x * (right - 0.5), low, high));
    const int32_t step = right - left > 1 ? (last - first) / (right - left - 1) : 0;
    const size_t at = static_cast<size_t>(row) * static_cast<size_t>(canvas.width);
    int32_t* depth = &canvas.inverse_depth[at];
    uint32_t* out = &canvas.colour[at];
    int32_t z = first;
    for (int x = left; x < right; ++x, z += step) {
      if (z <= depth[x]) continue;
      depth[x] = z;
      out[x] = colour;
    }
  }
}

void remember_glow(Canvas& canvas, const View& v, const CameraPoint* p, int n, const Face& face) {
  CameraPoint c;
  for (int i = 0; i < n; ++i) c = {c.r + p[i].r / n, c.u + p[i].u / n, c.f + p[i].f / n};
  double radius = 0;
  for (int i = 0; i < n; ++i) radius = std::max(radius, std::fabs(p[i].r - c.r) + std::fabs(p[i].u - c.u));
  Glow g;
  g.x = static_cast<float>(v.centre_x + v.focal_px * c.r / c.f);
  g.y = static_cast<float>(v.centre_y - v.focal_px * c.u / c.f);
  g.radius_px = static_cast<float>(std::min(2.2 * radius * v.focal_px / c.f + 2.0, 40.0));
  g.inverse_depth = static_cast<int32_t>(kDepthOne / c.f);
  g.colour = face.colour;
  canvas.glows.push_back(g);
}

void draw_face(Canvas& canvas, const View& v, const Mesh& mesh, const Face& face) {
  const Vec3* vertex = &mesh.vertices[face.first];
  const double facing = static_cast<double>(face.normal.x) * (v.position[0] - static_cast<double>(vertex->x)) +
                        static_cast<double>(face.normal.y) * (v.position[1] - static_cast<double>(vertex->y)) +
                        static_cast<double>(face.normal.z) * (v.position[2] - static_cast<double>(vertex->z));
  if (!(facing > 0)) return;
  CameraPoint corner[kMaxCorners], clipped[kMaxCorners];
  for (int i = 0; i < face.count; ++i) {
    corner[i] = to_camera(v, static_cast<double>(vertex[i].x), static_cast<double>(vertex[i].y), static_cast<double>(vertex[i].z));
  }
  const int n = clip_near(corner, face.count, clipped);
  if (n < 3) return;
  Snapped p[kMaxCorners];
  for (int i = 0; i < n; ++i) p[i] = snap(v, clipped[i]);
  const RowRange rows = scan(canvas, p, n);
  if (rows.begin >= rows.end) return;
  const uint8_t tag = (face.flags & kEmissive) != 0 ? kTagEmissive : kTagBody;
  fill_face(canvas, rows, depth_plane(v, face.normal, clipped, n), pack(face.colour, tag));
  if ((face.flags & kGlow) != 0) remember_glow(canvas, v, clipped, n, face);
}

bool may_be_seen(const View& v, const Body& body) {
  const CameraPoint c =
      to_camera(v, static_cast<double>(body.centre.x), static_cast<double>(body.centre.y), static_cast<double>(body.centre.z));
  const double r = static_cast<double>(body.radius);
  if (c.f + r < kNearM) return false;
  // Distance to the side planes of the frustum, whose normals are (focal, half width).
  const double half = v.width * 0.5, norm = std::sqrt(half * half + v.focal_px * v.focal_px);
  return v.focal_px * std::fabs(c.r) - half * c.f < r * norm;
}

}  // namespace

View make_view(const Camera& camera) {
  const double cy = det_cos(camera.yaw_rad), sy = det_sin(camera.yaw_rad);
  const double cp = det_cos(camera.pitch_rad), sp = det_sin(camera.pitch_rad);
  View v{};
  v.right[0] = sy, v.right[1] = -cy, v.right[2] = 0;
  v.forward[0] = cp * cy, v.forward[1] = cp * sy, v.forward[2] = sp;
  v.up[0] = -sp * cy, v.up[1] = -sp * sy, v.up[2] = cp;
  v.position[0] = camera.forward_m, v.position[1] = 0, v.position[2] = camera.height_m;
  v.focal_px = camera.width * 0.5 * det_cos(camera.fov_rad * 0.5) / det_sin(camera.fov_rad * 0.5);
  v.centre_x = camera.width * 0.5, v.centre_y = camera.height * 0.5;
  v.width = camera.width, v.height = camera.height;
  return v;
}

CameraPoint to_camera(const View& v, double x, double y, double z) {
  const double dx = x - v.position[0], dy = y - v.position[1], dz = z - v.position[2];
  return {dx * v.right[0] + dy * v.right[1] + dz * v.right[2], dx * v.up[0] + dy * v.up[1] + dz * v.up[2],
          dx * v.forward[0] + dy * v.forward[1] + dz * v.forward[2]};
}

GroundRow ground_row(const View& v, int row) {
  const double up = (v.centre_y - (row + 0.5)) / v.focal_px;
  const double fall = v.forward[2] + v.up[2] * up;  // the camera has no roll: right[2] is 0 and the row decides
  GroundRow g;
  if (!(fall < -1e-4) || !(v.position[2] > 0)) return g;
  g.seen = true;
  g.depth_m = v.position[2] / -fall;
  const double side = (0.5 - v.centre_x) / v.focal_px;
  g.x = v.position[0] + g.depth_m * (v.forward[0] + v.up[0] * up + v.right[0] * side);
  g.y = v.position[1] + g.depth_m * (v.forward[1] + v.up[1] * up + v.right[1] * side);
  g.step_x = g.depth_m * v.right[0] / v.focal_px;
  g.step_y = g.depth_m * v.right[1] / v.focal_px;
  return g;
}

void Canvas::clear(const View& v) {
  width = v.width, height = v.height;
  const auto w = static_cast<size_t>(width), h = static_cast<size_t>(height);
  colour.resize(w * h);
  inverse_depth.resize(w * h);
  left.resize(h);
  right.resize(h);
  glows.clear();
  for (size_t row = 0; row < h; ++row) {
    const GroundRow g = ground_row(v, static_cast<int>(row));
    const uint32_t what = g.seen ? pack({}, kTagGround | static_cast<uint8_t>(Ground::kGrass)) : 0;
    const int32_t depth = g.seen ? static_cast<int32_t>(std::min(kDepthOne / g.depth_m, 2e9)) : 0;
    std::fill_n(colour.begin() + static_cast<ptrdiff_t>(row * w), w, what);
    std::fill_n(inverse_depth.begin() + static_cast<ptrdiff_t>(row * w), w, depth);
  }
}

void paint_ground(Canvas& canvas, const View& v, std::span<const Vec2> corners, Ground kind, bool shadow) {
  if (corners.size() < 3 || corners.size() + 2 > kMaxCorners) return;
  CameraPoint corner[kMaxCorners], clipped[kMaxCorners];
  int n = 0;
  for (const Vec2 c : corners) {
    if (!(std::fabs(c.x) < 1e5) || !(std::fabs(c.y) < 1e5)) return;
    corner[n++] = to_camera(v, c.x, c.y, 0);
  }
  n = clip_near(corner, n, clipped);
  if (n < 3) return;
  Snapped p[kMaxCorners];
  for (int i = 0; i < n; ++i) p[i] = snap(v, clipped[i]);
  const RowRange rows = scan(canvas, p, n);
  const uint32_t tag = pack({}, static_cast<uint8_t>(kTagGround | static_cast<uint8_t>(kind)));
  for (int row = rows.begin; row < rows.end; ++row) {
    const int left = canvas.left[static_cast<size_t>(row)], right = canvas.right[static_cast<size_t>(row)];
    uint32_t* out = &canvas.colour[static_cast<size_t>(row) * static_cast<size_t>(canvas.width)];
    if (left >= right || (out[0] >> 24 & kTagGround) == 0) continue;
    if (shadow) {
      for (int x = left; x < right; ++x) out[x] |= pack({}, kTagShadow);
    } else {
      std::fill(out + left, out + right, tag);
    }
  }
}

void draw_bodies(Canvas& canvas, const View& v, const Mesh& mesh) {
  for (const Body& body : mesh.bodies) {
    if (!may_be_seen(v, body)) continue;
    for (uint32_t i = 0; i < body.face_count; ++i) draw_face(canvas, v, mesh, mesh.faces[body.first_face + i]);
  }
}

}  // namespace slip::sim
