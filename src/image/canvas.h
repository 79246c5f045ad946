// SPDX-License-Identifier: Apache-2.0
// A small drawing surface over an Image, for pictures that explain an answer: rectangles, smooth lines and circles, other
// images, text in a built-in 6 x 10 bitmap font. Everything is clipped to the image; coordinates are pixels, y downwards, and
// the centre of the first pixel is (0.5, 0.5). Never fails; numbers that are not finite draw nothing.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>

#include "image/image.h"

namespace slip {

struct Colour {
  uint8_t r = 0, g = 0, b = 0;
  bool operator==(const Colour&) const = default;
};

struct Point {
  double x = 0, y = 0;
};

/// A picture of one colour. Both sides at least 1.
Image blank_image(int width, int height, Colour colour);

/// Draws into the image it was made with, which must outlive it. `opacity` 0 to 1.
class Canvas {
 public:
  static constexpr int kGlyphWidth = 6, kGlyphHeight = 10;

  explicit Canvas(Image& image) : image_(image) {}
  int width() const { return image_.width; }
  int height() const { return image_.height; }
  Colour at(int x, int y) const;

  void rectangle(int x, int y, int width, int height, Colour c, double opacity = 1);
  void outline(int x, int y, int width, int height, Colour c, int thickness = 1);
  /// A stroke with round ends; a pixel is covered by its distance from the line, which smooths the border.
  void line(Point from, Point to, double thickness, Colour c, double opacity = 1);
  void polyline(std::span<const Point> points, double thickness, Colour c, double opacity = 1);
  void disc(Point centre, double radius, Colour c, double opacity = 1);
  void circle(Point centre, double radius, double thickness, Colour c, double opacity = 1);
  /// Copies `picture` with its upper left corner at (x, y); the second form scales it (bicubic) to width x height first.
  void blit(const Image& picture, int x, int y);
  void blit(const Image& picture, int x, int y, int width, int height);
  /// One line of ASCII (other bytes show as a box) with its upper left corner at (x, y), each font pixel scale x scale.
  /// Returns the x after the last character.
  int text(int x, int y, std::string_view text, Colour c, int scale = 1);
  static int text_width(std::string_view text, int scale = 1) { return static_cast<int>(text.size()) * kGlyphWidth * scale; }

 private:
  void blend(int x, int y, Colour c, double coverage);
  template <class Distance>
  void fill_near(double x0, double y0, double x1, double y1, Colour c, double opacity, Distance distance);
  Image& image_;
};

}  // namespace slip
