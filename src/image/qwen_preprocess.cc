// SPDX-License-Identifier: Apache-2.0
// Qwen2-VL's image processing, as transformers' PIL processor does it. A channel has 256 possible values, so rescaling and
// normalising are three tables, filled by its arithmetic; the rest is moving numbers.
#include "image/qwen_preprocess.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace slip {
namespace {

constexpr int64_t kMaxAspect = 200;
// Released files ask for up to 12,845,056. Every pixel becomes 24 bytes of patches, so a damaged file can ask for 0.8 GB.
constexpr int64_t kMostPixels = int64_t{1} << 25;

/// round(a / b) with halves to even, for a >= 0, b > 0.
int64_t half_even(int64_t a, int64_t b) {
  const int64_t q = a / b, twice = 2 * (a % b);
  return q + (twice > b || (twice == b && q % 2 == 1));
}

Result<std::array<double, 3>> three(const json::object& o, std::string_view key, std::array<double, 3> other, bool positive,
                                    std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (v == nullptr) return other;
  const json::array* a = v->if_array();
  if (a == nullptr || a->size() != 3) return bad_input("{}: {}: expected 3 numbers, got {}", where, key, json::serialize(*v));
  for (size_t i = 0; i < 3; ++i) {
    if (!(*a)[i].is_number()) return bad_input("{}: {}: expected 3 numbers, got {}", where, key, json::serialize(*v));
    other[i] = (*a)[i].to_number<double>();
    if (!std::isfinite(other[i]) || (positive && !(other[i] > 0)))
      return bad_input("{}: {}: expected {} numbers, got {}", where, key, positive ? "positive" : "finite", json::serialize(*v));
  }
  return other;
}

Status refuse_other_steps(const json::object& o, std::string_view where) {
  for (const char* key : {"do_resize", "do_rescale", "do_normalize"}) {
    SLIP_TRY(const bool on, bool_or(o, key, true, where));
    if (!on) return unsupported("{}: {}: expected true, got false", where, key);
  }
  SLIP_TRY(const int64_t filter, int_or(o, "resample", 3, where));
  if (filter != 3) return unsupported("{}: resample: expected 3 (bicubic), got {}", where, filter);
  return {};
}

Result<int> small_int(const json::object& o, std::string_view key, int other, int most, std::string_view where) {
  SLIP_TRY(const int64_t v, int_or(o, key, other, where));
  if (v < 1 || v > most) return bad_input("{}: {}: expected 1 to {}, got {}", where, key, most, v);
  return static_cast<int>(v);
}

/// min_pixels and max_pixels where they stand alone; else the same two numbers inside `size`.
Status read_pixels(const json::object& o, std::string_view where, PreprocessorConfig& c) {
  if (const json::value* size = o.if_contains("size"); size != nullptr && !size->is_null()) {
    if (!size->is_object()) return bad_input("{}: size: expected an object, got {}", where, json::serialize(*size));
    SLIP_TRY(c.min_pixels, int_or(size->get_object(), "shortest_edge", c.min_pixels, where));
    SLIP_TRY(c.max_pixels, int_or(size->get_object(), "longest_edge", c.max_pixels, where));
  }
  for (const auto& [key, to] : {std::pair{"min_pixels", &c.min_pixels}, std::pair{"max_pixels", &c.max_pixels}}) {
    const json::value* v = o.if_contains(key);
    if (v == nullptr || v->is_null()) continue;
    SLIP_TRY(*to, get_int(o, key, where));
  }
  if (c.min_pixels < 1 || c.min_pixels > c.max_pixels || c.min_pixels > kMostPixels)
    return bad_input("{}: expected 1 <= min_pixels <= max_pixels, min_pixels <= {}, got {} and {}", where, kMostPixels,
                     c.min_pixels, c.max_pixels);
  c.max_pixels = std::min(c.max_pixels, kMostPixels);
  return {};
}

}  // namespace

ChannelTable normalising_table(const PreprocessorConfig& c) {
  ChannelTable t;
  for (size_t channel = 0; channel < 3; ++channel) {
    const float mean = static_cast<float>(c.image_mean[channel]), std = static_cast<float>(c.image_std[channel]);
    for (size_t x = 0; x < 256; ++x) t[channel][x] = (static_cast<float>(static_cast<double>(x) * c.rescale_factor) - mean) / std;
  }
  return t;
}

Result<PreprocessorConfig> preprocessor_config(const json::object& o, std::string_view where) {
  PreprocessorConfig c;
  SLIP_TRY_(refuse_other_steps(o, where));
  SLIP_TRY_(read_pixels(o, where, c));
  SLIP_TRY(c.patch_size, small_int(o, "patch_size", c.patch_size, 256, where));
  SLIP_TRY(c.temporal_patch_size, small_int(o, "temporal_patch_size", c.temporal_patch_size, 16, where));
  SLIP_TRY(c.merge_size, small_int(o, "merge_size", c.merge_size, 16, where));
  SLIP_TRY(c.image_mean, three(o, "image_mean", c.image_mean, false, where));
  SLIP_TRY(c.image_std, three(o, "image_std", c.image_std, true, where));
  SLIP_TRY(const double rescale, number_or(o, "rescale_factor", c.rescale_factor, where));
  if (!(rescale > 0) || !std::isfinite(rescale))
    return bad_input("{}: rescale_factor: expected a positive number, got {}", where, rescale);
  // The JSON reader is right to one ulp only, and the written factor is the nearest decimal to 1/255.
  if (std::abs(rescale - 1.0 / 255) > 1e-15) c.rescale_factor = rescale;
  return c;
}

Result<PreprocessorConfig> read_preprocessor_config(const std::filesystem::path& file) {
  SLIP_TRY(const json::value v, read_json(file));
  if (!v.is_object()) return bad_input("{}: expected a JSON object, got something else", file.string());
  return preprocessor_config(v.get_object(), file.string());
}

Result<Size> smart_resize(int height, int width, int factor, int64_t min_pixels, int64_t max_pixels) {
  SLIP_CHECK(height > 0 && width > 0 && factor > 0, "sizes are checked where images and configurations enter");
  if (std::max(height, width) > kMaxAspect * std::min(height, width))
    return bad_input("image: expected an aspect ratio of at most {}, got {} x {}", kMaxAspect, width, height);
  const double h = height, w = width;
  int64_t hb = half_even(height, factor) * factor, wb = half_even(width, factor) * factor;
  if (hb * wb > max_pixels) {
    const double beta = std::sqrt(h * w / static_cast<double>(max_pixels));
    hb = std::max<int64_t>(factor, static_cast<int64_t>(std::floor(h / beta / factor)) * factor);
    wb = std::max<int64_t>(factor, static_cast<int64_t>(std::floor(w / beta / factor)) * factor);
  } else if (hb * wb < min_pixels) {
    const double beta = std::sqrt(static_cast<double>(min_pixels) / (h * w));
    hb = static_cast<int64_t>(std::ceil(h * beta / factor)) * factor;
    wb = static_cast<int64_t>(std::ceil(w * beta / factor)) * factor;
  }
  if (hb < factor || wb < factor || hb > INT32_MAX || wb > INT32_MAX)
    return bad_input("image: expected sides of {} to {} after resizing, got {} x {}", factor, INT32_MAX, wb, hb);
  return Size{static_cast<int>(hb), static_cast<int>(wb)};
}

namespace {

PatchGrid grid_of(const Size& size, const PreprocessorConfig& c) {
  PatchGrid g;
  g.t = 1;
  g.h = size.height / c.patch_size;
  g.w = size.width / c.patch_size;
  g.patch_dim = c.patch_dim();
  g.merge_size = c.merge_size;
  return g;
}

}  // namespace

Result<PatchGrid> patches_to_make(std::shared_ptr<const Image> image, const PreprocessorConfig& config) {
  SLIP_CHECK(image->rgb.size() == size_t{3} * image->width * image->height, "an image holds 3 bytes a pixel");
  SLIP_TRY(const Size size, smart_resize(image->height, image->width, config.factor(), config.min_pixels, config.max_pixels));
  PatchGrid g = grid_of(size, config);
  const ContentHash pixels = content_hash(std::as_bytes(std::span(image->rgb)));
  const uint64_t sides = uint64_t{static_cast<uint32_t>(image->width)} << 32 | static_cast<uint32_t>(image->height);
  g.content = {mix_hash(pixels.low, sides), mix_hash(pixels.high, ~sides) | 1};
  g.source = std::make_shared<const PatchSource>(PatchSource{std::move(image), config});
  return g;
}

PatchGrid patches_of(const Image& resized, const PreprocessorConfig& c) {
  SLIP_CHECK(resized.height % c.factor() == 0 && resized.width % c.factor() == 0, "smart_resize gives multiples of the factor");
  const ChannelTable table = normalising_table(c);
  const int patch = c.patch_size, merge = c.merge_size, frames = c.temporal_patch_size;
  PatchGrid g = grid_of({resized.height, resized.width}, c);
  g.values.resize(static_cast<size_t>(g.patches()) * static_cast<size_t>(g.patch_dim));
  const size_t row_bytes = size_t{3} * resized.width, frame_size = static_cast<size_t>(patch) * patch;
  float* to = g.values.data();
  const auto write_patch = [&](int row, int column) {
    const uint8_t* from = resized.rgb.data() + row_bytes * (static_cast<size_t>(row) * patch) + size_t{3} * column * patch;
    for (size_t channel = 0; channel < 3; ++channel) {
      const float* frame = to;
      for (int y = 0; y < patch; ++y)
        for (int x = 0; x < patch; ++x) *to++ = table[channel][from[row_bytes * y + size_t{3} * x + channel]];
      for (int f = 1; f < frames; ++f) to = std::copy_n(frame, frame_size, to);
    }
  };
  for (int by = 0; by < g.h; by += merge)
    for (int bx = 0; bx < g.w; bx += merge)
      for (int iy = 0; iy < merge; ++iy)
        for (int ix = 0; ix < merge; ++ix) write_patch(by + iy, bx + ix);
  return g;
}

Result<PatchGrid> qwen_patches(const Image& image, const PreprocessorConfig& config) {
  SLIP_TRY(const Size size, smart_resize(image.height, image.width, config.factor(), config.min_pixels, config.max_pixels));
  return patches_of(resize_bicubic(image, size.width, size.height), config);
}

}  // namespace slip
