// SPDX-License-Identifier: Apache-2.0
// slipstream::preprocess and slipstream::forward: a tower's inputs, and a pass over rows with explicit visibility, as files.
#include <algorithm>

#include "api/boundary.h"
#include "api/pictures.h"
#include "api/tools/reports.h"
#include "base/files/kept.h"
#include "core/safetensors.h"
#include "engine/engine.h"
#include "models/model.h"
#include "models/rows_file.h"
#include "models/vision/image_rules.h"
#include "slipstream/model.h"

namespace slip::api {

namespace {

static_assert(slipstream::kMostRows == kMostFileRows);

// Patches of all images as one matrix (Qwen2-VL), or planes: C x H x W of one image, N x C x H x W of several.
Result<std::vector<int64_t>> pixel_shape(const std::vector<PatchGrid>& grids, std::span<const std::string> files) {
  const PatchGrid& first = grids.front();
  int64_t numbers = 0;
  for (size_t i = 0; i < grids.size(); ++i) {
    numbers += static_cast<int64_t>(grids[i].values.size());
    if (first.plane_height > 0 && (grids[i].plane_height != first.plane_height || grids[i].plane_width != first.plane_width))
      return unsupported("{}: expected planes of one size, {} x {}, got {} x {}", files[i], first.plane_width, first.plane_height,
                         grids[i].plane_width, grids[i].plane_height);
  }
  if (first.plane_height == 0) return std::vector<int64_t>{numbers / first.patch_dim, first.patch_dim};
  const int64_t n = static_cast<int64_t>(grids.size()), area = int64_t{first.plane_height} * first.plane_width;
  std::vector<int64_t> shape{numbers / n / area, first.plane_height, first.plane_width};
  if (n > 1) shape.insert(shape.begin(), n);
  return shape;
}

Result<slipstream::Report> preprocess(const std::string& folder, const std::vector<std::string>& files, const std::string& out,
                                      bool white_alpha) {
  SLIP_TRY(const ImageRules rules, ImageRules::need(folder));
  if (files.empty()) return usage_error("preprocess: expected images, got none");
  for (const std::string& file : files) SLIP_TRY_(check_inputs_kept({{"--image", file}}, {{"--out", out}}));
  std::vector<float> pixels;
  std::vector<int64_t> sizes;
  std::vector<PatchGrid> grids;
  json::array shown;
  std::string text;
  for (const std::string& file : files) {
    SLIP_TRY(const Image image, load_image(file, {.alpha = white_alpha ? AlphaMode::kWhite : AlphaMode::kDrop}));
    SLIP_TRY_(check_size(file, image.width, image.height));
    auto grid = rules.apply(image);
    if (!grid) return Error{grid.error().kind, fmt::format("{}: {}", file, grid.error().message)};
    pixels.insert(pixels.end(), grid->values.begin(), grid->values.end());
    sizes.insert(sizes.end(), {grid->t, grid->h, grid->w});
    shown.push_back(json::object{{"image", file},
                                 {"width", image.width},
                                 {"height", image.height},
                                 {"grid_thw", {grid->t, grid->h, grid->w}},
                                 {"tokens", grid->merged()}});
    text += json::serialize(shown.back()) + "\n";
    grids.push_back(std::move(*grid));
  }
  SLIP_TRY(const std::vector<int64_t> shape, pixel_shape(grids, files));
  const std::vector<TensorToWrite> tensors{
      {"pixel_values", DType::kF32, shape, std::as_bytes(std::span(pixels))},
      {"grid_thw", DType::kI64, {static_cast<int64_t>(files.size()), 3}, std::as_bytes(std::span(sizes))}};
  SLIP_TRY_(write_safetensors(out, tensors));
  return report_of(json::object{{"images", std::move(shown)}, {"out", out}}, std::move(text));
}

Result<slipstream::Report> forward(const std::string& folder, const RowsFile& file, const std::string& out,
                                   const slipstream::ForwardOptions& o, const slipstream::CancelToken& cancel) {
  SLIP_TRY(const WeightType natural, natural_type(folder, "float32"));
  SLIP_TRY(const WeightType type, o.dtype.empty() ? natural : weight_type(o.dtype, ""));
  const int slots = std::max<int>(64, static_cast<int>(file.rows.size()));
  SLIP_TRY(const std::unique_ptr<Model> model,
           load_model(folder, {.type = type, .threads = o.threads, .slots = slots, .device = o.device}, {.cancel = cancel}));
  SLIP_TRY(const RowFeatures features, model->row_features(file));
  SLIP_TRY(const std::vector<float> logits, forward_rows(model->lm(), file, features, {.split = o.split, .slots = {}}));
  const int64_t vocab = model->lm().info().vocab;
  SLIP_TRY_(write_logits(out, logits, vocab));
  return report_of(
      json::object{{"rows", file.rows.size()}, {"vocab", vocab}, {"passes", plan_passes(file, o.split).size() - 1}, {"out", out}},
      "");
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

Result<Report> preprocess(const std::string& folder, const std::vector<std::string>& images, const std::string& out,
                          bool white_alpha) {
  return slip::api::bounded([&] { return slip::api::preprocess(folder, images, out, white_alpha); });
}

Result<Report> forward(const std::string& folder, std::string_view rows, const std::string& name, const std::string& base_folder,
                       const std::string& out, const ForwardOptions& options, const CancelToken& cancel) {
  return slip::api::bounded([&]() -> Result<Report> {
    SLIP_TRY_(slip::check_inputs_kept({{"--rows", name}}, {{"--out", out}}));
    SLIP_TRY(const slip::json::value value, slip::parse_json(rows, name));
    SLIP_TRY(const slip::RowsFile file, slip::parse_rows(value, name, base_folder));
    return slip::api::forward(folder, file, out, options, cancel);
  });
}

}  // namespace slipstream
