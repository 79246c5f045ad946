// SPDX-License-Identifier: Apache-2.0
// See pen.h.
#include "picture/pen.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>

namespace slip::picture {

namespace {

constexpr double kFarthestPixel = 1e6, kTurn = 6.283185307179586;

bool drawable(const Point& p) { return std::abs(p.x) < kFarthestPixel && std::abs(p.y) < kFarthestPixel; }  // false for NaN too

/// Twice, with the sign of the way round.
double area_of(std::span<const Point> corners) {
  double sum = 0;
  Point a = corners.back();
  for (const Point& b : corners) sum += a.x * b.y - a.y * b.x, a = b;
  return sum;
}

}  // namespace

Pen::Pen(cairo_t* c, int width, int height) : c_(c), width_(width), height_(height) {
  cairo_set_line_cap(c, CAIRO_LINE_CAP_ROUND);
  cairo_set_line_join(c, CAIRO_LINE_JOIN_ROUND);
  cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
  // Not the desktop's: whole pixels from letter to letter in both formats, so that what is measured is what is drawn.
  cairo_font_options_t* options = cairo_font_options_create();
  cairo_font_options_set_antialias(options, CAIRO_ANTIALIAS_GRAY);
  cairo_font_options_set_hint_metrics(options, CAIRO_HINT_METRICS_ON);
  cairo_set_font_options(c, options);
  cairo_font_options_destroy(options);
}

void Pen::ink(Colour c, double opacity) { cairo_set_source_rgba(c_, c.r / 255.0, c.g / 255.0, c.b / 255.0, opacity); }

void Pen::inside(const Box& box, const std::function<void(Pen&)>& draw) {
  cairo_save(c_);
  cairo_translate(c_, box.x, box.y);
  cairo_rectangle(c_, 0, 0, box.w, box.h);
  cairo_clip(c_);
  Pen pen(c_, box.w, box.h);
  draw(pen);
  cairo_restore(c_);
}

void Pen::rectangle(int x, int y, int width, int height, Colour c, double opacity) {
  cairo_rectangle(c_, x, y, width, height);
  fill(c, opacity);
}

void Pen::outline(int x, int y, int width, int height, Colour c, int thickness) {
  const double half = thickness / 2.0;
  cairo_rectangle(c_, x + half, y + half, width - thickness, height - thickness);
  cairo_set_line_join(c_, CAIRO_LINE_JOIN_MITER);
  cairo_set_line_width(c_, thickness);
  ink(c, 1);
  cairo_stroke(c_);
  cairo_set_line_join(c_, CAIRO_LINE_JOIN_ROUND);
}

void Pen::line(std::span<const Point> points, double thickness, Colour c, double opacity) {
  for (const Point& p : points)
    if (drawable(p)) cairo_line_to(c_, p.x, p.y);  // the first begins the path
  cairo_set_line_width(c_, thickness);
  ink(c, opacity);
  cairo_stroke(c_);
}

void Pen::disc(Point centre, double radius, Colour c, double opacity) {
  if (!drawable(centre) || !(radius > 0 && radius < kFarthestPixel)) return;
  cairo_arc(c_, centre.x, centre.y, radius, 0, kTurn);
  fill(c, opacity);
}

void Pen::circle(Point centre, double radius, double thickness, Colour c) {
  if (!drawable(centre)) return;
  cairo_arc(c_, centre.x, centre.y, radius, 0, kTurn);
  cairo_set_line_width(c_, thickness);
  ink(c, 1);
  cairo_stroke(c_);
}

void Pen::add_polygon(std::span<const Point> corners) {
  if (corners.size() < 3 || !std::all_of(corners.begin(), corners.end(), drawable)) return;
  // All the same way round: two that overlap would otherwise leave a hole.
  const bool turned = area_of(corners) < 0;
  for (size_t i = 0; i < corners.size(); ++i) {
    const Point& p = corners[turned ? corners.size() - 1 - i : i];
    cairo_line_to(c_, p.x, p.y);
  }
  cairo_close_path(c_);
  cairo_new_sub_path(c_);
}

void Pen::fill(Colour c, double opacity) {
  ink(c, opacity);
  cairo_fill(c_);
}

void Pen::fill(Colour c, std::span<const RowOpacity> rows) {
  if (rows.size() < 2 || rows.front().y == rows.back().y) return fill(c, rows.empty() ? 1 : rows.front().opacity);
  const double first = rows.front().y, last = rows.back().y;
  cairo_pattern_t* pattern = cairo_pattern_create_linear(0, first, 0, last);
  for (const RowOpacity& r : rows)
    cairo_pattern_add_color_stop_rgba(pattern, (r.y - first) / (last - first), c.r / 255.0, c.g / 255.0, c.b / 255.0, r.opacity);
  cairo_set_source(c_, pattern);
  cairo_pattern_destroy(pattern);
  cairo_fill(c_);
}

void Pen::image(const Image& image, int x, int y) {
  cairo_surface_t* pixels = cairo_image_surface_create(CAIRO_FORMAT_RGB24, image.width, image.height);
  if (uint8_t* to = cairo_image_surface_get_data(pixels)) {  // null where there was no memory; the context says so
    const auto stride = static_cast<size_t>(cairo_image_surface_get_stride(pixels));
    const uint8_t* from = image.rgb.data();
    for (int row = 0; row < image.height; ++row, to += stride) {
      for (size_t i = 0; i < static_cast<size_t>(image.width); ++i, from += 3) {
        const uint32_t pixel = uint32_t{from[0]} << 16 | uint32_t{from[1]} << 8 | from[2];
        std::memcpy(to + 4 * i, &pixel, sizeof(pixel));
      }
    }
    cairo_surface_mark_dirty(pixels);
  }
  cairo_set_source_surface(c_, pixels, x, y);
  cairo_surface_destroy(pixels);
  cairo_paint(c_);  // a filled rectangle would be a repeated pattern in an SVG, whose edges show the opposite side
}

void Pen::write(int x, int y, std::string_view text, Colour c, int size) {
  cairo_set_font_size(c_, size);
  cairo_move_to(c_, x, y + std::round(0.86 * size));  // a capital stands 0.73 high, and has 0.13 above it
  ink(c, 1);
  cairo_show_text(c_, std::string(text).c_str());
  cairo_new_path(c_);
}

void Pen::write_right(int right, int y, std::string_view text, Colour c, int size) {
  write(right - width_of(text, size), y, text, c, size);
}

int Pen::width_of(std::string_view text, int size) const {
  cairo_set_font_size(c_, size);
  cairo_text_extents_t extents;
  cairo_text_extents(c_, std::string(text).c_str(), &extents);
  return static_cast<int>(std::ceil(extents.x_advance));
}

}  // namespace slip::picture
