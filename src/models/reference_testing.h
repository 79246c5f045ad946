// SPDX-License-Identifier: Apache-2.0
// For tests: the numbers of an implementation that is not ours (tests/fixtures/README.md), and how far from them ours are.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "core/safetensors.h"

namespace slip::test {

inline Checkpoint tensors(const std::filesystem::path& file) {
  auto c = Checkpoint::open_file(file);
  EXPECT_TRUE(c) << c.error().message;
  return *c;
}

inline std::vector<float> tensor(const Checkpoint& c, const std::string& name) {
  const TensorView* view = c.find(name);
  EXPECT_NE(view, nullptr) << name;
  return view ? read_as_f32(*view) : std::vector<float>{};
}

/// What the fixtures promise of distance().
constexpr double kTolerance = 2e-5;
/// Largest |d| / (1 + |ref|); 1e9 where a number is none.
inline double distance(std::span<const float> x, std::span<const float> ref) {
  EXPECT_EQ(x.size(), ref.size());
  double worst = 0;
  for (size_t i = 0; i < std::min(x.size(), ref.size()); ++i) {
    const double d = std::abs(double{x[i]} - ref[i]) / (1 + std::abs(double{ref[i]}));
    worst = std::isnan(d) ? 1e9 : std::max(worst, d);
  }
  return worst;
}

}  // namespace slip::test
