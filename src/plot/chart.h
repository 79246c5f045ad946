// SPDX-License-Identifier: Apache-2.0
// Charts by Cairo: lines and points with intervals, as PNG or SVG by the file's name. A build without Cairo refuses in words.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace slip {

struct ChartPoint {
  double x = 0, y = 0;
  std::optional<double> low, high;  // of an interval
};
struct ChartSeries {
  std::string name;
  std::vector<ChartPoint> points;
  bool line = true;  // points joined
};
struct Chart {
  std::string title, x_label, y_label;
  std::vector<ChartSeries> series;
  double y_low = 0, y_high = 1;
  int width = 760, height = 460;
};

/// Round numbers from about `low` to `high`, some `count` of them.
std::vector<double> ticks(double low, double high, int count);

/// Writes the chart beside `file` and renames. kUsage for a name that ends in neither .png nor .svg, kUnsupported without Cairo.
Status draw_chart(const Chart& chart, const std::filesystem::path& file);

}  // namespace slip
