// SPDX-License-Identifier: Apache-2.0
// See pictures.h; and the functions of slipstream/request.h that read pictures.
#include "api/pictures.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <span>

#include "api/boundary.h"

namespace slip::api {

// A camera picture below one merged cell of the tower shows nothing (Qwen2-VL's first processor refused it, the later ones blow it
// up); above an aspect of 200 the resize refuses it too, but only here is the file's name known.
Status check_size(std::string_view name, int64_t width, int64_t height) {
  // One merged cell of Qwen2.5-VL; its aspect limit; and a width that no camera has (WebP's own limit, rounded up): larger
  // pictures are panoramas or mistakes.
  constexpr int64_t kLeastSide = 28, kMostAspect = 200, kMostSide = 16384;
  const auto [small, large] = std::minmax(width, height);
  if (small < kLeastSide)
    return bad_input("{}: expected an image of at least {} x {} pixels, got {} x {}", name, kLeastSide, kLeastSide, width, height);
  if (large > kMostSide)
    return bad_input("{}: expected an image of at most {} pixels a side, got {} x {}", name, kMostSide, width, height);
  if (large > kMostAspect * small)
    return bad_input("{}: expected an aspect ratio of at most {}, got {} x {}", name, kMostAspect, width, height);
  return {};
}

namespace {

// One row of grey, RGB or RGBA as RGB.
void copy_row(const uint8_t* from, int32_t width, int32_t channels, uint8_t* to) {
  if (channels == 3) {
    std::copy_n(from, size_t{3} * static_cast<size_t>(width), to);
    return;
  }
  for (int32_t x = 0; x < width; ++x, from += channels, to += 3)
    for (int32_t c = 0; c < 3; ++c) to[c] = from[channels == 1 ? 0 : c];
}

}  // namespace

Result<Image> rgb_of(const slipstream::Image& in, std::string_view name) {
  if (!in.pixels) return bad_input("{}: expected pixels, got none", name);
  if (in.channels != 1 && in.channels != 3 && in.channels != 4)
    return bad_input("{}: expected 1, 3 or 4 channels, got {}", name, in.channels);
  SLIP_TRY_(check_size(name, in.width, in.height));
  const int64_t least = int64_t{in.width} * in.channels, row = in.row_bytes == 0 ? least : in.row_bytes;
  if (row < least) return bad_input("{}: expected rows of at least {} bytes, got {}", name, least, in.row_bytes);
  Image out{in.width, in.height, {}};
  const size_t line = size_t{3} * static_cast<size_t>(in.width);
  out.rgb.resize(line * static_cast<size_t>(in.height));
  for (int32_t y = 0; y < in.height; ++y)
    copy_row(in.pixels + y * row, in.width, in.channels, out.rgb.data() + static_cast<size_t>(y) * line);
  return out;
}

slipstream::Image shared(Image image) {
  const auto owner = std::make_shared<const Image>(std::move(image));
  return {.pixels = owner->rgb.data(), .width = owner->width, .height = owner->height, .owner = owner};
}

namespace {

Result<slipstream::Image> picture_from(const std::string& file) {
  SLIP_TRY(Image image, load_image(file));
  SLIP_TRY_(check_size(file, image.width, image.height));
  return shared(std::move(image));
}

// The frames' files, in the order of their names.
Result<std::vector<std::string>> frame_files(const std::string& folder) {
  constexpr size_t kMostFrames = 768;  // Qwen2.5-VL's own limit
  std::vector<std::string> out;
  std::error_code ec;
  for (std::filesystem::directory_iterator it(folder, ec), end; !ec && it != end; it.increment(ec)) {
    std::string extension = it->path().extension().string();
    std::transform(extension.begin(), extension.end(), extension.begin(), [](unsigned char c) { return std::tolower(c); });
    static constexpr std::array<std::string_view, 5> kKnown{".jpg", ".jpeg", ".png", ".webp", ".ppm"};
    if (std::find(kKnown.begin(), kKnown.end(), extension) != kKnown.end()) out.push_back(it->path().string());
  }
  if (ec) return bad_input("{}: expected a folder of frames, got {}", folder, ec.message());
  if (out.empty()) return bad_input("{}: expected frames (JPEG, PNG, WebP, PPM), got none", folder);
  if (out.size() > kMostFrames) return bad_input("{}: expected at most {} frames, got {}", folder, kMostFrames, out.size());
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

Result<Image> read_image(const std::string& file) {
  return api::bounded([&] { return api::picture_from(file); });
}

Result<Image> decode_image(std::string_view bytes, std::string_view name) {
  return api::bounded([&]() -> Result<Image> {
    SLIP_TRY(slip::Image image, slip::decode_image(std::as_bytes(std::span(bytes)), name));
    SLIP_TRY_(api::check_size(name, image.width, image.height));
    return api::shared(std::move(image));
  });
}

Result<Video> read_video(const std::string& folder, double fps, const CancelToken& cancel) {
  return api::bounded([&]() -> Result<Video> {
    SLIP_TRY(const std::vector<std::string> files, api::frame_files(folder));
    Video out{{}, fps};
    for (const std::string& file : files) {
      SLIP_TRY_(cancel.check("video", static_cast<int64_t>(out.frames.size()), "frames"));
      SLIP_TRY(Image frame, api::picture_from(file));
      out.frames.push_back(std::move(frame));
    }
    return out;
  });
}

}  // namespace slipstream
