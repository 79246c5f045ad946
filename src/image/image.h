// SPDX-License-Identifier: Apache-2.0
// Images: decoding (JPEG, PNG, WebP, PPM; EXIF orientation), Pillow's fixed-point bicubic bit for bit, PNG writing.
//
// Pixels are those that Pillow gives after exif_transpose and convert("RGB"), because checkpoints were trained on them:
// transparency is dropped, the low byte of 16-bit colour is dropped, CMYK is taken as Adobe writes it (inverted). 16-bit *grey* loses its
// low byte too. Pillow clips it to 255, so that nearly every pixel turns white, which no camera means; Grey16::kClip does that.
// Differs from Pillow: a JPEG whose data ends early, or is damaged, is an error even where libjpeg would fill in grey; an
// orientation that stands only in XMP is not looked for; animated WebP is refused.
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

/// What happens to transparency.
enum class AlphaMode { kDrop /* as transformers' processor */, kWhite /* composited over white, as qwen-vl-utils */ };
/// What happens to 16-bit grey: min(v, 255) as Pillow does, or v >> 8.
enum class Grey16 { kClip, kHighByte };

struct ImageOptions {
  AlphaMode alpha = AlphaMode::kDrop;
  int64_t max_pixels = int64_t{1} << 28;  // a larger image is refused before it is decoded
  Grey16 grey16 = Grey16::kHighByte;
};

/// kBadInput: "<name>: expected a JPEG, PNG, WebP or PPM image, got ..." or the decoder's reason (a truncated file is an error).
Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view name, const ImageOptions& o = {});
Result<Image> load_image(const std::filesystem::path& file, const ImageOptions& o = {});
/// Pillow 12's BICUBIC on u8: horizontal pass first (vertical first when height > 100 width and the height shrinks).
/// All four sizes must be at least 1.
Image resize_bicubic(const Image& in, int width, int height);
Result<std::vector<std::byte>> encode_png(const Image& image);
Status save_png(const std::filesystem::path& file, const Image& image);

}  // namespace slip
