// SPDX-License-Identifier: Apache-2.0
// A plan view in metres: areas, outlines and lines at one scale in both directions, x to the right, y upwards, by Cairo as PNG or SVG.
#pragma once
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace slip {

using MapColour = std::array<double, 3>;  // red, green, blue from 0 to 1

struct MapShape {
  std::vector<std::pair<double, double>> points;  // metres
  bool closed = false;
  std::optional<MapColour> fill;
  std::optional<MapColour> stroke;
  double stroke_px = 1;
  double opacity = 1;
  bool dashed = false;
};
struct MapKey {
  MapColour colour{};
  std::string words;
};
struct MapView {
  std::string title;
  std::vector<MapShape> shapes;  // the first lies lowest
  std::vector<MapKey> legend;
  double x_low = 0, x_high = 1, y_low = 0, y_high = 1;  // what is shown
  int width = 1200;                                     // pixels; the height follows
};

/// Writes the view beside `file` and renames. kUsage for a name that ends in neither .png nor .svg, kBadInput for an empty window,
/// kUnsupported without Cairo.
Status draw_map(const MapView& view, const std::filesystem::path& file);

}  // namespace slip
