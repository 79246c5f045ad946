// SPDX-License-Identifier: Apache-2.0
// See openvla_preprocess.h. A channel has 256 possible values, so normalising is one table per channel, filled by the
// arithmetic of OpenVLA's processor.
#include "image/openvla_preprocess.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/json/shown.h"

namespace slip {
namespace {

constexpr int kMostSide = 4096;                    // of what a file asks for; 1022 is the largest published
constexpr int64_t kMostPixels = int64_t{1} << 26;  // of a picture on its way: an extreme shape grows long before it is cropped

Result<int> side_of(const json::value& v, std::string_view key, std::string_view where) {
  if (!v.is_int64() || v.get_int64() < 1 || v.get_int64() > kMostSide)
    return bad_input("{}: {}: expected sides of 1 to {}, got {}", where, key, kMostSide, shown_json(v));
  return static_cast<int>(v.get_int64());
}

Result<std::array<double, 3>> numbers_of(const json::value* v, std::string_view key, bool positive, std::string_view where) {
  std::array<double, 3> out{};
  const json::array* a = v ? v->if_array() : nullptr;
  if (!a || a->size() != 3) return bad_input("{}: {}: expected 3 numbers, got {}", where, key, v ? shown_json(*v) : "none");
  for (size_t i = 0; i < 3; ++i) {
    out[i] = (*a)[i].is_number() ? (*a)[i].to_number<double>() : std::nan("");
    if (!std::isfinite(out[i]) || (positive && !(out[i] > 1e-30)))
      return bad_input("{}: {}: expected 3 {} numbers, got {}", where, key, positive ? "positive" : "finite", shown_json(*v));
  }
  return out;
}

Status check_filter(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v || v->is_null()) return {};
  if ((v->is_int64() && v->get_int64() == 3) || (v->is_string() && v->get_string() == "bicubic")) return {};
  return unsupported("{}: {}: expected 3 (bicubic), got {}", where, key, shown_json(*v));
}

// [height, width], a number (the shorter edge), or an object of either.
Status read_size(const json::value& v, std::string_view key, std::string_view where, TowerPlanes& out) {
  const json::object* o = v.if_object();
  const json::array* a = v.if_array();
  if (a && a->size() == 2) {
    SLIP_TRY(out.height, side_of((*a)[0], key, where));
    SLIP_TRY(out.width, side_of((*a)[1], key, where));
    out.resize = TowerPlanes::Resize::kExact;
  } else if (v.is_int64() || (a && a->size() == 1) || (o && o->contains("shortest_edge"))) {
    SLIP_TRY(out.edge, side_of(a ? (*a)[0] : o ? o->at("shortest_edge") : v, key, where));
    out.resize = TowerPlanes::Resize::kShortestEdge;
  } else if (o && o->contains("height") && o->contains("width")) {
    SLIP_TRY(out.height, side_of(o->at("height"), key, where));
    SLIP_TRY(out.width, side_of(o->at("width"), key, where));
    out.resize = TowerPlanes::Resize::kExact;
  } else {
    return bad_input("{}: {}: expected a height and a width, or a shortest edge, got {}", where, key, shown_json(v));
  }
  return {};
}

Status read_crop(const json::value& v, std::string_view key, std::string_view where, TowerPlanes& out) {
  TowerPlanes size;
  SLIP_TRY_(read_size(v, key, where, size));
  const bool square = size.resize == TowerPlanes::Resize::kShortestEdge;
  out.crop_height = square ? size.edge : size.height;
  out.crop_width = square ? size.edge : size.width;
  return {};
}

// What is known of the size before there is a picture.
void note_fixed_size(PlanesConfig& c) {
  const TowerPlanes& t = c.towers.front();
  if (t.crop_height > 0) {
    c.height = t.crop_height;
    c.width = t.crop_width;
  } else if (t.resize == TowerPlanes::Resize::kExact) {
    c.height = t.height;
    c.width = t.width;
  }
}

Result<TowerPlanes> prismatic_tower(const json::object& resize, const json::value* crop, const json::object& normalize,
                                    std::string_view where) {
  TowerPlanes t;
  SLIP_TRY_(check_filter(resize, "interpolation", where));
  if (const json::value* most = resize.if_contains("max_size"); most && !most->is_null())
    return unsupported("{}: tvf_resize_params: max_size: expected none, got {}", where, shown_json(*most));
  const json::value* size = resize.if_contains("size");
  if (!size) return bad_input("{}: tvf_resize_params: expected a size, got none", where);
  SLIP_TRY_(read_size(*size, "tvf_resize_params: size", where, t));
  if (crop) {
    const json::object* o = crop->if_object();
    const json::value* cropped = o ? o->if_contains("output_size") : nullptr;
    if (!cropped) return bad_input("{}: tvf_crop_params: expected an output_size, got {}", where, shown_json(*crop));
    SLIP_TRY_(read_crop(*cropped, "tvf_crop_params: output_size", where, t));
  }
  SLIP_TRY(t.scaling.mean, numbers_of(normalize.if_contains("mean"), "tvf_normalize_params: mean", false, where));
  SLIP_TRY(t.scaling.std, numbers_of(normalize.if_contains("std"), "tvf_normalize_params: std", true, where));
  return t;
}

Status read_letterbox(const json::object& o, std::string_view where, PlanesConfig& c) {
  SLIP_TRY(c.letterbox, bool_or(o, "tvf_do_letterbox", false, where));
  if (!c.letterbox) return {};
  SLIP_TRY(const json::array* fill, get_array(o, "tvf_letterbox_fill", where));
  for (size_t i = 0; i < 3; ++i) {
    const json::value* v = fill->size() == 3 ? &(*fill)[i] : nullptr;
    if (!v || !v->is_int64() || v->get_int64() < 0 || v->get_int64() > 255)
      return bad_input("{}: tvf_letterbox_fill: expected 3 bytes, got {}", where, shown_json(*fill));
    c.fill[i] = static_cast<uint8_t>(v->get_int64());
  }
  return {};
}

Result<PlanesConfig> prismatic_config(const json::object& o, std::string_view where) {
  PlanesConfig c;
  c.halves_to_even = true;
  SLIP_TRY(const json::array* resize, get_array(o, "tvf_resize_params", where));
  SLIP_TRY(const json::array* normalize, get_array(o, "tvf_normalize_params", where));
  const json::value* crop = o.if_contains("tvf_crop_params");
  const json::array* crops = crop ? crop->if_array() : nullptr;
  constexpr size_t kMostTowers = 2;
  if (resize->empty() || resize->size() > kMostTowers || normalize->size() != resize->size() ||
      (crop && (!crops || crops->size() != resize->size())))
    return bad_input("{}: expected tvf_resize_params, tvf_crop_params and tvf_normalize_params of one or two towers, got {} and {}",
                     where, resize->size(), normalize->size());
  for (size_t i = 0; i < resize->size(); ++i) {
    if (!(*resize)[i].is_object() || !(*normalize)[i].is_object())
      return bad_input("{}: expected objects in tvf_resize_params and tvf_normalize_params, got others", where);
    SLIP_TRY(TowerPlanes t,
             prismatic_tower((*resize)[i].get_object(), crops ? &(*crops)[i] : nullptr, (*normalize)[i].get_object(), where));
    c.towers.push_back(t);
  }
  SLIP_TRY_(read_letterbox(o, where, c));
  note_fixed_size(c);
  return c;
}

Result<PlanesConfig> bit_config(const json::object& o, std::string_view where) {
  PlanesConfig c;
  c.rescale_in_double = true;
  for (const char* key : {"do_rescale", "do_normalize"}) {
    SLIP_TRY(const bool on, bool_or(o, key, true, where));
    if (!on) return unsupported("{}: {}: expected true, got false", where, key);
  }
  SLIP_TRY_(check_filter(o, "resample", where));
  SLIP_TRY(const bool resized, bool_or(o, "do_resize", true, where));
  SLIP_TRY(const bool cropped, bool_or(o, "do_center_crop", true, where));
  TowerPlanes t;
  t.resize = TowerPlanes::Resize::kNone;
  if (resized) {  // the class's own default
    const json::value* size = o.if_contains("size");
    SLIP_TRY_(read_size(size ? *size : json::value(224), "size", where, t));
  }
  if (cropped) {
    const json::value* size = o.if_contains("crop_size");
    SLIP_TRY_(read_crop(size ? *size : json::value(224), "crop_size", where, t));
  }
  SLIP_TRY(t.scaling.mean, numbers_of(o.if_contains("image_mean"), "image_mean", false, where));
  SLIP_TRY(t.scaling.std, numbers_of(o.if_contains("image_std"), "image_std", true, where));
  SLIP_TRY(const double rescale, number_or(o, "rescale_factor", c.rescale_factor, where));
  if (!(rescale > 0) || !std::isfinite(rescale))
    return bad_input("{}: rescale_factor: expected a positive number, got {}", where, rescale);
  // The JSON reader is right to one ulp only, and the written factor is the nearest decimal to 1/255.
  if (std::abs(rescale - 1.0 / 255) > 1e-15) c.rescale_factor = rescale;
  c.towers = {t};
  note_fixed_size(c);
  return c;
}

struct Shape {
  int64_t height, width;
};

// After the resize; no picture yet.
Result<Shape> resized_shape(Shape in, const TowerPlanes& t) {
  Shape out = in;
  if (t.resize == TowerPlanes::Resize::kExact) out = {t.height, t.width};
  if (t.resize == TowerPlanes::Resize::kShortestEdge) {
    const int64_t shorter = std::min(in.height, in.width), longer = std::max(in.height, in.width);
    // int(edge * longer / shorter): a quotient of doubles, cut down.
    const auto other = static_cast<int64_t>(static_cast<double>(t.edge * longer) / static_cast<double>(shorter));
    out = in.height <= in.width ? Shape{t.edge, other} : Shape{other, t.edge};
  }
  if (out.height * out.width > kMostPixels)
    return bad_input("image: expected at most {} pixels after resizing, got {} x {}", kMostPixels, out.width, out.height);
  return out;
}

Result<Shape> cropped_shape(Shape in, const TowerPlanes& t) {
  if (t.crop_height == 0) return in;
  if (t.crop_height > in.height || t.crop_width > in.width)
    return unsupported("image: expected at least {} x {} pixels before the crop, got {} x {}", t.crop_width, t.crop_height,
                       in.width, in.height);
  return Shape{t.crop_height, t.crop_width};
}

Image letterboxed(const Image& in, std::array<uint8_t, 3> fill) {
  // Both margins of an axis are int((side - length) / 2): an odd difference leaves a picture one pixel short of the square, as
  // torchvision's pad in the published code does.
  const int side = std::max(in.width, in.height), left = (side - in.width) / 2, top = (side - in.height) / 2;
  Image out{in.width + 2 * left, in.height + 2 * top, {}};
  out.rgb.resize(size_t{3} * static_cast<size_t>(out.width) * static_cast<size_t>(out.height));
  for (size_t i = 0; i < out.rgb.size(); ++i) out.rgb[i] = fill[i % 3];
  for (int y = 0; y < in.height; ++y)
    std::memcpy(&out.rgb[3 * (static_cast<size_t>(top + y) * static_cast<size_t>(out.width) + static_cast<size_t>(left))],
                &in.rgb[3 * static_cast<size_t>(y) * static_cast<size_t>(in.width)], 3 * static_cast<size_t>(in.width));
  return out;
}

int margin(int64_t spare, bool halves_to_even) {
  const int64_t half = spare / 2;
  return static_cast<int>(half + (halves_to_even && spare % 2 == 1 && half % 2 == 1));
}

void write_planes(const Image& image, Shape size, const TowerPlanes& t, const PlanesConfig& c, float* to) {
  const int top = margin(image.height - size.height, c.halves_to_even), left = margin(image.width - size.width, c.halves_to_even);
  for (size_t channel = 0; channel < 3; ++channel) {
    std::array<float, 256> table;
    const auto mean = static_cast<float>(t.scaling.mean[channel]), std = static_cast<float>(t.scaling.std[channel]);
    for (size_t x = 0; x < 256; ++x) {
      const float scaled =
          c.rescale_in_double ? static_cast<float>(static_cast<double>(x) * c.rescale_factor) : static_cast<float>(x) / 255.0F;
      table[x] = (scaled - mean) / std;
    }
    for (int64_t y = 0; y < size.height; ++y) {
      const uint8_t* row = image.rgb.data() + 3 * ((top + y) * image.width + left) + channel;
      for (int64_t x = 0; x < size.width; ++x) *to++ = table[row[3 * x]];
    }
  }
}

}  // namespace

Result<PlanesConfig> planes_config(const json::object& o, std::string_view where) {
  SLIP_TRY(const std::string type,
           string_or(o, "image_processor_type", o.contains("tvf_resize_params") ? "Prismatic" : "Bit", where));
  if (type.starts_with("Prismatic")) return prismatic_config(o, where);
  if (type.starts_with("Bit")) return bit_config(o, where);
  return unsupported("{}: image_processor_type: expected PrismaticImageProcessor or BitImageProcessor, got {}", where, type);
}

Result<Size> planes_size(int height, int width, const PlanesConfig& config) {
  SLIP_CHECK(!config.towers.empty() && height > 0 && width > 0, "configurations have a tower, images have pixels");
  Shape in{height, width};
  if (config.letterbox) {
    const int side = std::max(height, width);
    in = {height + (side - height) / 2 * 2, width + (side - width) / 2 * 2};
  }
  std::optional<Size> out;
  for (const TowerPlanes& t : config.towers) {
    SLIP_TRY(const Shape resized, resized_shape(in, t));
    SLIP_TRY(const Shape size, cropped_shape(resized, t));
    const Size its{static_cast<int>(size.height), static_cast<int>(size.width)};
    if (out && *out != its)
      return unsupported("image: expected one size for all towers, got {} x {} and {} x {}", out->width, out->height, its.width,
                         its.height);
    out = its;
  }
  return *out;
}

Result<Planes> image_planes(const Image& image, const PlanesConfig& config) {
  SLIP_TRY(const Size size, planes_size(image.height, image.width, config));
  if (config.letterbox) {
    const int64_t side = std::max(image.height, image.width);
    if (side * side > kMostPixels)
      return bad_input("image: expected at most {} pixels in the square, got {} x {}", kMostPixels, side, side);
  }
  const Image padded = config.letterbox ? letterboxed(image, config.fill) : Image{};
  const Image& source = config.letterbox ? padded : image;
  Planes out{static_cast<int>(3 * config.towers.size()), size.height, size.width, {}};
  const size_t tower = size_t{3} * static_cast<size_t>(size.height) * static_cast<size_t>(size.width);
  out.values.resize(config.towers.size() * tower);
  for (size_t i = 0; i < config.towers.size(); ++i) {
    const TowerPlanes& t = config.towers[i];
    SLIP_TRY(const Shape resized, resized_shape({source.height, source.width}, t));
    const Image scaled = t.resize == TowerPlanes::Resize::kNone
                             ? source
                             : resize_bicubic(source, static_cast<int>(resized.width), static_cast<int>(resized.height));
    write_planes(scaled, {size.height, size.width}, t, config, out.values.data() + i * tower);
  }
  return out;
}

}  // namespace slip
