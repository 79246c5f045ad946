// SPDX-License-Identifier: Apache-2.0
// How the shapes are filled: a polygon by scan lines, four to a row of pixels, each exact along the row.
#include "picture/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "picture/parts.h"
#include "picture/text.h"

namespace slip::picture {

using sim::Vec2;

namespace {

constexpr int kSubRows = 4;

/// A waypoint that lies on the canvas.
struct Dot {
  Point at;
  double radius = 0;
  std::string label;
};

bool overlap(const Box& a, const Box& b) {  // or closer than two pixels
  return a.x < b.x + b.w + 2 && b.x < a.x + a.w + 2 && a.y < b.y + b.h + 2 && b.y < a.y + a.h + 2;
}

/// Above each dot, at its right or left; over another dot only where both places have one, never over another label.
void draw_labels(Canvas& canvas, std::span<const Dot> dots) {
  std::vector<Box> taken;
  for (const Dot& d : dots) {
    const int w = width_of(d.label, kText) + 8, h = 18;
    const int y = std::clamp(static_cast<int>(d.at.y) - h - 3, 0, std::max(0, canvas.height() - h));
    const auto free_of_dots = [&](const Box& box) {
      return std::none_of(dots.begin(), dots.end(), [&](const Dot& o) {
        return &o != &d && o.at.x + o.radius > box.x && o.at.x - o.radius < box.x + w && o.at.y + o.radius > box.y &&
               o.at.y - o.radius < box.y + h;
      });
    };
    std::optional<Box> place;
    for (const double x : {d.at.x + d.radius + 5, d.at.x - d.radius - 5 - w}) {
      const Box box{static_cast<int>(x), y, w, h};
      if (x < 0 || box.x + w > canvas.width()) continue;
      if (std::any_of(taken.begin(), taken.end(), [&](const Box& other) { return overlap(box, other); })) continue;
      if (!place || (free_of_dots(box) && !free_of_dots(*place))) place = box;
    }
    if (!place) continue;
    taken.push_back(*place);
    canvas.rectangle(place->x, place->y, w, h, kDark, 0.78);
    write(canvas, place->x + 4, place->y + 2, d.label, kBright);
  }
}

}  // namespace

void Coverage::add(std::span<const Point> corners, double strength) {
  double low = 1e300, high = -1e300;
  for (const Point& p : corners) low = std::min(low, p.y), high = std::max(high, p.y);
  const int begin = static_cast<int>(std::clamp(std::floor(low), 0.0, double{1} * height_));
  const int end = static_cast<int>(std::clamp(std::ceil(high), 0.0, double{1} * height_));
  for (int y = begin; y < end; ++y) {
    for (int sub = 0; sub < kSubRows; ++sub) scan(corners, y, y + (sub + 0.5) / kSubRows, strength / kSubRows);
  }
  if (end > begin) first_ = std::min(first_, begin), last_ = std::max(last_, end);
}

void Coverage::paint(Canvas& canvas, Colour c, double opacity) {
  for (int y = first_; y < last_; ++y) {
    for (int x = 0; x < width_; ++x) {
      float& sum = sum_[static_cast<size_t>(y) * static_cast<size_t>(width_) + static_cast<size_t>(x)];
      if (sum > 0) canvas.rectangle(x, y, 1, 1, c, opacity * std::min(1.0F, sum));
      sum = 0;
    }
  }
  first_ = height_, last_ = 0;
}

void Coverage::scan(std::span<const Point> corners, int row, double y, double strength) {
  crossings_.clear();
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point a = corners[i], b = corners[(i + 1) % corners.size()];
    if ((a.y <= y) != (b.y <= y)) crossings_.push_back(a.x + (y - a.y) / (b.y - a.y) * (b.x - a.x));
  }
  std::sort(crossings_.begin(), crossings_.end());
  for (size_t i = 0; i + 1 < crossings_.size(); i += 2) {
    const double from = std::clamp(crossings_[i], 0.0, double{1} * width_);
    const double to = std::clamp(crossings_[i + 1], 0.0, double{1} * width_);
    float* sums = &sum_[static_cast<size_t>(row) * static_cast<size_t>(width_)];
    for (int x = static_cast<int>(from); x < to; ++x)
      sums[x] += static_cast<float>(strength * (std::min(to, x + 1.0) - std::max(from, double{1} * x)));
  }
}

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

void add_strip(Coverage& coverage, std::span<const PathSample> path, double right_m, double left_m, double fade_m,
               const Place& place) {
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
    if (visible) coverage.add(quad, std::clamp(1 - path[i].way_m / fade_m, 0.25, 1.0));
  }
}

void draw_waypoints(Canvas& canvas, std::span<const Vec2> waypoints, double radius_near, double radius_at_40_m,
                    const Place& place) {
  std::vector<Dot> dots;
  for (size_t i = 0; i < waypoints.size(); ++i) {
    if (!usable(waypoints[i])) continue;
    const std::optional<Point> p = place(waypoints[i]);
    if (!p || p->x < 0 || p->y < 0 || p->x >= canvas.width() || p->y >= canvas.height()) continue;
    const double share = std::min(1.0, std::hypot(waypoints[i].x, waypoints[i].y) / 40);
    dots.push_back({*p, radius_near + share * (radius_at_40_m - radius_near), std::to_string(i + 1) + " s"});
  }
  for (auto d = dots.rbegin(); d != dots.rend(); ++d) {
    canvas.disc(d->at, d->radius + 2, kDark);
    canvas.disc(d->at, d->radius, kBright);
    canvas.disc(d->at, d->radius - 2, kPlan);
  }
  if (dots.size() > 1) std::rotate(dots.begin(), dots.end() - 1, dots.end());
  draw_labels(canvas, dots);
}

}  // namespace slip::picture
