// SPDX-License-Identifier: Apache-2.0
// Pillow's bicubic (a = -0.5, widened when it shrinks), bit for bit: weights in double, normalised, rounded to 22 fractional
// bits; sums in 32-bit integers, rounded and clipped to a byte after each of the two passes. |weights| of one output add up to
// less than 1.6, so a sum stays below 2^31.
//
// The order of the passes matters for the bits: across first, then down, except for a picture more than 100 times as tall as
// wide whose height shrinks (Pillow 12; 9.4 did not). An axis that keeps its size is skipped.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <span>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "base/check.h"
#include "image/bicubic.h"
#include "image/image.h"

namespace slip {
namespace {

constexpr int kFractionBits = BicubicTaps::kFractionBits;
constexpr int32_t kHalf = 1 << (kFractionBits - 1);

double cubic(double x) {
  constexpr double a = -0.5;
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return (((x - 5) * x + 8) * x - 4) * a;
  return 0;
}

using Taps = BicubicTaps;

}  // namespace

BicubicTaps bicubic_taps(int in, int out) {
  const double scale = static_cast<double>(in) / out, widened = std::max(scale, 1.0), support = 2.0 * widened;
  const double inverse = 1.0 / widened;
  BicubicTaps t;
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

bool shrinks_down_first(int width, int height, int to_height) { return height > int64_t{100} * width && to_height < height; }

namespace {

inline uint8_t to_byte(int32_t sum) { return static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255)); }

#if defined(__SSE2__)

// Two taps at a time by the one product that every x86-64 has, of 16-bit numbers added in pairs. A weight is w = 2^11 h + l with l in
// [0, 2^11), so that p h and p l fit; sums wrap as they may, since what they amount to fits 32 bits.
constexpr int kLowBits = 11;

/// Both halves of two weights.
struct PairWeights {
  int32_t high = 0, low = 0;
};

/// Of every output, from x * stride on. The weight behind the last one is 0.
struct PairTaps {
  std::vector<PairWeights> weights;
  size_t stride = 0;
  explicit PairTaps(const Taps& t) : stride(static_cast<size_t>(t.stride + 1) / 2) {
    const auto pair = [](int32_t a, int32_t b) { return static_cast<int32_t>((static_cast<uint32_t>(b) << 16) | (a & 0xFFFF)); };
    constexpr int32_t kMask = (1 << kLowBits) - 1;
    weights.reserve(t.ranges.size() * stride);
    for (size_t x = 0; x < t.ranges.size(); ++x)
      for (int i = 0; i < t.stride; i += 2) {
        const int32_t *w = t.of(static_cast<int>(x)), a = w[i], b = i + 1 < t.stride ? w[i + 1] : 0;
        weights.push_back({pair(a >> kLowBits, b >> kLowBits), pair(a & kMask, b & kMask)});
      }
  }
  const PairWeights* of(int x) const { return &weights[static_cast<size_t>(x) * stride]; }
};

/// Four sums.
struct PairSums {
  __m128i high = _mm_setzero_si128(), low = _mm_set1_epi32(kHalf);
  void add(__m128i pairs, __m128i weights_high, __m128i weights_low) {
    high = _mm_add_epi32(high, _mm_madd_epi16(pairs, weights_high));
    low = _mm_add_epi32(low, _mm_madd_epi16(pairs, weights_low));
  }
  __m128i shifted() const { return _mm_srai_epi32(_mm_add_epi32(_mm_slli_epi32(high, kLowBits), low), kFractionBits); }
};

/// Of every pixel and its right neighbour: r r' g g' b b' and two bytes that nobody reads.
void pair_pixels(const uint8_t* row, int width, std::vector<uint8_t>& padded, std::vector<uint8_t>& pairs) {
  std::memcpy(padded.data(), row, size_t{3} * width);
  for (int i = 0; i < width; ++i) {
    int32_t own = 0, next = 0;
    std::memcpy(&own, &padded[size_t{3} * i], 4);
    std::memcpy(&next, &padded[size_t{3} * i + 3], 4);
    const __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(own), _mm_cvtsi32_si128(next));
    _mm_storel_epi64(reinterpret_cast<__m128i*>(&pairs[size_t{8} * i]), bytes);
  }
}

Image resize_across(const Image& in, int width) {
  const Taps taps = bicubic_taps(in.width, width);
  Image out{width, in.height, std::vector<uint8_t>(size_t{3} * width * in.height)};
  std::vector<uint8_t> padded(size_t{3} * in.width + 8);
  const PairTaps pair_taps(taps);
  std::array<std::vector<uint8_t>, 2> pairs;
  for (auto& p : pairs) p.resize(size_t{8} * in.width);
  const auto pixels_at = [](const uint8_t* from) {
    return _mm_unpacklo_epi8(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from)), _mm_setzero_si128());
  };
  const auto store = [](const PairSums& s, uint8_t* to) {
    const __m128i words = _mm_packs_epi32(s.shifted(), _mm_setzero_si128());
    const int32_t pixel = _mm_cvtsi128_si32(_mm_packus_epi16(words, words));
    std::memcpy(to, &pixel, 3);
  };
  for (int y = 0; y < in.height; y += 2) {  // two rows share the weights
    const int second = std::min(y + 1, in.height - 1);
    for (const int r : {y, second})
      pair_pixels(&in.rgb[size_t{3} * in.width * r], in.width, padded, pairs[static_cast<size_t>(r - y)]);
    for (int x = 0; x < width; ++x) {
      const auto [first, count] = taps.ranges[static_cast<size_t>(x)];
      const uint8_t *upper = &pairs[0][size_t{8} * first], *lower = &pairs[static_cast<size_t>(second - y)][size_t{8} * first];
      const PairWeights *w = pair_taps.of(x), *end = w + (count + 1) / 2;
      PairSums a, b;
      for (; w < end; ++w, upper += 16, lower += 16) {
        const __m128i high = _mm_set1_epi32(w->high), low = _mm_set1_epi32(w->low);
        a.add(pixels_at(upper), high, low);
        b.add(pixels_at(lower), high, low);
      }
      store(a, &out.rgb[size_t{3} * (static_cast<size_t>(width) * y + x)]);
      store(b, &out.rgb[size_t{3} * (static_cast<size_t>(width) * second + x)]);
    }
  }
  return out;
}

using RowTaps = PairTaps;

/// Output row y, n bytes, as a sum of `rows`.
void add_rows(std::span<const uint8_t* const> rows, const Taps& taps, RowTaps& row_taps, int y, size_t n, uint8_t* to) {
  const auto count = static_cast<int>(rows.size());
  const PairWeights* pairs = row_taps.of(y);
  size_t x = 0;
  for (; x + 16 <= n; x += 16) {
    std::array<PairSums, 4> sums;
    for (int i = 0; i < count; i += 2) {
      const __m128i w_high = _mm_set1_epi32(pairs[i / 2].high), w_low = _mm_set1_epi32(pairs[i / 2].low);
      const __m128i upper = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[i] + x)),
                    lower = _mm_loadu_si128(reinterpret_cast<const __m128i*>(rows[std::min(i + 1, count - 1)] + x)),
                    zero = _mm_setzero_si128();
      const __m128i first = _mm_unpacklo_epi8(upper, lower), last = _mm_unpackhi_epi8(upper, lower);
      sums[0].add(_mm_unpacklo_epi8(first, zero), w_high, w_low);
      sums[1].add(_mm_unpackhi_epi8(first, zero), w_high, w_low);
      sums[2].add(_mm_unpacklo_epi8(last, zero), w_high, w_low);
      sums[3].add(_mm_unpackhi_epi8(last, zero), w_high, w_low);
    }
    const __m128i words0 = _mm_packs_epi32(sums[0].shifted(), sums[1].shifted()),
                  words1 = _mm_packs_epi32(sums[2].shifted(), sums[3].shifted());
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to + x), _mm_packus_epi16(words0, words1));
  }
  for (; x < n; ++x) {
    int32_t sum = kHalf;
    for (int i = 0; i < count; ++i) sum += rows[i][x] * taps.of(y)[i];
    to[x] = to_byte(sum);
  }
}

#else

Image resize_across(const Image& in, int width) {
  const Taps taps = bicubic_taps(in.width, width);
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

struct RowTaps {
  explicit RowTaps(const Taps&) {}
  std::vector<int32_t> sums;
};

/// Output row y, n bytes, as a sum of `rows`. Whole rows are added at once: the inner loops run over independent bytes and vectorise.
void add_rows(std::span<const uint8_t* const> rows, const Taps& taps, RowTaps& row_taps, int y, size_t n, uint8_t* to) {
  row_taps.sums.assign(n, kHalf);
  int32_t* sums = row_taps.sums.data();
  for (size_t i = 0; i < rows.size(); ++i) {
    const uint8_t* row = rows[i];
    const int32_t weight = taps.of(y)[i];
    for (size_t x = 0; x < n; ++x) sums[x] += row[x] * weight;
  }
  for (size_t x = 0; x < n; ++x) to[x] = to_byte(sums[x]);
}

#endif

Image resize_down(const Image& in, int height) {
  const Taps taps = bicubic_taps(in.height, height);
  RowTaps row_taps(taps);
  const size_t n = size_t{3} * in.width;
  Image out{in.width, height, std::vector<uint8_t>(n * height)};
  std::vector<const uint8_t*> rows;
  for (int y = 0; y < height; ++y) {
    const auto [first, count] = taps.ranges[static_cast<size_t>(y)];
    rows.clear();
    for (int i = 0; i < count; ++i) rows.push_back(in.rgb.data() + n * static_cast<size_t>(first + i));
    add_rows(rows, taps, row_taps, y, n, out.rgb.data() + n * static_cast<size_t>(y));
  }
  return out;
}

}  // namespace

Image resize_bicubic(const Image& in, int width, int height) {
  SLIP_CHECK(width > 0 && height > 0 && in.width > 0 && in.height > 0, "sizes are checked where images and requests enter");
  SLIP_CHECK(in.rgb.size() == size_t{3} * in.width * in.height, "an image holds 3 bytes a pixel");
  if (width == in.width) return height == in.height ? in : resize_down(in, height);
  if (height == in.height) return resize_across(in, width);
  return shrinks_down_first(in.width, in.height, height) ? resize_across(resize_down(in, height), width)
                                                         : resize_down(resize_across(in, width), height);
}

}  // namespace slip
