// SPDX-License-Identifier: Apache-2.0
#include "models/vision/vit_positions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace slip {
namespace {

TEST(ResamplePositions, KeepsAConstantTableConstantAndTheSameSizeUntouched) {
  const std::vector<float> constant(static_cast<size_t>(5 * 4 * 3), 0.75F);
  for (const bool antialias : {false, true}) {
    for (const auto& [rows, columns] : {std::pair{9, 3}, {2, 2}, {5, 4}, {1, 17}})
      for (const float x : resample_positions(constant, 5, 4, 3, rows, columns, antialias)) EXPECT_NEAR(x, 0.75F, 1e-6);
  }
  std::vector<float> table;
  for (int i = 0; i < 5 * 4 * 3; ++i) table.push_back(std::sin(static_cast<float>(i)));
  EXPECT_EQ(resample_positions(table, 5, 4, 3, 5, 4, false), table);
}

}  // namespace
}  // namespace slip
