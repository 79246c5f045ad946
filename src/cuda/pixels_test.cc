// SPDX-License-Identifier: Apache-2.0
// Pictures on a device against image/: the bytes of a resize and the numbers of patches by ==.
#include <gtest/gtest.h>

#include <random>

#include "cuda/kernels.h"
#include "image/bicubic.h"
#include "image/qwen_preprocess.h"

namespace slip::cuda {
namespace {

Image noise(int width, int height, uint32_t seed) {
  Image image{width, height, std::vector<uint8_t>(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height))};
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> byte(0, 255);
  // Flat stretches of the extremes beside noise: where sums overshoot, they are clipped.
  for (size_t i = 0; i < image.rgb.size(); ++i)
    image.rgb[i] = static_cast<uint8_t>(i / 50 % 3 == 0 ? 255 * (i / 7 % 2) : static_cast<size_t>(byte(random)));
  return image;
}

std::vector<uint8_t> resized_there(const Image& in, int to, bool down) {
  const BicubicTaps taps = bicubic_taps(down ? in.height : in.width, to);
  static_assert(sizeof(BicubicTaps::Range) == sizeof(TapRange));
  const int width = down ? in.width : to, height = down ? to : in.height;
  std::vector<uint8_t> out(size_t{3} * static_cast<size_t>(width) * static_cast<size_t>(height), 7);
  resize({in.rgb.data(), in.width, out.data(), width, height, reinterpret_cast<const TapRange*>(taps.ranges.data()),
          taps.weights.data(), taps.stride, down},
         nullptr);
  return out;
}

TEST(Pixels, AnAxisIsResizedAsHere) {
  const struct {
    int width, height, to;
  } cases[] = {{1, 1, 3}, {7, 5, 28}, {300, 4, 28}, {301, 3, 300}, {513, 2, 1}, {64, 9, 257}, {2, 600, 28}};
  for (const auto& c : cases) {
    const Image in = noise(c.width, c.height, static_cast<uint32_t>(c.width));
    if (c.to != c.width) {
      EXPECT_EQ(resized_there(in, c.to, false), resize_bicubic(in, c.to, c.height).rgb) << c.width;
    }
    if (c.to != c.height) {
      EXPECT_EQ(resized_there(in, c.to, true), resize_bicubic(in, c.width, c.to).rgb) << c.height;
    }
  }
}

TEST(Pixels, PatchesAreCutAsHere) {
  PreprocessorConfig config;
  for (const int frames : {1, 2, 3}) {
    config.temporal_patch_size = frames;
    for (const auto& [patch, merge, columns, rows] : {std::array{14, 2, 3, 2}, {4, 1, 5, 7}, {3, 3, 100, 1}}) {
      config.patch_size = patch;
      config.merge_size = merge;
      const Image picture = noise(columns * patch * merge, rows * patch * merge, 5);
      const PatchGrid here = patches_of(picture, config);
      const ChannelTable table = normalising_table(config);
      std::vector<float> there(here.values.size(), -99);
      cut({picture.rgb.data(), picture.width, picture.height, patch, merge, frames, table[0].data(), there.data()}, nullptr);
      EXPECT_EQ(there, here.values) << patch << " " << merge << " " << frames;
    }
  }
}

}  // namespace
}  // namespace slip::cuda
