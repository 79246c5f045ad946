// SPDX-License-Identifier: Apache-2.0
// Promises of the drawing surface: shapes land where they should, smoothly, and nothing is written outside the image.
#include "image/canvas.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "image/canvas_font.h"

namespace slip {
namespace {

constexpr Colour kBlack{0, 0, 0}, kWhite{255, 255, 255}, kRed{255, 0, 0};

double ink(const Image& image) {
  double sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += image.rgb[i] / 255.0;
  return sum;
}

TEST(Canvas, FillsARectangleAndClipsIt) {
  Image image = blank_image(10, 8, kBlack);
  Canvas canvas(image);
  canvas.rectangle(7, 6, 100, 100, kRed);
  EXPECT_EQ(canvas.at(7, 6), kRed);
  EXPECT_EQ(canvas.at(6, 6), kBlack);
  EXPECT_DOUBLE_EQ(ink(image), 6);
  canvas.rectangle(-5, -5, 6, 6, kWhite, 0.5);
  EXPECT_EQ(canvas.at(0, 0), (Colour{128, 128, 128}));
}

TEST(Canvas, DrawsLinesAndDiscsOfTheRightArea) {
  Image image = blank_image(100, 100, kBlack);
  Canvas(image).line({20, 30}, {80, 65}, 3, kWhite);
  const double length = std::hypot(60, 35), area = length * 3 + 3.14159265 * 1.5 * 1.5;
  EXPECT_NEAR(ink(image), area, 0.02 * area);
  image = blank_image(100, 100, kBlack);
  Canvas(image).disc({50, 50}, 20, kWhite);
  EXPECT_NEAR(ink(image), 3.14159265 * 400, 5);
  image = blank_image(100, 100, kBlack);
  Canvas(image).circle({50, 50}, 20, 2, kWhite);
  EXPECT_NEAR(ink(image), 2 * 3.14159265 * 20 * 2, 5);
}

TEST(Canvas, IgnoresPointsThatAreNotNumbersOrFarAway) {
  Image image = blank_image(10, 10, kBlack);
  Canvas canvas(image);
  const double nan = std::numeric_limits<double>::quiet_NaN(), far = 1e300;
  canvas.line({nan, 0}, {5, 5}, 2, kWhite);
  canvas.disc({far, far}, 3, kWhite);
  canvas.blit(blank_image(3, 3, kWhite), 2000000000, -2000000000);
  canvas.text(-1000, 1000, "far", kWhite);
  EXPECT_EQ(ink(image), 0);
}

TEST(Canvas, BlitsAndScales) {
  Image image = blank_image(10, 10, kBlack);
  Canvas canvas(image);
  canvas.blit(blank_image(4, 4, kRed), -2, 8);
  EXPECT_DOUBLE_EQ(ink(image), 4);
  canvas.blit(blank_image(2, 3, kWhite), 5, 0, 4, 5);
  EXPECT_DOUBLE_EQ(ink(image), 24);
  EXPECT_EQ(canvas.at(8, 4), kWhite);
}

TEST(Canvas, WritesEveryCharacterDifferently) {
  std::set<image_detail::Glyph> shapes;
  for (int c = 32; c < 127; ++c) shapes.insert(image_detail::glyph_of(static_cast<unsigned char>(c)));
  EXPECT_EQ(shapes.size(), 95u);
  Image image = blank_image(60, 20, kBlack);
  EXPECT_EQ(Canvas(image).text(0, 0, "I|", kWhite, 2), Canvas::text_width("I|", 2));
  int pixels = 0;
  for (const char c : std::string("I|"))
    for (const uint8_t row : image_detail::glyph_of(static_cast<unsigned char>(c))) pixels += __builtin_popcount(row);
  EXPECT_DOUBLE_EQ(ink(image), 4 * pixels);
}

}  // namespace
}  // namespace slip
