// SPDX-License-Identifier: Apache-2.0
// See images.h.
#include "server/images.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>

#include "base/file.h"
#include "server/files/below.h"

namespace slip::server {
namespace {

constexpr std::string_view kAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<int8_t, 256> values() {
  std::array<int8_t, 256> out{};
  for (auto& v : out) v = -1;
  for (size_t i = 0; i < kAlphabet.size(); ++i) out[static_cast<uint8_t>(kAlphabet[i])] = static_cast<int8_t>(i);
  out[static_cast<uint8_t>('-')] = 62;  // the URL-safe alphabet, which some clients use here
  out[static_cast<uint8_t>('_')] = 63;
  return out;
}

int64_t big(std::string_view b, size_t at, size_t n) {
  int64_t out = 0;
  for (size_t i = 0; i < n; ++i) out = out << 8 | static_cast<uint8_t>(b[at + i]);
  return out;
}
int64_t little(std::string_view b, size_t at, size_t n) {
  int64_t out = 0;
  for (size_t i = n; i-- > 0;) out = out << 8 | static_cast<uint8_t>(b[at + i]);
  return out;
}

using Sides = std::pair<int64_t, int64_t>;

/// The frame header behind the markers before it.
std::optional<Sides> jpeg_size(std::string_view b) {
  for (size_t at = 2; at + 9 < b.size();) {
    if (static_cast<uint8_t>(b[at]) != 0xFF) return std::nullopt;
    const auto marker = static_cast<uint8_t>(b[at + 1]);
    if (marker == 0xFF) {
      ++at;
      continue;
    }
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC)
      return Sides{big(b, at + 7, 2), big(b, at + 5, 2)};
    if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) {
      at += 2;
      continue;
    }
    at += 2 + static_cast<size_t>(std::max<int64_t>(2, big(b, at + 2, 2)));
  }
  return std::nullopt;
}

std::optional<Sides> webp_size(std::string_view b) {
  if (b.size() < 30) return std::nullopt;
  const std::string_view chunk = b.substr(12, 4);
  if (chunk == "VP8X") return Sides{little(b, 24, 3) + 1, little(b, 27, 3) + 1};
  if (chunk == "VP8L") {
    const int64_t bits = little(b, 21, 4);
    return Sides{(bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1};
  }
  if (chunk == "VP8 ") return Sides{little(b, 26, 2) & 0x3FFF, little(b, 28, 2) & 0x3FFF};
  return std::nullopt;
}

std::optional<Sides> ppm_size(std::string_view b) {
  std::array<int64_t, 2> sides{};
  size_t at = 2;
  for (int64_t& side : sides) {
    while (at < b.size() && (b[at] == ' ' || b[at] == '\n' || b[at] == '\t' || b[at] == '\r' || b[at] == '#')) {
      if (b[at] == '#') at = std::min(b.find('\n', at), b.size());
      if (at < b.size()) ++at;
    }
    if (at >= b.size() || b[at] < '0' || b[at] > '9') return std::nullopt;
    for (; at < b.size() && b[at] >= '0' && b[at] <= '9' && side < 1'000'000'000; ++at) side = side * 10 + (b[at] - '0');
  }
  return Sides{sides[0], sides[1]};
}

}  // namespace

Result<std::string> from_base64(std::string_view text) {
  static constexpr std::array<int8_t, 256> kValues = values();
  while (!text.empty() && text.back() == '=') text.remove_suffix(1);
  if (text.size() % 4 == 1) return bad_input("base64: expected a whole number of bytes, got {} characters", text.size());
  std::string out;
  out.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int held = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const int8_t v = kValues[static_cast<uint8_t>(text[i])];
    if (v < 0)
      return bad_input("base64: expected a character of its alphabet at {}, got byte {}", i, static_cast<uint8_t>(text[i]));
    bits = bits << 6 | static_cast<uint32_t>(v);
    held += 6;
    if (held >= 8) out.push_back(static_cast<char>(bits >> (held -= 8) & 0xFF));
  }
  return out;
}

std::string to_base64(std::string_view b) {
  std::string out;
  out.reserve((b.size() + 2) / 3 * 4);
  for (size_t i = 0; i < b.size(); i += 3) {
    const size_t n = std::min<size_t>(3, b.size() - i);
    uint32_t bits = 0;
    for (size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? static_cast<uint8_t>(b[i + k]) : 0U);
    for (size_t k = 0; k < 4; ++k) out.push_back(k <= n ? kAlphabet[bits >> (18 - 6 * k) & 63] : '=');
  }
  return out;
}

Result<std::string> from_percent(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] != '%') {
      out += text[at];
      continue;
    }
    unsigned byte = 0;
    const char* digits = text.data() + at + 1;
    const auto end = std::from_chars(digits, digits + std::min<size_t>(2, text.size() - at - 1), byte, 16).ptr;
    if (end != digits + 2 || byte == 0)
      return bad_input("url: expected % with two hexadecimal digits that are not 00, got another at {}", at);
    out += static_cast<char>(byte);
    at += 2;
  }
  return out;
}

Result<std::pair<int64_t, int64_t>> size_in_header(std::string_view b) {
  std::optional<Sides> sides;
  if (b.size() > 4 && b.starts_with("\xFF\xD8"))
    sides = jpeg_size(b);
  else if (b.size() >= 24 && b.starts_with("\x89PNG\r\n\x1A\n"))
    sides = Sides{big(b, 16, 4), big(b, 20, 4)};
  else if (b.size() > 12 && b.starts_with("RIFF") && b.substr(8, 4) == "WEBP")
    sides = webp_size(b);
  else if (b.size() > 2 && b[0] == 'P' && b[1] >= '1' && b[1] <= '6')
    sides = ppm_size(b);
  else
    return bad_input("image: expected JPEG, PNG, WebP or PPM, got other bytes");
  if (!sides) return bad_input("image: expected a head that tells its size, got a damaged one");
  return *sides;
}

int64_t decoded_bytes(std::span<const std::string> images) {
  constexpr int64_t kOfPixel = 6, kMostSide = 16384;  // larger ones are refused before they are decoded
  int64_t bytes = 0;
  for (const std::string& image : images)
    if (const auto sides = size_in_header(image); sides && sides->first <= kMostSide && sides->second <= kMostSide)
      bytes += kOfPixel * std::max<int64_t>(0, sides->first * sides->second);
  return bytes;
}

Result<std::string> bytes_of_url(std::string_view url, const ImageLimits& limits) {
  if (url.starts_with("data:")) {
    const size_t comma = url.find(',');
    if (comma == std::string_view::npos || !url.substr(0, comma).ends_with(";base64"))
      return bad_input("image_url: expected data:image/...;base64,..., got another data URL");
    return from_base64(url.substr(comma + 1));
  }
  if (url.starts_with("file://")) {
    if (limits.media_path.empty()) return bad_input("image_url: expected a data URL (this server opens no files), got file://");
    SLIP_TRY(const std::string path, from_percent(url.substr(7)));
    const auto file = file_below(limits.media_path, path);
    if (!file) return bad_input("image_url: expected a file below --media-path, got another");
    return read_file(*file, size_t{64} << 20);
  }
  const size_t colon = url.find(':');
  return bad_input("image_url: expected a data URL; this server fetches nothing, got {}",
                   colon > 16 ? "no URL" : std::string(url.substr(0, colon)) + ":");
}

Result<slipstream::Image> image_of_bytes(std::string_view bytes, std::string_view name, const ImageLimits& limits) {
  const auto sides = size_in_header(bytes);
  if (!sides) return bad_input("{}: {}", name, sides.error().message);
  const auto [width, height] = *sides;
  if (width < 1 || height < 1 || width > 16384 || height > 16384 || width * height > limits.most_pixels)
    return bad_input("{}: expected at most {} pixels and 16384 a side, got {} x {}", name, limits.most_pixels, width, height);
  return slipstream::decode_image(bytes, name);
}

}  // namespace slip::server
