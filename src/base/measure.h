// SPDX-License-Identifier: Apache-2.0
// Time and medians of measurements, in milliseconds.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>
#include <vector>

namespace slip {

using Clock = std::chrono::steady_clock;

inline double ms_since(Clock::time_point start) { return std::chrono::duration<double, std::milli>(Clock::now() - start).count(); }

/// Milliseconds since `last`, which becomes now.
inline double lap(Clock::time_point& last) {
  const auto now = Clock::now();
  return std::chrono::duration<double, std::milli>(now - std::exchange(last, now)).count();
}

/// v[n / 2] of the sorted numbers: of an even count the upper of both in the middle. 0 of none.
inline double median(std::vector<double> v) {
  if (v.empty()) return 0;
  const auto middle = v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2);
  std::nth_element(v.begin(), middle, v.end());
  return *middle;
}

}  // namespace slip
