// SPDX-License-Identifier: Apache-2.0
#include "models/vision/vit_positions.h"

#include <algorithm>
#include <cmath>

namespace slip {
namespace {

// For each output: the inputs that it is made of, and their weights.
struct Taps {
  std::vector<std::vector<std::pair<int32_t, float>>> of;
};

double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Four neighbours, those outside clamped to the border [torch, upsample_bicubic2d].
Taps plain_taps(int32_t in, int32_t out) {
  Taps t;
  const double scale = static_cast<double>(in) / out;
  for (int32_t i = 0; i < out; ++i) {
    const double at = scale * (i + 0.5) - 0.5, first = std::floor(at);
    auto& taps = t.of.emplace_back();
    for (int32_t k = -1; k <= 2; ++k) {
      const auto from = static_cast<int32_t>(std::clamp(first + k, 0.0, in - 1.0));
      taps.emplace_back(from, static_cast<float>(cubic(at - first - k, -0.75)));
    }
  }
  return t;
}

// Pillow's rule: the filter widens where it shrinks, weights are normalised [torch, _upsample_bicubic2d_aa].
Taps antialias_taps(int32_t in, int32_t out) {
  Taps t;
  const double scale = static_cast<double>(in) / out, widened = std::max(scale, 1.0), support = 2 * widened;
  for (int32_t i = 0; i < out; ++i) {
    const double centre = scale * (i + 0.5);
    const auto low = static_cast<int32_t>(std::max(centre - support + 0.5, 0.0));  // NOLINT(bugprone-incorrect-roundings): Pillow's
    const int32_t high =
        std::min(static_cast<int32_t>(centre + support + 0.5), in);  // NOLINT(bugprone-incorrect-roundings): Pillow's
    std::vector<double> weights;
    double total = 0;
    for (int32_t k = low; k < high; ++k) total += weights.emplace_back(cubic((k - centre + 0.5) / widened, -0.5));
    auto& taps = t.of.emplace_back();
    for (int32_t k = low; k < high; ++k) taps.emplace_back(k, static_cast<float>(weights[static_cast<size_t>(k - low)] / total));
  }
  return t;
}

void add_tap(float* to, const float* from, float weight, int32_t width) {
  for (int32_t d = 0; d < width; ++d) to[d] += weight * from[d];
}

}  // namespace

std::vector<float> resample_positions(std::span<const float> table_PD, int32_t rows, int32_t columns, int32_t width,
                                      int32_t to_rows, int32_t to_columns, bool antialias) {
  if (rows == to_rows && columns == to_columns) return {table_PD.begin(), table_PD.end()};
  const Taps across = antialias ? antialias_taps(columns, to_columns) : plain_taps(columns, to_columns);
  const Taps down = antialias ? antialias_taps(rows, to_rows) : plain_taps(rows, to_rows);
  const auto d = static_cast<size_t>(width);
  std::vector<float> wide(static_cast<size_t>(rows) * static_cast<size_t>(to_columns) * d);
  for (size_t y = 0; y < static_cast<size_t>(rows); ++y)
    for (size_t x = 0; x < across.of.size(); ++x)
      for (const auto& [from, weight] : across.of[x])
        add_tap(&wide[(y * across.of.size() + x) * d],
                &table_PD[(y * static_cast<size_t>(columns) + static_cast<size_t>(from)) * d], weight, width);
  std::vector<float> out(static_cast<size_t>(to_rows) * static_cast<size_t>(to_columns) * d);
  for (size_t y = 0; y < down.of.size(); ++y)
    for (const auto& [from, weight] : down.of[y])
      for (size_t x = 0; x < across.of.size(); ++x)
        add_tap(&out[(y * across.of.size() + x) * d], &wide[(static_cast<size_t>(from) * across.of.size() + x) * d], weight, width);
  return out;
}

}  // namespace slip
