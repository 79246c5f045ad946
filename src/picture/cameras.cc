// SPDX-License-Identifier: Apache-2.0
// The cameras in the largest grid that fits, each named; over the three simulated ones the planned path on the ground, the true
// one and the waypoints.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "picture/parts.h"
#include "picture/text.h"
#include "sim/render/render.h"

namespace slip::picture {

using sim::Vec2;

namespace {

bool whole(const Image& i) {
  return i.width > 0 && i.height > 0 && i.rgb.size() == size_t{3} * static_cast<size_t>(i.width) * static_cast<size_t>(i.height);
}

/// A point of a path, the unit vector to its left, and the way from the start.
struct PathSample {
  Vec2 at, left;
  double way_m = 0;
};

/// The path from the ego through the usable points, every 0.25 m (more when longer than 150 m).
std::vector<PathSample> sample_path(std::span<const Vec2> points) {
  std::vector<Vec2> kept{Vec2{}};
  double total = 0;
  for (const Vec2& p : points) {
    const double step = std::hypot(p.x - kept.back().x, p.y - kept.back().y);
    if (!usable(p) || step < 0.05) continue;
    kept.push_back(p), total += step;
  }
  std::vector<PathSample> out;
  const double spacing = std::max(0.25, total / 600);
  double way = 0;
  for (size_t i = 1; i < kept.size(); ++i) {
    const Vec2 a = kept[i - 1], b = kept[i];
    const double length = std::hypot(b.x - a.x, b.y - a.y);
    const int n = std::max(1, static_cast<int>(length / spacing));
    for (int k = i == 1 ? 0 : 1; k <= n; ++k) {
      const double t = double{1} * k / n;
      out.push_back({{a.x + t * (b.x - a.x), a.y + t * (b.y - a.y)}, {}, way + t * length});
    }
    way += length;
  }
  for (size_t i = 0; i < out.size(); ++i) {  // over two neighbours each way, which rounds the corners of the strip
    const Vec2 a = out[i < 2 ? 0 : i - 2].at, b = out[std::min(i + 2, out.size() - 1)].at;
    const double length = std::max(1e-9, std::hypot(b.x - a.x, b.y - a.y));
    out[i].left = {(a.y - b.y) / length, (b.x - a.x) / length};
  }
  return out;
}

/// Adds the strip between `right_m` and `left_m` beside the path, as far as it can be placed.
void add_strip(Pen& pen, std::span<const PathSample> path, double right_m, double left_m, const Place& place) {
  for (size_t i = 1; i < path.size(); ++i) {
    std::array<Point, 4> quad;
    bool visible = true;
    for (size_t k = 0; k < 4 && visible; ++k) {
      const PathSample& s = path[k == 0 || k == 3 ? i - 1 : i];
      const double aside = k < 2 ? right_m : left_m;
      const std::optional<Point> p = place(Vec2{s.at.x + aside * s.left.x, s.at.y + aside * s.left.y});
      visible = p.has_value();
      if (p) quad[k] = *p;
    }
    if (visible) pen.add_polygon(quad);
  }
}

/// Towards `fade_m` the ground before the camera becomes a quarter as opaque, by the rows where it is seen.
std::vector<RowOpacity> fading(double opacity, double fade_m, double yaw_rad, const Place& place) {
  std::vector<RowOpacity> rows;
  for (int i = 1; i <= 15; ++i) {
    const double share = 0.05 * i, ahead = share * fade_m;
    if (const auto p = place({ahead * std::cos(yaw_rad), ahead * std::sin(yaw_rad)})) rows.push_back({p->y, opacity * (1 - share)});
  }
  return rows;
}

/// project() refuses what lies outside the picture; a strip needs those corners too, so the same camera with a sensor five times as large is
/// asked.
Place place_in(const sim::Camera& camera, double scale) {
  constexpr int kWider = 5;
  sim::Camera wide = camera;
  wide.width *= kWider, wide.height *= kWider;
  wide.fov_rad = 2 * std::atan(kWider * std::tan(camera.fov_rad / 2));
  return [=](Vec2 p) -> std::optional<Point> {
    const auto pixel = sim::project(wide, sim::Pose{}, p.x, p.y, 0);
    if (!pixel) return std::nullopt;
    const auto left = kWider / 2 * camera.width, above = kWider / 2 * camera.height;  // whole cameras
    return Point{(pixel->x - left) * scale, (pixel->y - above) * scale};
  };
}

void draw_path_in_camera(Pen& pen, const PictureInput& in, const sim::Camera& camera) {
  const Place place = place_in(camera, double{1} * pen.width() / camera.width);
  const auto path = sample_path(in.path.empty() ? in.waypoints : in.path);
  add_strip(pen, path, -0.8, 0.8, place);
  pen.fill(kPlan, fading(0.46, 45, camera.yaw_rad, place));
  for (const double side : {-0.8, 0.72}) add_strip(pen, path, side, side + 0.08, place);
  pen.fill(kBright, fading(0.8, 60, camera.yaw_rad, place));
  const auto truth = sample_path(in.truth_path);
  for (size_t i = 1; i < truth.size(); ++i) {
    const auto a = place(truth[i - 1].at), b = place(truth[i].at);
    if (a && b) pen.line(std::array{*a, *b}, 2.6, kTruth);
  }
  draw_waypoints(pen, in.waypoints, 6.5, 3.8, place);
  const bool planned = !in.path.empty() || !in.waypoints.empty();
  if (planned && (path.empty() || path.back().way_m < 1) && camera.yaw_rad == 0) {
    const std::string_view note = "the plan stands still";
    const int w = pen.width_of(note) + 20, x = (pen.width() - w) / 2, y = pen.height() - 42;
    pen.rectangle(x, y, w, 26, kDark, 0.8);
    pen.write(x + 10, y + 6, note, kPlan);
  }
}

struct CameraGrid {
  int columns = 1, rows = 1;
  double cell_w = 0, cell_h = 0;
};

/// The grid in which the pictures come out largest; cells as wide as the space allows.
CameraGrid camera_grid(std::span<const Image* const> images, int width, int height) {
  CameraGrid best;
  double best_area = -1;
  const int n = static_cast<int>(images.size());
  for (int columns = 1; columns <= n; ++columns) {
    CameraGrid g{columns, (n + columns - 1) / columns};
    g.cell_w = (width - 8.0 * (g.columns - 1)) / g.columns, g.cell_h = (height - 8.0 * (g.rows - 1)) / g.rows;
    double area = 0, tallest = 0;
    for (const Image* i : images) {
      const double s = std::min(g.cell_w / i->width, g.cell_h / i->height);
      area += s * i->width * s * i->height, tallest = std::max(tallest, s * i->height);
    }
    g.cell_h = std::max(60.0, std::ceil(tallest));
    if (area > best_area) best = g, best_area = area;
  }
  return best;
}

}  // namespace

int draw_cameras(Pen& pen, const PictureInput& in, Box area) {
  std::vector<const Image*> images;
  for (const Image& i : in.images)
    if (whole(i) && images.size() < 6) images.push_back(&i);
  if (images.empty()) return 0;
  const auto simulated_size = [](const Image* i) { return i->width == sim::Camera{}.width && i->height == sim::Camera{}.height; };
  const bool simulated = in.simulated_cameras && images.size() == 3 && std::all_of(images.begin(), images.end(), simulated_size);
  const CameraGrid g = camera_grid(images, area.w, area.h);
  for (size_t i = 0; i < images.size(); ++i) {
    const Image& image = *images[i];
    const double s = std::min(g.cell_w / image.width, g.cell_h / image.height);
    const int w = std::max(1, static_cast<int>(s * image.width)), h = std::max(1, static_cast<int>(s * image.height));
    const int column = static_cast<int>(i) % g.columns, row = static_cast<int>(i) / g.columns;
    const int x = area.x + static_cast<int>(column * (g.cell_w + 8) + (g.cell_w - w) / 2);
    const int y = area.y + static_cast<int>(row * (g.cell_h + 8) + (g.cell_h - h) / 2);
    pen.inside({x, y, w, h}, [&](Pen& cell) {
      cell.image(resize_bicubic(image, w, h), 0, 0);
      if (simulated) draw_path_in_camera(cell, in, sim::front_cameras()[i]);
      static constexpr std::array<std::string_view, 3> kNames = {"front left", "front", "front right"};
      std::string name = "camera";
      if (images.size() == 3)
        name = kNames[i];
      else if (images.size() > 1)
        name.append(" ").append(std::to_string(i + 1));
      cell.rectangle(0, 0, cell.width_of(name) + 14, 22, kDark, 0.7);
      cell.write(7, 4, name, kBright);
    });
  }
  return static_cast<int>(g.rows * g.cell_h + 8.0 * (g.rows - 1));
}

}  // namespace slip::picture
