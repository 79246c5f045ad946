// SPDX-License-Identifier: Apache-2.0
// A windowed vision transformer as a device's plug-in gets it: weights where the processor has them, and one call's rows in the order in which
// they are worked on. What the numbers mean and in which order patches come: models/vision/qwen_vision.h.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/content_hash.h"
#include "base/ids.h"
#include "base/result.h"
#include "image/bicubic.h"
#include "image/qwen_preprocess.h"
#include "kernels/kernels.h"
#include "lm/features.h"

namespace slip {

/// x += proj(attention(rotate(qkv(norm1(x))))); x += down(silu(gate) * up).
struct DeviceVisionBlock {
  std::span<const float> norm1_D, norm2_D, qkv_bias, proj_bias, gate_up_bias, down_bias;
  const PackedMatrix *qkv = nullptr, *proj = nullptr, *gate_up = nullptr, *down = nullptr;
  bool sees_frames = false;  // else windows
};

struct DeviceVisionWeights {
  int32_t width = 0, heads = 0;
  int32_t cell_patches = 1;  // side by side in a row of the merger
  float eps = 0;
  const PackedMatrix *patch_embed = nullptr, *merger_0 = nullptr, *merger_2 = nullptr;
  std::vector<DeviceVisionBlock> blocks;
  std::span<const float> merger_norm_D, merger_0_bias, merger_2_bias;
};

/// A picture of which the device makes the patches: resized by Pillow's bicubic (image/bicubic.h), bytes turned into numbers by the table, cut into
/// patches as PatchGrid (image/qwen_preprocess.h) has them.
struct DevicePicture {
  std::span<const uint8_t> rgb;  // as Image has it
  int32_t width = 0, height = 0;
  int32_t to_width = 0, to_height = 0;
  const BicubicTaps *across = nullptr, *down = nullptr;  // null: keeps its size
  bool down_first = false;
  const ChannelTable* table = nullptr;
  int32_t patch = 0, merge = 0, frames = 0;
};

/// An image of a call: its pixel values, or its picture.
struct DeviceImage {
  int32_t patches = 0;
  ContentHash content;
  std::span<const float> pixels_PN;
  std::optional<DevicePicture> picture;
};

/// Row r of the work is patch source_P[r] of all images' patches; an image's rows stand together, in the images' order. A row sees the spans of rows
/// that its line of `windows_P` or `frames_P` names. Spans of pixels and pictures are of room().
struct DeviceVisionPass {
  std::span<const DeviceImage> images;
  std::span<const int32_t> source_P;
  std::span<const float> cos_PK2, sin_PK2;
  std::span<const RowSpans> windows_P, frames_P;
  std::span<const SlotSpan> windows, frames;
};

class DeviceVision {
 public:
  virtual ~DeviceVision() = default;
  /// Room for a call's pixel values and pictures, from where the device reads them quickest; the caller writes them. kResource for anything
  /// about the device.
  struct Room {
    std::span<float> pixels;
    std::span<uint8_t> pictures;
  };
  virtual Result<Room> room(size_t numbers, size_t bytes) = 0;
  /// Of each image its features, which stay on the device: a row per cell, in the cells' order.
  virtual Result<std::vector<FeatureBlock>> encode(const DeviceVisionPass& pass) = 0;
};

}  // namespace slip
