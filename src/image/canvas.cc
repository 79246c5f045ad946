// SPDX-License-Identifier: Apache-2.0
// Drawing: every shape but the rectangle is a distance function, and a pixel's coverage is how far its centre lies inside the
// border, clamped to one pixel. Slower than scan conversion and shorter; a picture is drawn once.
#include "image/canvas.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "image/canvas_font.h"

namespace slip {
namespace {

/// A pixel range [begin, end) inside [0, limit); double arithmetic so that far-away coordinates cannot overflow.
struct Range {
  int begin, end;
};
Range clip(double from, double to, int limit) {
  const auto to_int = [limit](double v) { return static_cast<int>(std::clamp(v, 0.0, static_cast<double>(limit))); };
  return {to_int(std::floor(from)), to_int(std::ceil(to))};
}

uint8_t mix(uint8_t below, uint8_t above, double share) {
  return static_cast<uint8_t>(std::lround(below + (above - below) * share));
}

}  // namespace

Image blank_image(int width, int height, Colour colour) {
  SLIP_CHECK(width > 0 && height > 0, "pictures are made with sizes of our own");
  Image image{width, height, std::vector<uint8_t>(size_t{3} * width * height)};
  Canvas(image).rectangle(0, 0, width, height, colour);
  return image;
}

Colour Canvas::at(int x, int y) const {
  SLIP_CHECK(x >= 0 && y >= 0 && x < width() && y < height(), "a pixel is read inside the image");
  const uint8_t* p = &image_.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(width()) + static_cast<size_t>(x))];
  return {p[0], p[1], p[2]};
}

void Canvas::blend(int x, int y, Colour c, double coverage) {
  uint8_t* p = &image_.rgb[3 * (static_cast<size_t>(y) * static_cast<size_t>(width()) + static_cast<size_t>(x))];
  const double share = std::clamp(coverage, 0.0, 1.0);
  p[0] = mix(p[0], c.r, share);
  p[1] = mix(p[1], c.g, share);
  p[2] = mix(p[2], c.b, share);
}

void Canvas::rectangle(int x, int y, int width, int height, Colour c, double opacity) {
  const Range xs = clip(x, double{1} * x + width, image_.width), ys = clip(y, double{1} * y + height, image_.height);
  for (int py = ys.begin; py < ys.end; ++py)
    for (int px = xs.begin; px < xs.end; ++px) blend(px, py, c, opacity);
}

void Canvas::outline(int x, int y, int width, int height, Colour c, int thickness) {
  const int t = std::min({thickness, width, height});
  rectangle(x, y, width, t, c);
  rectangle(x, y + height - t, width, t, c);
  rectangle(x, y, t, height, c);
  rectangle(x + width - t, y, t, height, c);
}

/// `distance(x, y)`: how far outside the shape a point lies (negative inside); the box bounds the shape.
template <class Distance>
void Canvas::fill_near(double x0, double y0, double x1, double y1, Colour c, double opacity, Distance distance) {
  if (!std::isfinite(x0) || !std::isfinite(y0) || !std::isfinite(x1) || !std::isfinite(y1)) return;
  const Range xs = clip(x0 - 1, x1 + 1, width()), ys = clip(y0 - 1, y1 + 1, height());
  for (int y = ys.begin; y < ys.end; ++y) {
    for (int x = xs.begin; x < xs.end; ++x) {
      const double covered = 0.5 - distance(x + 0.5, y + 0.5);
      if (covered > 0) blend(x, y, c, std::min(covered, 1.0) * opacity);
    }
  }
}

void Canvas::line(Point a, Point b, double thickness, Colour c, double opacity) {
  const double dx = b.x - a.x, dy = b.y - a.y, length2 = dx * dx + dy * dy, r = thickness / 2;
  fill_near(std::min(a.x, b.x) - r, std::min(a.y, b.y) - r, std::max(a.x, b.x) + r, std::max(a.y, b.y) + r, c, opacity,
            [&](double x, double y) {
              const double along = length2 > 0 ? std::clamp(((x - a.x) * dx + (y - a.y) * dy) / length2, 0.0, 1.0) : 0;
              return std::hypot(x - a.x - along * dx, y - a.y - along * dy) - r;
            });
}

void Canvas::polyline(std::span<const Point> points, double thickness, Colour c, double opacity) {
  for (size_t i = 1; i < points.size(); ++i) line(points[i - 1], points[i], thickness, c, opacity);
}

void Canvas::disc(Point centre, double radius, Colour c, double opacity) { line(centre, centre, 2 * radius, c, opacity); }

void Canvas::circle(Point o, double radius, double thickness, Colour c, double opacity) {
  const double outer = radius + thickness / 2;
  fill_near(o.x - outer, o.y - outer, o.x + outer, o.y + outer, c, opacity,
            [&](double x, double y) { return std::abs(std::hypot(x - o.x, y - o.y) - radius) - thickness / 2; });
}

void Canvas::blit(const Image& picture, int x, int y) {
  const Range xs = clip(x, double{1} * x + picture.width, width()), ys = clip(y, double{1} * y + picture.height, height());
  if (xs.end <= xs.begin) return;
  const size_t bytes = size_t{3} * static_cast<size_t>(xs.end - xs.begin);
  for (int py = ys.begin; py < ys.end; ++py) {
    const size_t from =
        size_t{3} * (static_cast<size_t>(py - y) * static_cast<size_t>(picture.width) + static_cast<size_t>(xs.begin - x));
    const size_t to = size_t{3} * (static_cast<size_t>(py) * static_cast<size_t>(width()) + static_cast<size_t>(xs.begin));
    std::memcpy(&image_.rgb[to], &picture.rgb[from], bytes);
  }
}

void Canvas::blit(const Image& picture, int x, int y, int width, int height) { blit(resize_bicubic(picture, width, height), x, y); }

int Canvas::text(int x, int y, std::string_view text, Colour c, int scale) {
  for (const char character : text) {
    const image_detail::Glyph glyph = image_detail::glyph_of(static_cast<unsigned char>(character));
    for (int row = 0; row < 8; ++row)
      for (int column = 0; column < 5; ++column)
        if (glyph[static_cast<size_t>(row)] >> (4 - column) & 1)
          rectangle(x + column * scale, y + (row + 1) * scale, scale, scale, c);
    x += kGlyphWidth * scale;
  }
  return x;
}

}  // namespace slip
