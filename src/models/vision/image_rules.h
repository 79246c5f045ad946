// SPDX-License-Identifier: Apache-2.0
// How a folder's images become what its vision tower reads, without the tower's weights: Qwen2-VL's patches, or planes for plain
// ViTs. Read from config.json and preprocessor_config.json.
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <variant>

#include "base/result.h"
#include "image/image.h"
#include "image/openvla_preprocess.h"
#include "image/qwen_preprocess.h"
#include "models/config/config.h"

namespace slip {

class ImageRules {
 public:
  /// Nothing where the folder has no preprocessor_config.json; kBadInput where it does not fit config.json. A model without a tower
  /// gets Qwen2-VL's rules (its images can be looked at, not encoded).
  static Result<std::optional<ImageRules>> load(const std::filesystem::path& folder, const ModelConfig& config);
  /// The same with config.json read too; kBadInput for a folder without preprocessor_config.json.
  static Result<ImageRules> need(const std::filesystem::path& folder);

  Result<PatchGrid> apply(const Image& image) const;
  /// The same with the patches still to be made (patches_to_make), for a tower that makes them; kUnsupported for planes.
  Result<PatchGrid> apply_later(std::shared_ptr<const Image> image) const;
  /// Feature rows that an image of this size becomes.
  Result<int64_t> rows(int height, int width) const;
  /// Null for planes.
  const PreprocessorConfig* qwen() const { return std::get_if<PreprocessorConfig>(&rules_); }

 private:
  struct ForVit {
    PlanesConfig planes;
    VitTowerConfig tower;
  };
  static Result<ImageRules> read(const std::filesystem::path& file, const ModelConfig& config);
  explicit ImageRules(std::variant<PreprocessorConfig, ForVit> rules) : rules_(std::move(rules)) {}
  std::variant<PreprocessorConfig, ForVit> rules_;
};

/// What an image of planes of this size is to a tower: h x w patches that are multiples of `pool`, no values yet.
PatchGrid vit_grid(const VitTowerConfig& config, int height, int width);

}  // namespace slip
