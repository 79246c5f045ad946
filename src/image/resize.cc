// SPDX-License-Identifier: Apache-2.0
// Pillow's bicubic (a = -0.5, widened when it shrinks), bit for bit: weights in double, normalised, rounded to 22 fractional
// bits; sums in 32-bit integers, rounded and clipped to a byte after each of the two passes. |weights| of one output add up to
// less than 1.6, so a sum stays below 2^31.
//
// The order of the passes matters for the bits: across first, then down, except for a picture more than 100 times as tall as
// wide whose height shrinks (Pillow 12; 9.4 did not). An axis that keeps its size is skipped.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "image/image.h"

namespace slip {
namespace {

constexpr int kFractionBits = 22;  // 32 - 8 bits of a pixel - 2 bits for the overshoot
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

/// For each output: the first input it reads, how many, and their weights (at weights[x * stride]).
struct Taps {
  struct Range {
    int first = 0, count = 0;
  };
  std::vector<Range> ranges;
  std::vector<int32_t> weights;
  int stride = 0;
};

Taps make_taps(int in, int out) {
  const double scale = static_cast<double>(in) / out, widened = std::max(scale, 1.0), support = 2.0 * widened;
  const double inverse = 1.0 / widened;
  Taps t;
  t.stride = static_cast<int>(std::ceil(support)) * 2 + 1;
  t.ranges.resize(static_cast<size_t>(out));
  t.weights.assign(static_cast<size_t>(out) * static_cast<size_t>(t.stride), 0);
  std::vector<double> k(static_cast<size_t>(t.stride));
  for (int x = 0; x < out; ++x) {
    const double centre = (x + 0.5) * scale;
    const int low = std::max(static_cast<int>(centre - support + 0.5), 0);    // NOLINT(bugprone-incorrect-roundings): Pillow's
    const int high = std::min(static_cast<int>(centre + support + 0.5), in);  // NOLINT(bugprone-incorrect-roundings): Pillow's
    double total = 0;
    for (int i = low; i < high; ++i) total += k[static_cast<size_t>(i - low)] = cubic((i - centre + 0.5) * inverse);
    t.ranges[static_cast<size_t>(x)] = {low, high - low};
    int32_t* to = &t.weights[static_cast<size_t>(x) * static_cast<size_t>(t.stride)];
    for (int i = 0; i < high - low; ++i) {
      const double w = (total != 0 ? k[static_cast<size_t>(i)] / total : k[static_cast<size_t>(i)]) * (1 << kFractionBits);
      to[i] = static_cast<int32_t>(w < 0 ? w - 0.5 : w + 0.5);
    }
  }
  return t;
}

inline uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

Image resize_across(const Image& in, int width) {
  const Taps taps = make_taps(in.width, width);
  Image out{width, in.height, std::vector<uint8_t>(size_t{3} * width * in.height)};
  for (int y = 0; y < in.height; ++y) {
    const uint8_t* row = in.rgb.data() + size_t{3} * in.width * y;
    uint8_t* to = out.rgb.data() + size_t{3} * width * y;
    const int32_t* w = taps.weights.data();
    for (const auto [first, count] : taps.ranges) {
      const uint8_t* p = row + size_t{3} * first;
      int32_t r = kHalf, g = kHalf, b = kHalf;
      for (int i = 0; i < count; ++i) {
        r += p[3 * i] * w[i];
        g += p[3 * i + 1] * w[i];
        b += p[3 * i + 2] * w[i];
      }
      to[0] = to_byte(r);
      to[1] = to_byte(g);
      to[2] = to_byte(b);
      to += 3;
      w += taps.stride;
    }
  }
  return out;
}

/// Whole rows are added at once: the inner loops run over independent bytes and vectorise.
Image resize_down(const Image& in, int height) {
  const Taps taps = make_taps(in.height, height);
  const size_t n = size_t{3} * in.width;
  Image out{in.width, height, std::vector<uint8_t>(n * height)};
  std::vector<int32_t> sums(n);
  for (int y = 0; y < height; ++y) {
    const auto [first, count] = taps.ranges[static_cast<size_t>(y)];
    const int32_t* w = &taps.weights[static_cast<size_t>(y) * static_cast<size_t>(taps.stride)];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int i = 0; i < count; ++i) {
      const uint8_t* row = in.rgb.data() + n * static_cast<size_t>(first + i);
      const int32_t weight = w[i];
      int32_t* s = sums.data();
      for (size_t x = 0; x < n; ++x) s[x] += row[x] * weight;
    }
    uint8_t* to = out.rgb.data() + n * static_cast<size_t>(y);
    for (size_t x = 0; x < n; ++x) to[x] = to_byte(sums[x]);
  }
  return out;
}

}  // namespace

Image resize_bicubic(const Image& in, int width, int height) {
  SLIP_CHECK(width > 0 && height > 0 && in.width > 0 && in.height > 0, "sizes are checked where images and requests enter");
  SLIP_CHECK(in.rgb.size() == size_t{3} * in.width * in.height, "an image holds 3 bytes a pixel");
  if (width == in.width) return height == in.height ? in : resize_down(in, height);
  if (height == in.height) return resize_across(in, width);
  const bool down_first = in.height > int64_t{100} * in.width && height < in.height;
  return down_first ? resize_across(resize_down(in, height), width) : resize_down(resize_across(in, width), height);
}

}  // namespace slip
