// SPDX-License-Identifier: Apache-2.0
// See figures.h. Tests: tests/cli/limits_test.cc
#include "api/tools/limits/figures.h"

#include <algorithm>

namespace slip::api {

namespace {

/// Top of the axis over what is drawn: the next tick.
double axis_top(const Chart& chart) {
  double most = 0;
  for (const ChartSeries& s : chart.series)
    for (const ChartPoint& p : s.points) most = std::max(most, p.y);
  const std::vector<double> marks = ticks(0, most, 6);
  if (marks.size() < 2) return most > 0 ? most : 1;
  return marks.back() >= most ? marks.back() : marks.back() + marks[1] - marks[0];
}

/// The legend is narrow: the drafter tells more than the preset that it stands in.
std::string short_name(std::string name) {
  const size_t drafter = name.find(" --drafter ");
  if (drafter != std::string::npos) name.erase(0, drafter + std::string_view(" --drafter ").size());
  for (const std::string_view dull : {"--width ", "diffusion:"})
    for (size_t at = name.find(dull); at != std::string::npos; at = name.find(dull)) name.erase(at, dull.size());
  return name;
}

/// Points of a column over another (none: the row's number), empty cells left out.
std::vector<ChartPoint> points_of(const Table& t, std::string_view x, std::string_view y) {
  const auto at = [&](std::string_view column) {
    return static_cast<size_t>(std::find(t.columns.begin(), t.columns.end(), column) - t.columns.begin());
  };
  const size_t from = x.empty() ? 0 : at(x), to = at(y);
  std::vector<ChartPoint> out;
  for (size_t i = 0; i < t.rows.size(); ++i)
    if (!t.rows[i][to].is_null())
      out.push_back({.x = x.empty() ? static_cast<double>(i + 1) : t.rows[i][from].to_number<double>(),
                     .y = t.rows[i][to].to_number<double>(),
                     .low = {},
                     .high = {}});
  return out;
}

void add_measured(std::vector<ChartPoint> points, bool line, Chart& chart) {
  if (!points.empty()) chart.series.push_back({.name = "measured", .points = std::move(points), .line = line});
}

}  // namespace

Chart passes_chart(const Table& passes, const std::string& title) {
  Chart chart{.title = title, .x_label = "rows of a pass", .y_label = "milliseconds", .series = {}};
  chart.series.push_back({.name = "roofline", .points = points_of(passes, "rows", "predicted_ms")});
  add_measured(points_of(passes, "rows", "measured_ms"), false, chart);
  chart.y_high = axis_top(chart);
  return chart;
}

Chart decoders_chart(const Table& decoders, const std::string& title) {
  Chart chart{.title = title, .x_label = "decoder, by number", .y_label = "milliseconds behind the prompt", .series = {}};
  add_measured(points_of(decoders, "", "measured_ms"), true, chart);  // a line: its colour comes again
  const std::vector<ChartPoint> predicted = points_of(decoders, "", "predicted_ms");
  for (size_t i = 0; i < predicted.size(); ++i)
    chart.series.push_back({.name = fmt::format("{} {}", i + 1, short_name(std::string(decoders.rows[i][0].as_string()))),
                            .points = {predicted[i]},
                            .line = false});
  chart.height = std::max(chart.height, static_cast<int>(130 + 20 * chart.series.size()));  // the legend's lines
  chart.y_high = axis_top(chart);
  return chart;
}

}  // namespace slip::api
