// SPDX-License-Identifier: Apache-2.0
// Netpbm greymaps and pixmaps: P5 and P6 (binary), P2 and P3 (text), 1 to 65535 levels. Values are scaled to 0..255 with
// halves to even, as Pillow does; P5 and P2 with more than 256 levels are 16-bit grey and follow ImageOptions::grey16.
// Bitmaps (P1, P4) are refused.
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>

#include "image/decoders.h"

namespace slip::image_detail {
namespace {

/// Walks the tokens of a header (and of a text body): numbers between white space and '#' comments.
class Tokens {
 public:
  explicit Tokens(std::string_view text) : text_(text) {}
  std::optional<int64_t> number() {
    skip_space();
    int64_t value = 0;
    const char *begin = text_.data() + at_, *end = text_.data() + text_.size();
    if (begin == end || !std::isdigit(static_cast<unsigned char>(*begin))) return std::nullopt;
    const auto [after, error] = std::from_chars(begin, end, value);
    if (error != std::errc{}) return std::nullopt;
    at_ += static_cast<size_t>(after - begin);
    return value;
  }
  /// What follows the single white space after the last number of a header.
  std::string_view body() const { return at_ < text_.size() ? text_.substr(at_ + 1) : std::string_view{}; }

 private:
  void skip_space() {
    for (; at_ < text_.size(); ++at_) {
      if (text_[at_] == '#') {
        while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
      } else if (!std::isspace(static_cast<unsigned char>(text_[at_]))) {
        return;
      }
    }
  }
  std::string_view text_;
  size_t at_ = 2;  // after the magic
};

/// How one stored number becomes a byte.
struct Scale {
  int64_t levels = 255;  // maxval
  bool grey16 = false;
  Grey16 mode = Grey16::kClip;
  uint8_t operator()(int64_t v) const {
    if (levels == 255) return static_cast<uint8_t>(v);
    if (grey16) {
      const int64_t full = levels == 65535 ? v : std::llrint(static_cast<double>(v) / static_cast<double>(levels) * 65535.0);
      return static_cast<uint8_t>(mode == Grey16::kHighByte ? full >> 8 : std::min<int64_t>(full, 255));
    }
    return static_cast<uint8_t>(std::llrint(static_cast<double>(v) / static_cast<double>(levels) * 255.0));
  }
};

Error too_large(std::string_view name, int64_t levels, int64_t v) {
  return bad_input("{}: expected values up to {}, got {}", name, levels, v);
}

Status read_text(Tokens& in, const Scale& scale, std::string_view name, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    const auto v = in.number();
    if (!v) return bad_input("{}: expected {} numbers, got {}", name, out.size(), i);
    if (*v > scale.levels) return too_large(name, scale.levels, *v);
    out[i] = scale(*v);
  }
  return {};
}

Status read_binary(std::string_view body, size_t width_bytes, const Scale& scale, std::string_view name, std::span<uint8_t> out) {
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t v = static_cast<unsigned char>(body[i * width_bytes]);
    if (width_bytes == 2) v = v << 8 | static_cast<unsigned char>(body[2 * i + 1]);
    if (v > scale.levels) return too_large(name, scale.levels, v);
    out[i] = scale(v);
  }
  return {};
}

}  // namespace

Result<Decoded> decode_ppm(Bytes bytes, std::string_view name, const ImageOptions& o) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const char kind = text[1];
  if (kind == '1' || kind == '4') return unsupported("{}: expected a greymap or pixmap (P2, P3, P5, P6), got P{}", name, kind);
  const bool plain = kind == '2' || kind == '3', colour = kind == '3' || kind == '6';
  Tokens in(text);
  const auto width = in.number(), height = width ? in.number() : std::nullopt, levels = height ? in.number() : std::nullopt;
  if (!levels) return bad_input("{}: expected width, height and maximum in the PPM header, got something else", name);
  SLIP_TRY_(check_size(*width, *height, name, o));
  if (*levels < 1 || *levels > 65535) return bad_input("{}: expected a PPM maximum of 1 to 65535, got {}", name, *levels);

  const size_t pixels = static_cast<size_t>(*width * *height), samples = pixels * (colour ? 3 : 1);
  const size_t width_bytes = *levels > 255 ? 2 : 1;
  const std::string_view body = in.body();
  const size_t least = plain ? 2 * samples - 1 : samples * width_bytes;  // "0 0 0"
  if (body.size() < least) return bad_input("{}: expected {} bytes of pixels, got {}", name, least, body.size());

  const Scale scale{*levels, !colour && *levels > 255, o.grey16};
  std::vector<uint8_t> values(samples);
  SLIP_TRY_(plain ? read_text(in, scale, name, values) : read_binary(body, width_bytes, scale, name, values));
  Decoded d{{static_cast<int>(*width), static_cast<int>(*height), {}}, 1};
  if (colour) {
    d.image.rgb = std::move(values);
    return d;
  }
  d.image.rgb.resize(pixels * 3);
  for (size_t i = 0; i < pixels; ++i) std::memset(&d.image.rgb[3 * i], values[i], 3);
  return d;
}

}  // namespace slip::image_detail
