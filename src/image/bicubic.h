// SPDX-License-Identifier: Apache-2.0
// Pillow's bicubic as numbers: what an output is made of along one axis. image.h resizes here; a device does with the same numbers.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace slip {

/// For each output: the first input that it reads, how many, and their weights. Output = clip((half + sum of byte x weight) >> kFractionBits) in
/// 32-bit integers, half = 1 << (kFractionBits - 1).
struct BicubicTaps {
  static constexpr int kFractionBits = 22;  // 32 - 8 bits of a pixel - 2 bits for the overshoot
  struct Range {
    int32_t first = 0, count = 0;
  };
  std::vector<Range> ranges;
  std::vector<int32_t> weights;
  int stride = 0;  // weights of an output
  const int32_t* of(int x) const { return &weights[static_cast<size_t>(x) * static_cast<size_t>(stride)]; }
};

/// From `in` numbers to `out`; both at least 1.
BicubicTaps bicubic_taps(int in, int out);
/// Pillow goes across first, then down, and the other way round where this holds.
bool shrinks_down_first(int width, int height, int to_height);

}  // namespace slip
