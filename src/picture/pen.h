// SPDX-License-Identifier: Apache-2.0
// What the parts of the picture draw with: shapes of one colour, images and lines of text, by Cairo. Coordinates are pixels, y downwards, and
// the centre of the first pixel is (0.5, 0.5). A point that is not finite or farther than a million pixels draws nothing, because Cairo
// has 24 bits before the binary point.
#pragma once
#include <cairo.h>

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "image/image.h"

namespace slip::picture {

struct Colour {
  uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Colour&) const = default;
};
struct Point {
  double x = 0, y = 0;
};
struct Box {
  int x = 0, y = 0, w = 0, h = 0;
};

inline constexpr int kSmall = 11, kText = 14, kLarge = 18;  // sizes of text, pixels
inline constexpr int kLine = 19;                            // from line to line of kText

/// How opaque a row of pixels is.
struct RowOpacity {
  double y = 0, opacity = 1;
};

class Pen {
 public:
  /// A pen for the first `width` x `height` pixels of `c`, which must outlive it.
  Pen(cairo_t* c, int width, int height);
  int width() const { return width_; }
  int height() const { return height_; }

  /// Calls `draw` with a pen for the box alone: its corner is the origin, and nothing is drawn outside.
  void inside(const Box& box, const std::function<void(Pen&)>& draw);

  void rectangle(int x, int y, int width, int height, Colour c, double opacity = 1);
  void outline(int x, int y, int width, int height, Colour c, int thickness = 1);
  /// Round where it begins, bends and ends. From a point that cannot be drawn it goes on at the next.
  void line(std::span<const Point> points, double thickness, Colour c, double opacity = 1);
  void disc(Point centre, double radius, Colour c, double opacity = 1);
  void circle(Point centre, double radius, double thickness, Colour c);

  /// Adds a polygon to a shape that fill() draws once, however its polygons overlap or touch.
  void add_polygon(std::span<const Point> corners);
  void fill(Colour c, double opacity = 1);
  /// Between the given rows, in order from above or below, the opacity changes evenly.
  void fill(Colour c, std::span<const RowOpacity> rows);

  void image(const Image& image, int x, int y);

  /// Valid UTF-8 without control characters, in the system's sans-serif, which has its upper left corner at (x, y); write_right ends before
  /// `right`. Where no font is installed Cairo's own is used.
  void write(int x, int y, std::string_view text, Colour c, int size = kText);
  void write_right(int right, int y, std::string_view text, Colour c, int size = kText);
  int width_of(std::string_view text, int size = kText) const;

 private:
  void ink(Colour c, double opacity);

  cairo_t* c_;
  int width_, height_;
};

}  // namespace slip::picture
