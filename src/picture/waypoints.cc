// SPDX-License-Identifier: Apache-2.0
// Waypoints, over a camera and in the plan from above.
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "picture/parts.h"

namespace slip::picture {

using sim::Vec2;

namespace {

/// A waypoint that lies on the pen.
struct Dot {
  Point at;
  double radius = 0;
  std::string label;
};

bool overlap(const Box& a, const Box& b) {  // or closer than two pixels
  return a.x < b.x + b.w + 2 && b.x < a.x + a.w + 2 && a.y < b.y + b.h + 2 && b.y < a.y + a.h + 2;
}

/// Above each dot, at its right or left; over another dot only where both places have one, never over another label.
void draw_labels(Pen& pen, std::span<const Dot> dots) {
  std::vector<Box> taken;
  for (const Dot& d : dots) {
    const int w = pen.width_of(d.label) + 8, h = 18;
    const int y = std::clamp(static_cast<int>(d.at.y) - h - 3, 0, std::max(0, pen.height() - h));
    const auto free_of_dots = [&](const Box& box) {
      return std::none_of(dots.begin(), dots.end(), [&](const Dot& o) {
        return &o != &d && o.at.x + o.radius > box.x && o.at.x - o.radius < box.x + w && o.at.y + o.radius > box.y &&
               o.at.y - o.radius < box.y + h;
      });
    };
    std::optional<Box> place;
    for (const double x : {d.at.x + d.radius + 5, d.at.x - d.radius - 5 - w}) {
      const Box box{static_cast<int>(x), y, w, h};
      if (x < 0 || box.x + w > pen.width()) continue;
      if (std::any_of(taken.begin(), taken.end(), [&](const Box& other) { return overlap(box, other); })) continue;
      if (!place || (free_of_dots(box) && !free_of_dots(*place))) place = box;
    }
    if (!place) continue;
    taken.push_back(*place);
    pen.rectangle(place->x, place->y, w, h, kDark, 0.78);
    pen.write(place->x + 4, place->y + 2, d.label, kBright);
  }
}

}  // namespace

void draw_waypoints(Pen& pen, std::span<const Vec2> waypoints, double radius_near, double radius_at_40_m, const Place& place) {
  std::vector<Dot> dots;
  for (size_t i = 0; i < waypoints.size(); ++i) {
    if (!usable(waypoints[i])) continue;
    const std::optional<Point> p = place(waypoints[i]);
    if (!p || p->x < 0 || p->y < 0 || p->x >= pen.width() || p->y >= pen.height()) continue;
    const double share = std::min(1.0, std::hypot(waypoints[i].x, waypoints[i].y) / 40);
    dots.push_back({*p, radius_near + share * (radius_at_40_m - radius_near), std::to_string(i + 1) + " s"});
  }
  for (auto d = dots.rbegin(); d != dots.rend(); ++d) {
    pen.disc(d->at, d->radius + 2, kDark);
    pen.disc(d->at, d->radius, kBright);
    pen.disc(d->at, d->radius - 2, kPlan);
  }
  if (dots.size() > 1) std::rotate(dots.begin(), dots.end() - 1, dots.end());
  draw_labels(pen, dots);
}

}  // namespace slip::picture
