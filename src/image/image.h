// SPDX-License-Identifier: Apache-2.0
// Images: decoding (JPEG, PNG, WebP, PPM; EXIF orientation), Pillow's fixed-point bicubic bit for bit, PNG writing.
#pragma once
#include <cstdint>
#include <filesystem>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

/// 8-bit RGB, rows top to bottom, interleaved: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// What happens to transparency, and to 16-bit grey.
enum class AlphaMode { kDrop /* as transformers' processor */, kWhite /* composited over white, as qwen-vl-utils */ };

struct DecodeOptions {
  AlphaMode alpha = AlphaMode::kDrop;
  int64_t max_pixels = int64_t{1} << 28;  // a larger image is refused before it is decoded
};

/// kBadInput: "<name>: expected a JPEG, PNG, WebP or PPM image, got ..." or the decoder's reason (a truncated file is an error).
Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view name, const DecodeOptions& o = {});
Result<Image> load_image(const std::filesystem::path& file, const DecodeOptions& o = {});
/// Pillow 12's BICUBIC on u8: horizontal pass first (vertical first when height > 100 width and the height shrinks).
Image resize_bicubic(const Image& in, int width, int height);
Result<std::vector<std::byte>> encode_png(const Image& image);
Status save_png(const std::filesystem::path& file, const Image& image);

}  // namespace slip
