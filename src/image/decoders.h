// SPDX-License-Identifier: Apache-2.0
// Private to this folder: one function per file format, and what they share. A decoder checks sizes before it allocates, gives
// the pixels as stored, and leaves turning them by the EXIF orientation to decode_image.
#pragma once
#include <span>
#include <string_view>

#include "image/image.h"

namespace slip::image_detail {

using Bytes = std::span<const std::byte>;

struct Decoded {
  Image image;
  int orientation = 1;  // EXIF: 1 to 8
};

Result<Decoded> decode_jpeg(Bytes bytes, std::string_view name, const ImageOptions& o);
Result<Decoded> decode_png(Bytes bytes, std::string_view name, const ImageOptions& o);
Result<Decoded> decode_webp(Bytes bytes, std::string_view name, const ImageOptions& o);
Result<Decoded> decode_ppm(Bytes bytes, std::string_view name, const ImageOptions& o);

/// Orientation from a TIFF header with its first directory ("II*\0" or "MM\0*" on); 1 if there is none or it is malformed.
int exif_orientation(Bytes tiff);
/// The picture as it is to be seen. `orientation` as in EXIF; anything outside 2..8 leaves it alone.
Image upright(Image image, int orientation);

/// kBadInput unless both sides are at least 1 and the area is at most o.max_pixels.
Status check_size(int64_t width, int64_t height, std::string_view name, const ImageOptions& o);

/// For codes without a bound on pixels per byte, where flat areas cost nothing: kBadInput for a picture of more than 2^24 pixels
/// (48 MiB as RGB) with more than 1024 pixels a byte, so that a few bytes cannot ask for hundreds of megabytes.
Status check_density(int64_t width, int64_t height, size_t bytes, std::string_view name);

/// a * alpha + 255 * (255 - alpha), over 255, rounded as Pillow's 8-bit paste rounds.
constexpr uint8_t over_white(uint8_t a, uint8_t alpha) {
  const unsigned t = a * unsigned{alpha} + 255u * (255u - alpha) + 128u;
  return static_cast<uint8_t>(((t >> 8) + t) >> 8);
}

}  // namespace slip::image_detail
