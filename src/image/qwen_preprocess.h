// SPDX-License-Identifier: Apache-2.0
// From an image to Qwen2-VL's patches (Qwen2.5-VL, Fast-dVLM, Fast-dDrive). Equal to transformers' PIL processor bit for bit, given the same
// decoded pixels: a byte is rescaled in double and rounded to float.
#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/content_hash.h"
#include "base/json.h"
#include "base/result.h"
#include "image/image.h"

namespace slip {

/// preprocessor_config.json of the Qwen2-VL family; a missing key has the class's default, which is what stands here.
struct PreprocessorConfig {
  int64_t min_pixels = 56 * 56;         // or size.shortest_edge: a number of pixels in spite of its name
  int64_t max_pixels = 28 * 28 * 1280;  // or size.longest_edge
  int patch_size = 14, temporal_patch_size = 2, merge_size = 2;
  double rescale_factor = 1.0 / 255;
  std::array<double, 3> image_mean = {0.48145466, 0.4578275, 0.40821073};
  std::array<double, 3> image_std = {0.26862954, 0.26130258, 0.27577711};

  int factor() const { return patch_size * merge_size; }
  int patch_dim() const { return 3 * temporal_patch_size * patch_size * patch_size; }
};

/// kBadInput for wrong types and impossible numbers; kUnsupported where a step is switched off or another filter is asked for.
Result<PreprocessorConfig> preprocessor_config(const json::object& o, std::string_view where);
Result<PreprocessorConfig> read_preprocessor_config(const std::filesystem::path& file);

struct Size {
  int height = 0, width = 0;
  bool operator==(const Size&) const = default;
};

/// Sides that are multiples of `factor` (quotients rounded half to even), with an area in [min_pixels, max_pixels] and about the
/// same shape; no side below `factor`. kBadInput for an aspect ratio above 200.
Result<Size> smart_resize(int height, int width, int factor, int64_t min_pixels, int64_t max_pixels);

/// A picture whose patches are still to be made: a tower on a device resizes and cuts it there.
struct PatchSource {
  std::shared_ptr<const Image> image;
  PreprocessorConfig config;
};

/// values[p * patch_dim + n]: P = t h w patches in merge-block order (block row, block column, row and column in the block);
/// columns (channel, frame, y, x), the still image standing in every frame. h and w count patches, merged features are fewer.
struct PatchGrid {
  int t = 0, h = 0, w = 0, patch_dim = 0, merge_size = 1;
  std::vector<float> values;
  std::shared_ptr<const PatchSource> source;  // in place of the values, where a device makes them
  /// > 0 for a plain ViT (openvla_preprocess.h): `values` are planes [channel][y][x] of this size, not patches.
  int plane_height = 0, plane_width = 0;
  ContentHash content = {};  // of the values, where somebody has taken it: features are found again by it
  int patches() const { return t * h * w; }
  int merged() const { return patches() / (merge_size * merge_size); }
};

/// smart_resize, Pillow's bicubic, (float)(x * rescale_factor), (x - mean) / std in float.
Result<PatchGrid> qwen_patches(const Image& image, const PreprocessorConfig& config);
/// The same grid without its values, which a device makes of the picture; with the content's hash. A tower that runs here refuses it.
Result<PatchGrid> patches_to_make(std::shared_ptr<const Image> image, const PreprocessorConfig& config);
/// What each byte of each channel becomes.
using ChannelTable = std::array<std::array<float, 256>, 3>;
ChannelTable normalising_table(const PreprocessorConfig& config);
/// The part after the resize; both sides must be multiples of config.factor() (an invariant, not an input error).
PatchGrid patches_of(const Image& resized, const PreprocessorConfig& config);

}  // namespace slip
