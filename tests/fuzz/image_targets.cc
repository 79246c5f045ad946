// SPDX-License-Identifier: Apache-2.0
// Images, one target per decoder: the bytes behind the format's first ones are the fuzzer's. What decodes is preprocessed.
#include "fuzz/targets.h"
#include "image/decoders.h"
#include "image/image.h"
#include "image/qwen_preprocess.h"

namespace slip::fuzz {

namespace {

constexpr int64_t kMostPixels = int64_t{1} << 20;

void decode(Bytes bytes) {
  for (const AlphaMode alpha : {AlphaMode::kDrop, AlphaMode::kWhite}) {
    const auto image = decode_image(bytes, "image", {.alpha = alpha, .max_pixels = kMostPixels, .grey16 = Grey16::kHighByte});
    if (!image) {
      require_refusal(image.error());
      continue;
    }
    require(image->width > 0 && image->height > 0 && int64_t{image->width} * image->height <= kMostPixels,
            "sizes stay below the limit");
    require(image->rgb.size() == size_t{3} * static_cast<size_t>(image->width) * static_cast<size_t>(image->height),
            "an image has three bytes a pixel");
    if (alpha == AlphaMode::kWhite) continue;
    const auto patches = qwen_patches(*image, {.min_pixels = 28 * 28, .max_pixels = 56 * 56});
    if (!patches) require_refusal(patches.error());
  }
}

std::vector<std::string> images(std::string_view extension) { return fixtures_in("images", extension, 6000); }

}  // namespace

void run_png(Bytes bytes) {
  std::string whole = "\x89PNG\r\n\x1a\n";
  decode(std::as_bytes(std::span(whole += text_of(bytes))));
}
void run_jpeg(Bytes bytes) {
  std::string whole = "\xff\xd8\xff";
  decode(std::as_bytes(std::span(whole += text_of(bytes))));
}
void run_ppm(Bytes bytes) {
  std::string whole = "P";
  decode(std::as_bytes(std::span(whole += text_of(bytes))));
}
void run_webp(Bytes bytes) {
  // The size in the container's head is made true: libwebp looks no further where it is not.
  std::string whole = "RIFF....WEBP";
  whole += text_of(bytes);
  const auto size = static_cast<uint32_t>(whole.size() - 8);
  for (int i = 0; i < 4; ++i) whole[4 + static_cast<size_t>(i)] = static_cast<char>(size >> 8 * i);
  decode(std::as_bytes(std::span(whole)));
}

namespace {
std::vector<std::string> without_front(std::vector<std::string> files, size_t bytes) {
  for (std::string& s : files) s.erase(0, bytes);
  return files;
}
}  // namespace

std::vector<std::string> seeds_png() { return without_front(images(".png"), 8); }
std::vector<std::string> seeds_jpeg() { return without_front(images(".jpg"), 3); }
std::vector<std::string> seeds_webp() { return without_front(images(".webp"), 12); }
std::vector<std::string> seeds_ppm() {
  return {"3 # colours\n1 2 255\n1 2 3\n 4 5 6\n",
          "2 2 1 15 0 15",
          std::string("5 1 1 3\n\x01"),
          std::string("6 1 1 65535\n\x80\x80\xff\xff\x01\x01"),
          std::string("5 1 1 65535\n\x12\x34"),
          "6 2 1 255\nabcdef",
          "4 8 1\nx"};
}

}  // namespace slip::fuzz
