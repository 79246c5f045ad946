// SPDX-License-Identifier: Apache-2.0
// The cameras in the largest grid that fits, each named; over the three simulated ones the planned path on the ground, the true
// one and the waypoints. Each is drawn into a picture of its own and copied, which clips the path.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "picture/parts.h"
#include "picture/shapes.h"
#include "picture/text.h"
#include "sim/render/render.h"

namespace slip::picture {

using sim::Vec2;

namespace {

bool whole(const Image& i) {
  return i.width > 0 && i.height > 0 && i.rgb.size() == size_t{3} * static_cast<size_t>(i.width) * static_cast<size_t>(i.height);
}

void draw_path_in_camera(Canvas& canvas, const PictureInput& in, const sim::Camera& camera) {
  // project() refuses what lies outside the picture; a strip needs those corners too, so the same camera with a sensor five
  // times as large is asked.
  constexpr int kWider = 5;
  sim::Camera wide = camera;
  wide.width *= kWider, wide.height *= kWider;
  wide.fov_rad = 2 * std::atan(kWider * std::tan(camera.fov_rad / 2));
  const double scale = double{1} * canvas.width() / camera.width;
  const Place place = [&](Vec2 p) -> std::optional<Point> {
    const auto pixel = sim::project(wide, sim::Pose{}, p.x, p.y, 0);
    if (!pixel) return std::nullopt;
    const auto left = kWider / 2 * camera.width, above = kWider / 2 * camera.height;  // whole cameras
    return Point{(pixel->x - left) * scale, (pixel->y - above) * scale};
  };
  Coverage coverage(canvas.width(), canvas.height());
  const auto path = sample_path(in.path.empty() ? in.waypoints : in.path);
  add_strip(coverage, path, -0.8, 0.8, 45, place);
  coverage.paint(canvas, kPlan, 0.46);
  for (const double side : {-0.8, 0.72}) add_strip(coverage, path, side, side + 0.08, 60, place);
  coverage.paint(canvas, kBright, 0.8);
  const auto truth = sample_path(in.truth_path);
  for (size_t i = 1; i < truth.size(); ++i) {
    const auto a = place(truth[i - 1].at), b = place(truth[i].at);
    if (a && b) canvas.line(*a, *b, 2.6, kTruth);
  }
  draw_waypoints(canvas, in.waypoints, 6.5, 3.8, place);
  const bool planned = !in.path.empty() || !in.waypoints.empty();
  if (planned && (path.empty() || path.back().way_m < 1) && camera.yaw_rad == 0) {
    const std::string_view note = "the plan stands still";
    const int w = width_of(note, kText) + 20, x = (canvas.width() - w) / 2, y = canvas.height() - 42;
    canvas.rectangle(x, y, w, 26, kDark, 0.8);
    write(canvas, x + 10, y + 6, note, kPlan);
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

int draw_cameras(Canvas& canvas, const PictureInput& in, Box area) {
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
    Image cell = resize_bicubic(image, w, h);
    Canvas pen(cell);
    if (simulated) draw_path_in_camera(pen, in, sim::front_cameras()[i]);
    static constexpr std::array<std::string_view, 3> kNames = {"front left", "front", "front right"};
    std::string name = "camera";
    if (images.size() == 3)
      name = kNames[i];
    else if (images.size() > 1)
      name.append(" ").append(std::to_string(i + 1));
    pen.rectangle(0, 0, width_of(name, kText) + 14, 22, kDark, 0.7);
    write(pen, 7, 4, name, kBright);
    canvas.blit(cell, x, y);
  }
  return static_cast<int>(g.rows * g.cell_h + 8.0 * (g.rows - 1));
}

}  // namespace slip::picture
