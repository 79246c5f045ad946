// SPDX-License-Identifier: Apache-2.0
// PNG through libpng, reading and writing. Reading keeps what Pillow keeps: palettes are expanded, 1, 2 and 4-bit grey is
// stretched to 8, 16-bit colour loses its low byte, 16-bit grey follows ImageOptions::grey16, gamma chunks are ignored.
//
// libpng's errors jump back into the one function that set the jump; what owns memory lives in the caller.
#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <png.h>

#include "base/check.h"
#include "image/decoders.h"

namespace slip {
namespace image_detail {
namespace {

// Deflate never expands more than 1032 to 1 (zlib's technical notes), so a short file cannot hold a large picture.
constexpr int64_t kMaxInflation = 1032;

uint32_t big_u32(Bytes b, size_t at) {
  uint32_t v = 0;
  for (size_t i = 0; i < 4; ++i) v = v << 8 | std::to_integer<uint32_t>(b[at + i]);
  return v;
}

/// libpng asks for the memory that a chunk claims (EXIF, profiles, texts) before it reads: up to 2 GB for a file of 70 bytes. So the
/// claims are held against the file first: signature, then chunks of length, type, body, sum.
Status check_chunks(Bytes bytes, std::string_view name) {
  for (size_t at = 8; bytes.size() - at >= 12;) {
    const size_t length = big_u32(bytes, at), rest = bytes.size() - at - 12;
    if (length > rest)
      return bad_input("{}: expected PNG chunks inside the file, got one of {} bytes before the last {}", name, length, rest);
    if (std::memcmp(bytes.data() + at + 4, "IEND", 4) == 0) break;
    at += 12 + length;
  }
  return {};
}

struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  Bytes bytes;
  size_t at = 0;
  std::vector<std::byte>* out = nullptr;  // when writing
  bool no_memory = false;
  char message[160] = {};
};

[[noreturn]] void on_error(png_structp png, png_const_charp text) {
  std::snprintf(static_cast<Session*>(png_get_error_ptr(png))->message, sizeof Session::message, "%s", text);
  png_longjmp(png, 1);
}
void on_warning(png_structp, png_const_charp) {}

void on_read(png_structp png, png_bytep to, size_t n) {
  Session& s = *static_cast<Session*>(png_get_io_ptr(png));
  if (n > s.bytes.size() - s.at) png_error(png, "the file ends early");
  std::memcpy(to, s.bytes.data() + s.at, n);
  s.at += n;
}

struct Reader : Session {
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

// Texts, palettes that are suggested and colour profiles, which no pixel depends on here: names of four letters, each with its zero.
constexpr png_byte kSkipped[] = "zTXt\0iTXt\0tEXt\0sPLT\0iCCP";

/// libpng would inflate up to 1,000 texts to 8 MB each, and keep them all: 8 GB for a file of 8 MB. So those chunks are skipped.
bool read_header(Reader& s) {
  s.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
  if (s.png == nullptr) return false;
  if (setjmp(png_jmpbuf(s.png))) return false;
  s.info = png_create_info_struct(s.png);
  if (s.info == nullptr) png_error(s.png, "no memory");
  png_set_read_fn(s.png, &s, on_read);
  png_set_keep_unknown_chunks(s.png, PNG_HANDLE_CHUNK_NEVER, kSkipped, sizeof kSkipped / 5);
  png_read_info(s.png, s.info);
  return true;
}

/// Asks for grey, grey + alpha, RGB or RGBA rows: 8 bits each, but for 16-bit grey without alpha, which stays 16.
bool ask_for_rows(Reader& s, bool want_alpha) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  const int colour = png_get_color_type(s.png, s.info), depth = png_get_bit_depth(s.png, s.info);
  if (colour == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(s.png);
  if (colour == PNG_COLOR_TYPE_GRAY && depth < 8) png_set_expand_gray_1_2_4_to_8(s.png);
  const bool grey16 = colour == PNG_COLOR_TYPE_GRAY && depth == 16;
  if (want_alpha && !grey16 && png_get_valid(s.png, s.info, PNG_INFO_tRNS)) png_set_tRNS_to_alpha(s.png);
  if (depth == 16 && !grey16) png_set_strip_16(s.png);
  png_set_interlace_handling(s.png);
  png_read_update_info(s.png, s.info);
  return true;
}

bool read_rows(Reader& s, png_bytep* rows) {
  if (setjmp(png_jmpbuf(s.png))) return false;
  png_read_image(s.png, rows);
  png_read_end(s.png, s.info);
  return true;
}

int orientation_of(Reader& s) {
  png_bytep exif = nullptr;
  png_uint_32 size = 0;
  if (setjmp(png_jmpbuf(s.png))) return 1;
  if (png_get_eXIf_1(s.png, s.info, &size, &exif) == 0 || exif == nullptr) return 1;
  return exif_orientation(std::as_bytes(std::span(exif, size)));
}

/// Rows of `channels` (1 to 4) bytes a pixel, or of 16-bit big-endian grey, to RGB.
void to_rgb(const std::vector<uint8_t>& stored, size_t channels, bool grey16, const ImageOptions& o, std::vector<uint8_t>& rgb) {
  const size_t pixels = rgb.size() / 3;
  if (grey16) {
    for (size_t i = 0; i < pixels; ++i) {
      const uint8_t high = stored[2 * i], low = stored[2 * i + 1];
      std::memset(&rgb[3 * i], o.grey16 == Grey16::kHighByte ? high : high != 0 ? 255 : low, 3);
    }
    return;
  }
  const bool grey = channels <= 2, white = o.alpha == AlphaMode::kWhite && channels % 2 == 0;
  for (size_t i = 0; i < pixels; ++i) {
    const uint8_t* p = &stored[channels * i];
    const uint8_t alpha = white ? p[channels - 1] : 255;
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = over_white(p[grey ? 0 : c], alpha);  // alpha 255 keeps the value
  }
}

Error broken(std::string_view name, const Session& s) {
  return bad_input("{}: expected an intact PNG, got one where libpng says: {}", name, s.message);
}

}  // namespace

Result<Decoded> decode_png(Bytes bytes, std::string_view name, const ImageOptions& o) {
  SLIP_TRY_(check_chunks(bytes, name));
  Reader s;
  s.bytes = bytes;
  if (!read_header(s)) return broken(name, s);
  const int64_t width = png_get_image_width(s.png, s.info), height = png_get_image_height(s.png, s.info);
  SLIP_TRY_(check_size(width, height, name, o));
  const int64_t bits = int64_t{png_get_bit_depth(s.png, s.info)} * png_get_channels(s.png, s.info);
  const int64_t least = width * height * bits / 8 / kMaxInflation;
  if (least > static_cast<int64_t>(bytes.size()))
    return bad_input("{}: expected at least {} bytes for {} x {} pixels, got {}", name, least, width, height, bytes.size());
  if (!ask_for_rows(s, o.alpha == AlphaMode::kWhite)) return broken(name, s);

  const size_t row_bytes = png_get_rowbytes(s.png, s.info), channels = png_get_channels(s.png, s.info);
  const bool grey16 = png_get_bit_depth(s.png, s.info) == 16;
  std::vector<uint8_t> stored(row_bytes * static_cast<size_t>(height));
  std::vector<png_bytep> rows(static_cast<size_t>(height));
  for (size_t y = 0; y < rows.size(); ++y) rows[y] = stored.data() + y * row_bytes;
  if (!read_rows(s, rows.data())) return broken(name, s);

  Decoded d{{static_cast<int>(width), static_cast<int>(height), {}}, orientation_of(s)};
  if (channels == 3 && !grey16) {
    d.image.rgb = std::move(stored);
  } else {
    d.image.rgb.resize(static_cast<size_t>(width * height) * 3);
    to_rgb(stored, channels, grey16, o, d.image.rgb);
  }
  return d;
}

namespace {

struct Writer : Session {
  ~Writer() { png_destroy_write_struct(&png, &info); }
};

void on_write(png_structp png, png_bytep from, size_t n) {
  Session& s = *static_cast<Session*>(png_get_io_ptr(png));
  try {
    const auto* b = reinterpret_cast<const std::byte*>(from);
    s.out->insert(s.out->end(), b, b + n);
  } catch (const std::bad_alloc&) {  // an exception must not cross C frames
    s.no_memory = true;
  }
  if (s.no_memory) png_error(png, "no memory");
}

bool write_all(Writer& s, const Image& image) {
  s.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &s, on_error, on_warning);
  if (s.png == nullptr) return false;
  if (setjmp(png_jmpbuf(s.png))) return false;
  s.info = png_create_info_struct(s.png);
  if (s.info == nullptr) png_error(s.png, "no memory");
  png_set_write_fn(s.png, &s, on_write, [](png_structp) {});
  png_set_IHDR(s.png, s.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height), 8, PNG_COLOR_TYPE_RGB,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(s.png, s.info);
  for (int y = 0; y < image.height; ++y)
    png_write_row(s.png, image.rgb.data() + static_cast<size_t>(y) * static_cast<size_t>(image.width) * 3);
  png_write_end(s.png, s.info);
  return true;
}

}  // namespace
}  // namespace image_detail

Result<std::vector<std::byte>> encode_png(const Image& image) {
  SLIP_CHECK(image.width > 0 && image.height > 0 && image.rgb.size() == size_t{3} * image.width * image.height,
             "an image holds 3 bytes a pixel");
  std::vector<std::byte> out;
  image_detail::Writer s;
  s.out = &out;
  if (!image_detail::write_all(s, image))
    return resource_error("PNG: expected to write {} x {} pixels, got: {}", image.width, image.height, s.message);
  return out;
}

}  // namespace slip
