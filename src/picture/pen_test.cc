// SPDX-License-Identifier: Apache-2.0
// Promises of the pen: shapes land where they should, smoothly, nothing is drawn outside its place, and text keeps to the width that was measured.
#include "picture/pen.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "picture/text.h"
#include "plot/paper.h"

namespace slip::picture {
namespace {

constexpr Colour kWhite{255, 255, 255}, kRed{255, 0, 0};

Image on_black(int width, int height, const std::function<void(Pen&)>& draw) {
  const auto png = drawn(FigureFormat::kPng, width, height, [&](cairo_t* c) {
    Pen pen(c, width, height);
    draw(pen);
  });
  EXPECT_TRUE(png) << png.error().message;
  return *decode_image(std::as_bytes(std::span(*png)), "black.png");
}

Colour at(const Image& image, int x, int y) {
  const uint8_t* p = &image.rgb[static_cast<size_t>(3 * (y * image.width + x))];
  return {p[0], p[1], p[2]};
}

double ink(const Image& image) {
  double sum = 0;
  for (size_t i = 0; i < image.rgb.size(); i += 3) sum += image.rgb[i] / 255.0;
  return sum;
}

TEST(Pen, FillsARectangleAndClipsIt) {
  const Image image = on_black(10, 8, [](Pen& pen) {
    pen.rectangle(7, 6, 100, 100, kRed);
    pen.rectangle(-5, -5, 6, 6, kWhite, 0.5);
  });
  EXPECT_EQ(at(image, 7, 6), kRed);
  EXPECT_EQ(at(image, 6, 6), Colour{});
  EXPECT_EQ(at(image, 0, 0), (Colour{128, 128, 128}));
  EXPECT_NEAR(ink(image), 6.5, 0.01);
}

TEST(Pen, DrawsLinesAndDiscsOfTheRightArea) {
  const double pi = std::acos(-1.0);
  const auto area = [](auto draw) { return ink(on_black(100, 100, draw)); };
  const double line = std::hypot(60, 35) * 3 + pi * 1.5 * 1.5;
  EXPECT_NEAR(area([](Pen& pen) { pen.line(std::array<Point, 2>{{{20, 30}, {80, 65}}}, 3, kWhite); }), line, 0.02 * line);
  EXPECT_NEAR(area([](Pen& pen) { pen.disc({50, 50}, 20, kWhite); }), pi * 400, 5);
  EXPECT_NEAR(area([](Pen& pen) { pen.circle({50, 50}, 20, 2, kWhite); }), 2 * pi * 20 * 2, 5);
  EXPECT_NEAR(area([](Pen& pen) { pen.outline(10, 10, 30, 20, kWhite, 2); }), 30 * 20 - 26 * 16, 0.01);
}

TEST(Pen, DrawsNothingOutsideItsPlace) {
  const Image image = on_black(40, 30, [](Pen& pen) {
    pen.inside({10, 5, 20, 10}, [](Pen& inner) {
      EXPECT_EQ(inner.width(), 20);
      inner.rectangle(-100, -100, 1000, 1000, kRed);
      inner.write(-10, -2, "too long a word", kWhite);
      inner.rectangle(0, 0, 1, 1, kWhite);
    });
    pen.rectangle(39, 29, 1, 1, kWhite);
  });
  EXPECT_NEAR(ink(image), 200 + 1, 1e-9);
  EXPECT_EQ(at(image, 10, 5), kWhite) << "its corner is the origin";
  EXPECT_EQ(at(image, 39, 29), kWhite) << "behind it all is as before";
}

TEST(Pen, IgnoresPointsThatAreNotNumbersOrFarAway) {
  const double nan = std::numeric_limits<double>::quiet_NaN(), far = 1e300;
  const Image image = on_black(10, 10, [&](Pen& pen) {
    pen.line(std::array<Point, 2>{{{nan, 0}, {5, 5}}}, 2, kWhite);
    pen.disc({far, far}, 3, kWhite);
    pen.disc({5, 5}, nan, kWhite);
    pen.circle({nan, 5}, 3, 1, kWhite);
    pen.add_polygon(std::array<Point, 3>{{{1, 1}, {far, 1}, {1, 9}}});
    pen.add_polygon(std::array<Point, 2>{{{1, 1}, {9, 9}}});
    pen.fill(kWhite);
    pen.write(-1000, 1000, "far", kWhite);
  });
  EXPECT_EQ(ink(image), 0);
}

TEST(Pen, PolygonsThatTouchOrOverlapAreOneShape) {
  const Image image = on_black(30, 30, [](Pen& pen) {
    pen.add_polygon(std::array<Point, 4>{{{5, 5}, {12.5, 5}, {12.5, 25}, {5, 25}}});
    pen.add_polygon(std::array<Point, 4>{{{12.5, 25}, {25, 25}, {25, 5}, {12.5, 5}}});  // the other way round
    pen.add_polygon(std::array<Point, 4>{{{10, 10}, {10, 20}, {20, 20}, {20, 10}}});
    pen.fill(kWhite, 0.5);
  });
  for (int y = 5; y < 25; ++y)
    for (int x = 5; x < 25; ++x) ASSERT_EQ(at(image, x, y), (Colour{128, 128, 128})) << x << ", " << y;
  EXPECT_NEAR(ink(image), 400 * 128 / 255.0, 0.01);
}

TEST(Pen, AFillFadesFromRowToRow) {
  const Image image = on_black(4, 100, [](Pen& pen) {
    pen.add_polygon(std::array<Point, 4>{{{0, 0}, {4, 0}, {4, 100}, {0, 100}}});
    pen.fill(kWhite, std::array<RowOpacity, 2>{{{80, 1}, {20, 0.25}}});
  });
  EXPECT_EQ(at(image, 1, 95), kWhite);
  EXPECT_NEAR(at(image, 1, 50).r, 0.625 * 255, 3);
  EXPECT_NEAR(at(image, 1, 5).r, 0.25 * 255, 2);
}

TEST(Pen, AnImageKeepsItsPixelsAndIsClipped) {
  Image two{2, 1, {255, 0, 0, 10, 20, 30}};
  const Image image = on_black(4, 3, [&](Pen& pen) {
    pen.image(two, 1, 1);
    pen.image(two, 3, 2);
    pen.image(two, -2, 0);
  });
  EXPECT_EQ(at(image, 1, 1), kRed);
  EXPECT_EQ(at(image, 2, 1), (Colour{10, 20, 30}));
  EXPECT_EQ(at(image, 3, 2), kRed);
  EXPECT_NEAR(ink(image), 2 + 10 / 255.0, 1e-9);
}

TEST(Pen, TextStaysWithinWhatWasMeasured) {
  for (const int size : {kSmall, kText, kLarge}) {
    int width = 0;
    const auto words = [&](Pen& pen) {
      width = pen.width_of("quick 0.25 m/s", size);
      pen.write(10, 20, "quick 0.25 m/s", kWhite, size);
    };
    const Image left = on_black(300, 60, words),
                right = on_black(300, 60, [&](Pen&pen) { pen.write_right(10 + width, 20, "quick 0.25 m/s", kWhite, size); });
    EXPECT_EQ(left.rgb, right.rgb);
    EXPECT_GT(width, 4 * size);
    EXPECT_GT(ink(left), 5 * size);
    for (int y = 0; y < 60; ++y)
      for (int x = 0; x < 300; ++x)
        ASSERT_TRUE((x >= 9 && x <= 10 + width && y >= 20 && y < 20 + 1.3 * size) || at(left, x, y) == Colour{}) << x << ", " << y;
  }
}

TEST(Text, IsCutAndWrappedToTheWidthThatIsMeasured) {
  on_black(10, 10, [](Pen& pen) {
    const std::string word(500, 'W'), thin(500, 'i'), short_one = "right";
    EXPECT_EQ(cut(pen, short_one, 200), short_one);
    EXPECT_GT(cut(pen, thin, 200).size(), cut(pen, word, 200).size()) << "measured, not counted";
    for (const std::string& s :
         {word, thin, std::string("caf\xC3\xA9 \xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9 and more of it")}) {
      for (int width = 0; width < 220; ++width) {
        const std::string some = cut(pen, s, width);
        ASSERT_LE(pen.width_of(some), width);
        ASSERT_EQ(plain(some), some) << "no half letters";
        if (width <= 40) continue;
        ASSERT_TRUE(some == s || some.ends_with("...")) << some;
        ASSERT_GT(pen.width_of(some), std::min(width, pen.width_of(s)) - 15) << "no room is wasted";
      }
    }
    const std::string text = "A pedestrian walks onto the crosswalk, " + word;
    std::string joined;
    for (const std::string& line : wrap(pen, text, 150)) {
      EXPECT_LE(pen.width_of(line), 150);
      EXPECT_FALSE(line.empty() || line.front() == ' ' || line.back() == ' ') << line;
      joined += line.ends_with('W') ? line : line + " ";
    }
    EXPECT_EQ(joined, text) << "lines end at spaces, and only the long word is broken";
  });
}

TEST(Text, IsMadePrintable) {
  EXPECT_EQ(plain("a\tb\n\x7F caf\xC3\xA9 \xE2\x80\x9Cq\xE2\x80\x9D"), "a b   caf\xC3\xA9 \xE2\x80\x9Cq\xE2\x80\x9D");
  EXPECT_EQ(plain("\xFFz"), "\xEF\xBF\xBDz");
  EXPECT_EQ(plain(std::string("\0", 1)), " ");
}

}  // namespace
}  // namespace slip::picture
