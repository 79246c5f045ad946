// SPDX-License-Identifier: Apache-2.0
// From an image to the planes that plain ViTs read, as two published processors do it:
//   PrismaticImageProcessor (OpenVLA, MiniVLA): per tower resize, centre crop, x / 255 in float, (x - mean) / std with what
//     `tvf_normalize_params` says, which the public conversion rounded to bfloat16; towers stacked, DINOv2 first;
//   BitImageProcessor (Hugging Face's DINOv2): resize, centre crop, x * rescale_factor in double, (x - mean) / std in float.
// Both resize with Pillow's bicubic on bytes. Equal to them bit for bit, given the same decoded pixels.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "image/image.h"
#include "image/qwen_preprocess.h"

namespace slip {

/// (x - mean) / std of red, green and blue.
struct ChannelScaling {
  std::array<double, 3> mean, std;
};

/// The planes of one tower.
struct TowerPlanes {
  enum class Resize : uint8_t { kNone, kExact /* height x width, aspect not kept */, kShortestEdge };
  Resize resize = Resize::kExact;
  int height = 0, width = 0, edge = 0;
  int crop_height = 0, crop_width = 0;  // 0: no crop
  ChannelScaling scaling{};
};

struct PlanesConfig {
  std::vector<TowerPlanes> towers;
  bool letterbox = false;  // pad to a square of this colour first
  std::array<uint8_t, 3> fill{};
  bool rescale_in_double = false;  // (float)(x * rescale_factor), else (float)x / 255
  double rescale_factor = 1.0 / 255;
  bool halves_to_even = false;  // where an odd margin is cut: torchvision rounds half of it, the library's own code cuts it down
  /// The size that every picture gets; nothing where it depends on the picture.
  std::optional<int> height, width;
};

/// preprocessor_config.json of either processor. kBadInput for wrong types and impossible numbers, kUnsupported for steps, filters
/// and processors that are not done.
Result<PlanesConfig> planes_config(const json::object& o, std::string_view where);

/// values[(channel * height + y) * width + x]; channels of all towers one behind the other.
struct Planes {
  int channels = 0, height = 0, width = 0;
  std::vector<float> values;
};
/// The size alone.
Result<Size> planes_size(int height, int width, const PlanesConfig& config);
/// kBadInput for a picture that becomes too large, or smaller than the crop; kUnsupported when towers want different sizes.
Result<Planes> image_planes(const Image& image, const PlanesConfig& config);

}  // namespace slip
