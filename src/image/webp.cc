// SPDX-License-Identifier: Apache-2.0
// WebP through libwebp; the EXIF chunk of the extended container is found by walking the RIFF chunks.
#include <webp/decode.h>

#include <cstring>

#include "image/decoders.h"

namespace slip::image_detail {
namespace {

uint32_t little_u32(Bytes b, size_t at) {
  uint32_t v = 0;
  for (size_t i = 4; i-- > 0;) v = (v << 8) | std::to_integer<uint32_t>(b[at + i]);
  return v;
}

int orientation_of(Bytes bytes) {
  for (size_t at = 12; at + 8 <= bytes.size();) {
    const size_t size = little_u32(bytes, at + 4);
    if (size > bytes.size() - at - 8) return 1;
    if (std::memcmp(bytes.data() + at, "EXIF", 4) == 0) {
      Bytes body = bytes.subspan(at + 8, size);
      if (body.size() > 6 && std::memcmp(body.data(), "Exif\0", 6) == 0) body = body.subspan(6);
      return exif_orientation(body);
    }
    at += 8 + size + (size & 1);
  }
  return 1;
}

/// libwebp takes what it needs from a file that lost its tail; a RIFF whose size field says more than there is, is truncated.
bool is_whole(Bytes bytes) { return bytes.size() >= 12 && little_u32(bytes, 4) <= bytes.size() - 8; }

}  // namespace

Result<Decoded> decode_webp(Bytes bytes, std::string_view name, const ImageOptions& o) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  WebPBitstreamFeatures features;
  if (WebPGetFeatures(data, bytes.size(), &features) != VP8_STATUS_OK)
    return bad_input("{}: expected an intact WebP, got a header that libwebp refuses", name);
  if (features.has_animation) return unsupported("{}: expected a still WebP, got an animation", name);
  SLIP_TRY_(check_size(features.width, features.height, name, o));
  SLIP_TRY_(check_density(features.width, features.height, bytes.size(), name));
  if (!is_whole(bytes))
    return bad_input("{}: expected {} bytes of WebP, got {}", name, little_u32(bytes, 4) + size_t{8}, bytes.size());

  const size_t pixels = static_cast<size_t>(features.width) * static_cast<size_t>(features.height);
  const bool white = o.alpha == AlphaMode::kWhite && features.has_alpha;
  const size_t channels = white ? 4 : 3;
  std::vector<uint8_t> stored(pixels * channels);
  const int stride = features.width * static_cast<int>(channels);
  const uint8_t* done = white ? WebPDecodeRGBAInto(data, bytes.size(), stored.data(), stored.size(), stride)
                              : WebPDecodeRGBInto(data, bytes.size(), stored.data(), stored.size(), stride);
  if (done == nullptr) return bad_input("{}: expected an intact WebP, got data that libwebp cannot decode", name);

  Decoded d{{features.width, features.height, {}}, orientation_of(bytes)};
  if (!white) {
    d.image.rgb = std::move(stored);
    return d;
  }
  d.image.rgb.resize(pixels * 3);
  for (size_t i = 0; i < pixels; ++i) {
    for (size_t c = 0; c < 3; ++c) d.image.rgb[3 * i + c] = over_white(stored[4 * i + c], stored[4 * i + 3]);
  }
  return d;
}

}  // namespace slip::image_detail
