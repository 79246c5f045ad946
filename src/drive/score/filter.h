// SPDX-License-Identifier: Apache-2.0
// Savitzky-Golay filters as nuPlan's metrics use them: a polynomial is fitted to a window and read, or differentiated, at its middle; near
// the ends the first and last window's polynomial is read where it is needed. A window is cut to the number of values. An even window of w
// values is fitted to i - w/2 + 1 .. i + w/2 and read half a step behind i, which is what the public scorers compute.
#pragma once
#include <span>
#include <vector>

namespace slip::drive {

/// The values, or their derivative of that order (0, 1, 2) for values `dt` seconds apart. At least order + 1 values.
std::vector<double> savitzky_golay(std::span<const double> values, int window, int order, int derivative, double dt);

/// Headings without jumps of a whole turn.
std::vector<double> unwrapped(std::span<const double> headings);

/// Differential quantities of a track of states `dt` seconds apart, filtered: what comfort is judged by.
struct ComfortSeries {
  std::vector<double> lon_acc, lat_acc, jerk, lon_jerk, yaw_acc, yaw_rate;
};
ComfortSeries comfort_series(std::span<const double> lon_acc, std::span<const double> lat_acc, std::span<const double> magnitude,
                             std::span<const double> headings, double dt);

}  // namespace slip::drive
