// SPDX-License-Identifier: Apache-2.0
// EXIF, as far as a picture needs it: the orientation tag (0x0112) of the first TIFF directory, and the eight turns and flips
// that it names (Exif 2.32, 4.6.4 A). Everything is read through bounds checks; a malformed block means "upright".
#include <cstring>
#include <optional>

#include "image/decoders.h"

namespace slip::image_detail {
namespace {

/// Numbers of either byte order inside a block; nothing outside it is ever read.
class TiffReader {
 public:
  TiffReader(Bytes bytes, bool big_endian) : bytes_(bytes), big_(big_endian) {}
  std::optional<uint32_t> number(size_t at, size_t size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) return std::nullopt;
    uint32_t v = 0;
    for (size_t i = 0; i < size; ++i) {
      const size_t from = big_ ? i : size - 1 - i;
      v = (v << 8) | std::to_integer<uint32_t>(bytes_[at + from]);
    }
    return v;
  }

 private:
  Bytes bytes_;
  bool big_;
};

}  // namespace

int exif_orientation(Bytes tiff) {
  if (tiff.size() < 8) return 1;
  const bool big = std::memcmp(tiff.data(), "MM\0*", 4) == 0;
  if (!big && std::memcmp(tiff.data(), "II*\0", 4) != 0) return 1;
  const TiffReader r(tiff, big);
  const size_t directory = *r.number(4, 4);
  const auto entries = r.number(directory, 2);
  if (!entries) return 1;
  for (size_t i = 0; i < *entries; ++i) {
    const size_t entry = directory + 2 + 12 * i;
    const auto tag = r.number(entry, 2), type = r.number(entry + 2, 2), count = r.number(entry + 4, 4);
    if (!tag || !type || !count) return 1;
    if (*tag != 0x0112) continue;
    constexpr uint32_t kShort = 3, kLong = 4;
    if (*count != 1 || (*type != kShort && *type != kLong)) return 1;
    const auto value = r.number(entry + 8, *type == kShort ? 2 : 4);
    return value && *value >= 1 && *value <= 8 ? static_cast<int>(*value) : 1;
  }
  return 1;
}

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  const int w = image.width, h = image.height;
  const bool swap = orientation >= 5;
  Image out{swap ? h : w, swap ? w : h, std::vector<uint8_t>(image.rgb.size())};
  // Which source pixel becomes the first one, and where its right and lower neighbours in the result come from.
  const bool from_right = orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
  const bool from_bottom = orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
  const ptrdiff_t step_x = from_right ? -3 : 3, step_y = (from_bottom ? -3 : 3) * ptrdiff_t{w};
  const uint8_t* first = image.rgb.data() + 3 * ((from_bottom ? h - 1 : 0) * ptrdiff_t{w} + (from_right ? w - 1 : 0));
  const ptrdiff_t right = swap ? step_y : step_x, down = swap ? step_x : step_y;
  uint8_t* to = out.rgb.data();
  for (int y = 0; y < out.height; ++y) {
    for (int x = 0; x < out.width; ++x, to += 3) std::memcpy(to, first + y * down + x * right, 3);
  }
  return out;
}

}  // namespace slip::image_detail
