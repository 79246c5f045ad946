// SPDX-License-Identifier: Apache-2.0
// The door to the decoders: which format the first bytes announce, limits, turning upright, and one-line errors.
#include "image/image.h"

#include <cstring>
#include <new>

#include "base/file.h"
#include "image/decoders.h"

namespace slip {
namespace {

using image_detail::Bytes;
using image_detail::Decoded;

bool starts_with(Bytes bytes, size_t at, std::string_view what) {
  return bytes.size() >= at + what.size() && std::memcmp(bytes.data() + at, what.data(), what.size()) == 0;
}

/// The first bytes, for a message: printable ones as they are, others as \xNN.
std::string first_bytes(Bytes bytes) {
  if (bytes.empty()) return "an empty file";
  std::string s = "a file that starts with '";
  for (const std::byte b : bytes.first(std::min<size_t>(bytes.size(), 8))) {
    const auto c = std::to_integer<unsigned char>(b);
    s += c >= 0x20 && c < 0x7f ? std::string(1, static_cast<char>(c)) : fmt::format("\\x{:02x}", c);
  }
  return s + "'";
}

Result<Decoded> decode_any(Bytes bytes, std::string_view name, const ImageOptions& o) {
  using namespace std::string_view_literals;
  if (starts_with(bytes, 0, "\xff\xd8\xff"sv)) return image_detail::decode_jpeg(bytes, name, o);
  if (starts_with(bytes, 0, "\x89PNG\r\n\x1a\n"sv)) return image_detail::decode_png(bytes, name, o);
  if (starts_with(bytes, 0, "RIFF"sv) && starts_with(bytes, 8, "WEBP"sv)) return image_detail::decode_webp(bytes, name, o);
  if (bytes.size() >= 2 && bytes[0] == std::byte{'P'} && bytes[1] >= std::byte{'1'} && bytes[1] <= std::byte{'6'})
    return image_detail::decode_ppm(bytes, name, o);
  return bad_input("{}: expected a JPEG, PNG, WebP or PPM image, got {}", name, first_bytes(bytes));
}

}  // namespace

namespace image_detail {

Status check_size(int64_t width, int64_t height, std::string_view name, const ImageOptions& o) {
  if (width < 1 || height < 1) return bad_input("{}: expected an image of at least 1 x 1 pixels, got {} x {}", name, width, height);
  if (width > INT32_MAX || height > INT32_MAX || width > o.max_pixels / height)
    return bad_input("{}: expected at most {} pixels, got {} x {}", name, o.max_pixels, width, height);
  return {};
}

Status check_density(int64_t width, int64_t height, size_t bytes, std::string_view name) {
  constexpr int64_t kFreePixels = int64_t{1} << 24, kPixelsPerByte = 1024;
  const int64_t pixels = width * height, least = pixels / kPixelsPerByte;
  if (pixels <= kFreePixels || least <= static_cast<int64_t>(bytes)) return {};
  return bad_input("{}: expected at least {} bytes for {} x {} pixels, got {}", name, least, width, height, bytes);
}

}  // namespace image_detail

Result<Image> decode_image(std::span<const std::byte> bytes, std::string_view name, const ImageOptions& o) {
  try {
    SLIP_TRY(Decoded d, decode_any(bytes, name, o));
    return image_detail::upright(std::move(d.image), d.orientation);
  } catch (const std::bad_alloc&) {
    return resource_error("{}: expected enough memory to decode the image, got none", name);
  }
}

Result<Image> load_image(const std::filesystem::path& file, const ImageOptions& o) {
  SLIP_TRY(const std::string bytes, read_file(file));
  return decode_image(std::as_bytes(std::span(bytes)), file.string(), o);
}

Status save_png(const std::filesystem::path& file, const Image& image) {
  SLIP_TRY(const auto bytes, encode_png(image));
  return write_file(file, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace slip
