// SPDX-License-Identifier: Apache-2.0
// A windowed vision transformer as a device's plug-in gets it: weights where the processor has them, and one call's rows in the order in which
// they are worked on. What the numbers mean and in which order patches come: models/vision/qwen_vision.h.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "kernels/kernels.h"

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

/// Row r of the work is patch source_P[r] of the pixels. A row sees the spans of rows that its line of `windows_P` or `frames_P` names.
struct DeviceVisionPass {
  std::span<const float> pixels_PN;
  std::span<const int32_t> source_P;
  std::span<const float> cos_PK2, sin_PK2;
  std::span<const RowSpans> windows_P, frames_P;
  std::span<const SlotSpan> windows, frames;
};

class DeviceVision {
 public:
  virtual ~DeviceVision() = default;
  /// Room for a call's pixels, from where the device reads them quickest; the caller writes them. kResource for anything about the device.
  virtual Result<std::span<float>> pixel_room(size_t numbers) = 0;
  /// Features, a row per cell in the order of the work; they stay until the next call.
  virtual Result<std::span<const float>> encode(const DeviceVisionPass& pass) = 0;
};

}  // namespace slip
