// SPDX-License-Identifier: Apache-2.0
// See image_rules.h.
#include "models/vision/image_rules.h"

#include "models/config/config_reader.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

Result<PlanesConfig> read_planes(const fs::path& file, const VitTowerConfig& tower) {
  SLIP_TRY(const json::value value, read_json(file, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", file.string(), cut(value));
  SLIP_TRY(PlanesConfig planes, planes_config(value.get_object(), file.string()));
  if (3 * static_cast<int64_t>(planes.towers.size()) != tower.channels())
    return bad_input("{}: expected {} channels as in config.json, got {}", file.string(), tower.channels(),
                     3 * planes.towers.size());
  for (const VitConfig& v : tower.vits) {
    if (!planes.height || v.interpolation != VitConfig::Interpolation::kNone) continue;
    if (*planes.height / v.patch != v.grid_rows || *planes.width / v.patch != v.grid_columns)
      return bad_input("{}: expected pictures of {} x {} pixels as in config.json, got {} x {}", file.string(),
                       v.grid_columns * v.patch, v.grid_rows * v.patch, *planes.width, *planes.height);
  }
  return planes;
}

Result<PreprocessorConfig> read_qwen(const fs::path& file, const std::optional<VisionConfig>& vision) {
  SLIP_TRY(PreprocessorConfig config, read_preprocessor_config(file));
  if (vision && (config.patch_size != vision->patch || config.temporal_patch_size != vision->temporal_patch ||
                 config.merge_size != vision->merge))
    return bad_input("{}: expected patch, temporal patch and merge size {} {} {} as in config.json, got {} {} {}", file.string(),
                     vision->patch, vision->temporal_patch, vision->merge, config.patch_size, config.temporal_patch_size,
                     config.merge_size);
  return config;
}

}  // namespace

Result<ImageRules> ImageRules::read(const fs::path& file, const ModelConfig& config) {
  if (config.vit_tower) {
    SLIP_TRY(PlanesConfig planes, read_planes(file, *config.vit_tower));
    return ImageRules(ForVit{std::move(planes), *config.vit_tower});
  }
  SLIP_TRY(PreprocessorConfig qwen, read_qwen(file, config.vision));
  return ImageRules(std::move(qwen));
}

Result<std::optional<ImageRules>> ImageRules::load(const fs::path& folder, const ModelConfig& config) {
  const fs::path file = folder / "preprocessor_config.json";
  std::error_code ec;
  if (!fs::exists(file, ec)) return std::optional<ImageRules>{};
  auto rules = read(file, config);
  if (!rules) return rules.error();
  return Result<std::optional<ImageRules>>(std::optional<ImageRules>(std::in_place, std::move(*rules)));
}

Result<ImageRules> ImageRules::need(const fs::path& folder) {
  const fs::path file = folder / "preprocessor_config.json";
  std::error_code ec;
  if (!fs::exists(file, ec)) return bad_input("{}: expected preprocessor_config.json for images, got none", file.string());
  SLIP_TRY(const ModelConfig config, read_model_config(folder));
  return read(file, config);
}

Result<PatchGrid> ImageRules::apply(const Image& image) const {
  if (const PreprocessorConfig* config = qwen()) return qwen_patches(image, *config);
  const auto& [config, tower] = std::get<ForVit>(rules_);
  SLIP_TRY(Planes planes, image_planes(image, config));
  PatchGrid g = vit_grid(tower, planes.height, planes.width);
  if (g.merged() < 1)
    return bad_input("image: expected at least {} x {} pixels, got {} x {}", tower.vits.front().patch * tower.pool,
                     tower.vits.front().patch * tower.pool, planes.width, planes.height);
  g.values = std::move(planes.values);
  return g;
}

Result<PatchGrid> ImageRules::apply_later(std::shared_ptr<const Image> image) const {
  if (const PreprocessorConfig* config = qwen()) return patches_to_make(std::move(image), *config);
  return unsupported("image: expected Qwen2-VL's patches for a device to make, got planes");
}

Result<int64_t> ImageRules::rows(int height, int width) const {
  if (const PreprocessorConfig* config = qwen()) {
    SLIP_TRY(const Size size, smart_resize(height, width, config->factor(), config->min_pixels, config->max_pixels));
    return int64_t{size.height} * size.width / (int64_t{config->factor()} * config->factor());
  }
  const auto& [config, tower] = std::get<ForVit>(rules_);
  SLIP_TRY(const Size size, planes_size(height, width, config));
  return int64_t{vit_grid(tower, size.height, size.width).merged()};
}

PatchGrid vit_grid(const VitTowerConfig& config, int height, int width) {
  const int side = config.vits.front().patch;
  PatchGrid g;
  g.t = 1;
  g.h = height / side / config.pool * config.pool;
  g.w = width / side / config.pool * config.pool;
  g.patch_dim = config.channels() * side * side;
  g.merge_size = config.pool;
  g.plane_height = height;
  g.plane_width = width;
  return g;
}

}  // namespace slip
