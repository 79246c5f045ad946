// SPDX-License-Identifier: Apache-2.0
// A driving request's pictures for benchmarks: bytes as they arrive, and their way to feature rows with the time of each stage.
#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"

namespace slip::cli {

inline constexpr int64_t kDrivingPixels = 200704;  // 256 x 28 x 28 per camera [docs/notes/driving.md#wod-e2e]

struct PictureBytes {
  std::string name;
  std::vector<std::byte> bytes;
};
/// The files, or `cameras` made pictures.
Result<std::vector<PictureBytes>> driving_pictures(const std::vector<std::string>& files, int cameras, int width, int height);

struct EncodedPictures {
  std::vector<PatchGrid> grids;
  Features features;
  double decode_ms = 0, resize_ms = 0, tower_ms = 0;  // a tower on a device resizes too: in its time
  VisionTimes tower;
};
/// Pictures in patches: `grids` and the times of decoding and resizing, side by side. kUnsupported without Qwen2.5-VL's tower.
Result<EncodedPictures> patch_pictures(Model& model, std::span<const PictureBytes> pictures, int64_t max_pixels);
/// From patches to features.
Status run_tower(Model& model, EncodedPictures& pictures);
/// Both.
Result<EncodedPictures> encode_pictures(Model& model, std::span<const PictureBytes> pictures, int64_t max_pixels);

}  // namespace slip::cli
