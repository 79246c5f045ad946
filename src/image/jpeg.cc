// SPDX-License-Identifier: Apache-2.0
// JPEG through libjpeg-turbo with its default settings (accurate integer DCT, smooth chroma upsampling), as Pillow uses it.
//
// libjpeg reports errors by a callback that must not return. It jumps back into read_header or read_rows, which hold no object
// with a destructor: everything that owns something lives in the caller. libjpeg's *warnings* are split: damage (data that ends
// early, bad Huffman codes, lost restart markers) is an error here, odd but harmless files (stray bytes between markers,
// strange JFIF versions) pass.
#include <csetjmp>
#include <cstdio>  // jpeglib.h needs FILE
#include <cstring>

#include <jpeglib.h>
// after jpeglib.h
#include <jerror.h>

#include "image/decoders.h"

namespace slip::image_detail {
namespace {

// A progressive file may carry any number of scans, each a pass over the whole picture; encoders write about ten.
constexpr int kMaxScans = 500;
// Huffman coding spends at least one bit on a block of 64 pixels, so a file cannot hold more than 512 pixels a byte.
constexpr int64_t kMaxPixelsPerByte = 512;

struct Session {
  jpeg_decompress_struct codec{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  jmp_buf escape{};
  char message[JMSG_LENGTH_MAX] = {};

  ~Session() { jpeg_destroy_decompress(&codec); }  // safe on a zeroed structure too
};

Session& session_of(j_common_ptr c) { return *static_cast<Session*>(c->client_data); }

[[noreturn]] void leave(j_common_ptr c) {
  Session& s = session_of(c);
  c->err->format_message(c, s.message);
  std::longjmp(s.escape, 1);
}

bool is_damage(int code) {
  switch (code) {
    case JWRN_ADOBE_XFORM:
    case JWRN_EXTRANEOUS_DATA:
    case JWRN_JFIF_MAJOR:
    case JWRN_TOO_MUCH_DATA:
      return false;
    default:
      return true;
  }
}

void on_message(j_common_ptr c, int level) {
  if (level < 0 && is_damage(c->err->msg_code)) leave(c);  // -1 is a warning, 0 and more are traces
}

void on_progress(j_common_ptr c) {
  if (c->is_decompressor && reinterpret_cast<j_decompress_ptr>(c)->input_scan_number > kMaxScans) {
    Session& s = session_of(c);
    std::snprintf(s.message, sizeof s.message, "more than %d scans", kMaxScans);
    std::longjmp(s.escape, 1);
  }
}

/// False: s.message says why.
bool read_header(Session& s, const unsigned char* data, unsigned long size) {
  s.codec.err = jpeg_std_error(&s.errors);
  s.errors.error_exit = leave;
  s.errors.emit_message = on_message;
  s.errors.output_message = [](j_common_ptr) {};
  s.codec.client_data = &s;
  if (setjmp(s.escape)) return false;
  jpeg_create_decompress(&s.codec);
  s.codec.client_data = &s;
  s.progress.progress_monitor = on_progress;
  s.codec.progress = &s.progress;
  jpeg_save_markers(&s.codec, JPEG_APP0 + 1, 0xffff);
  jpeg_mem_src(&s.codec, data, size);
  jpeg_read_header(&s.codec, TRUE);
  return true;
}

/// All rows, in the codec's colours, and the end of the file.
bool read_rows(Session& s, unsigned char* out, size_t stride) {
  if (setjmp(s.escape)) return false;
  jpeg_start_decompress(&s.codec);
  while (s.codec.output_scanline < s.codec.output_height) {
    JSAMPROW row = out + s.codec.output_scanline * stride;
    jpeg_read_scanlines(&s.codec, &row, 1);
  }
  jpeg_finish_decompress(&s.codec);
  return true;
}

int orientation_of(const Session& s) {
  static constexpr char kPrefix[] = "Exif\0";  // and the literal's own zero: six bytes
  for (auto* m = s.codec.marker_list; m != nullptr; m = m->next) {
    if (m->marker == JPEG_APP0 + 1 && m->data_length > sizeof kPrefix && std::memcmp(m->data, kPrefix, sizeof kPrefix) == 0)
      return exif_orientation(std::as_bytes(std::span(m->data, m->data_length)).subspan(sizeof kPrefix));
  }
  return 1;
}

constexpr uint8_t product_255(unsigned a, unsigned b) {
  const unsigned t = a * b + 128;
  return static_cast<uint8_t>(((t >> 8) + t) >> 8);
}

/// Adobe stores inverted inks: c, m, y, k are amounts of light, and Pillow multiplies them in 8 bits from the ink side.
void cmyk_to_rgb(const std::vector<uint8_t>& cmyk, std::vector<uint8_t>& rgb) {
  for (size_t i = 0; i < cmyk.size() / 4; ++i) {
    const unsigned light = cmyk[4 * i + 3];
    for (size_t c = 0; c < 3; ++c) rgb[3 * i + c] = static_cast<uint8_t>(light - product_255(255u - cmyk[4 * i + c], light));
  }
}

Error broken(std::string_view name, const Session& s) {
  return bad_input("{}: expected an intact JPEG, got one where libjpeg says: {}", name, s.message);
}

/// Chooses the output colours: grey stays grey, four inks stay inks, three components become RGB.
bool choose_colours(jpeg_decompress_struct& c) {
  switch (c.num_components) {
    case 1:
      c.out_color_space = JCS_GRAYSCALE;
      return true;
    case 3:
      c.out_color_space = JCS_RGB;
      return true;
    case 4:
      c.out_color_space = JCS_CMYK;
      return true;
    default:
      return false;
  }
}

}  // namespace

Result<Decoded> decode_jpeg(Bytes bytes, std::string_view name, const ImageOptions& o) {
  Session s;
  if (!read_header(s, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) return broken(name, s);
  const int64_t width = s.codec.image_width, height = s.codec.image_height;
  SLIP_TRY_(check_size(width, height, name, o));
  if (!choose_colours(s.codec))
    return unsupported("{}: expected a JPEG of 1, 3 or 4 components, got {}", name, s.codec.num_components);
  if (s.codec.arith_code) SLIP_TRY_(check_density(width, height, bytes.size(), name));
  if (!s.codec.arith_code && width * height / kMaxPixelsPerByte > static_cast<int64_t>(bytes.size()))
    return bad_input("{}: expected at least {} bytes for {} x {} pixels, got {}", name, width * height / kMaxPixelsPerByte, width,
                     height, bytes.size());

  const size_t pixels = static_cast<size_t>(width * height), components = static_cast<size_t>(s.codec.num_components);
  const int orientation = orientation_of(s);  // libjpeg forgets its markers at the end of the picture
  std::vector<uint8_t> stored(pixels * components);
  if (!read_rows(s, stored.data(), static_cast<size_t>(width) * components)) return broken(name, s);

  Decoded d{{static_cast<int>(width), static_cast<int>(height), {}}, orientation};
  if (components == 3) {
    d.image.rgb = std::move(stored);
    return d;
  }
  d.image.rgb.resize(pixels * 3);
  if (components == 4) {
    cmyk_to_rgb(stored, d.image.rgb);
  } else {
    for (size_t i = 0; i < pixels; ++i) std::memset(&d.image.rgb[3 * i], stored[i], 3);
  }
  return d;
}

}  // namespace slip::image_detail
