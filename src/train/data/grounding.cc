// SPDX-License-Identifier: Apache-2.0
// See grounding.h: bodies are sampled by a lattice of points, each of which marks the cell that it projects into.
#include "train/data/grounding.h"

#include <algorithm>
#include <cmath>

#include "sim/record/seen.h"
#include "sim/render/render.h"

namespace slip {

namespace {

// Two lattice points per metre: from 3 m on a cell of that model (56 of the camera's pixels) spans more than the half metre between
// them. The bounds, 12 m along and 3 m across (a bus), hold a body's cost at 700 projections.
constexpr double kPointsPerMetre = 2;
constexpr int kMostAlong = 24, kMostAcross = 6, kHeights = 3;

}  // namespace

double near_end_m(const sim::SeenBody& body) {
  const double c = std::cos(body.yaw), s = std::sin(body.yaw);
  const double along = std::abs(c * body.x + s * body.y), across = std::abs(c * body.y - s * body.x);
  return std::hypot(std::max(along - body.length / 2.0, 0.0), std::max(across - body.width / 2.0, 0.0));
}

int range_letter(double distance_m) {
  constexpr double kNearest_m = 3, kFarthest_m = sim::kFarthestBody_m;
  const double letters = (kRangeLetters - 1) * std::log(distance_m / kNearest_m) / std::log(kFarthest_m / kNearest_m);
  return distance_m <= kNearest_m ? 0 : std::min(static_cast<int>(std::lround(letters)), kRangeLetters - 1);
}

std::vector<SeenCell> seen_in_cells(std::span<const sim::SeenBody> bodies, const sim::Camera& camera, int rows, int columns) {
  std::vector<SeenCell> out(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (const sim::SeenBody& b : bodies) {
    const double c = std::cos(b.yaw), s = std::sin(b.yaw), distance_m = near_end_m(b);
    const double length = b.length, width = b.width, low = b.low, high = b.high;
    const int along = std::clamp(static_cast<int>(length * kPointsPerMetre), 1, kMostAlong);
    const int across = std::clamp(static_cast<int>(width * kPointsPerMetre), 1, kMostAcross);
    for (int i = 0; i <= along; ++i)
      for (int j = 0; j <= across; ++j)
        for (int k = 0; k <= kHeights; ++k) {
          const double u = length * (static_cast<double>(i) / along - 0.5), v = width * (static_cast<double>(j) / across - 0.5);
          const auto at = sim::project(camera, {}, b.x + c * u - s * v, b.y + s * u + c * v,
                                       low + (high - low) * (0.1 + 0.8 * k / static_cast<double>(kHeights)));  // not the very rim
          if (!at) continue;
          const int row = std::clamp(static_cast<int>(at->y / camera.height * rows), 0, rows - 1);
          const int column = std::clamp(static_cast<int>(at->x / camera.width * columns), 0, columns - 1);
          out[static_cast<size_t>(row * columns + column)] = {b.what, distance_m};
        }
  }
  return out;
}

}  // namespace slip
