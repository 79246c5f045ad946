// SPDX-License-Identifier: Apache-2.0
// Shapes in the picture: polygons whose coverage is summed before it is blended once, the strip beside a path, numbered
// waypoints. A path on the ground is a strip of quadrilaterals; summed, their shared edges neither show nor count twice.
#pragma once
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "image/canvas.h"
#include "sim/scene.h"

namespace slip::picture {

/// How much of each pixel some polygons cover; the sum is painted in one go.
class Coverage {
 public:
  Coverage(int width, int height)
      : width_(width), height_(height), sum_(static_cast<size_t>(width) * static_cast<size_t>(height)) {}

  /// Even-odd; corners in pixels, all finite. Four scan lines per row, exact along a row.
  void add(std::span<const Point> corners, double strength = 1);

  /// Blends what was added, and forgets it.
  void paint(Canvas& canvas, Colour c, double opacity = 1);

 private:
  void scan(std::span<const Point> corners, int row, double y, double strength);

  int width_, height_, first_ = height_, last_ = 0;
  std::vector<float> sum_;
  std::vector<double> crossings_;
};

/// Metres in the ego frame to a pixel, which may lie outside the canvas; nothing where none belongs to it.
using Place = std::function<std::optional<Point>(sim::Vec2)>;

/// A point of a path, the unit vector to its left, and the way from the start.
struct PathSample {
  sim::Vec2 at, left;
  double way_m = 0;
};

/// The path from the ego through the usable points, every 0.25 m (more when longer than 150 m).
std::vector<PathSample> sample_path(std::span<const sim::Vec2> points);

/// Adds the strip between `right_m` and `left_m` beside the path; its strength falls to a quarter towards `fade_m`.
void add_strip(Coverage& coverage, std::span<const PathSample> path, double right_m, double left_m, double fade_m,
               const Place& place);

/// A numbered dot per waypoint, nearer over farther. A label stands at the right or the left of its dot, or nowhere when both
/// places are taken; the last waypoint chooses first, then the others in order.
void draw_waypoints(Canvas& canvas, std::span<const sim::Vec2> waypoints, double radius_near, double radius_at_40_m,
                    const Place& place);

}  // namespace slip::picture
