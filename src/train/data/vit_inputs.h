// SPDX-License-Identifier: Apache-2.0
// What a dino_qwen's samples bring beside tokens: pictures cut into patches in raster order, and the ego history as numbers. As the engine
// reads them (models/vision/image_rules.h, models/patch_prompt.h).
#pragma once
#include <filesystem>
#include <optional>
#include <span>

#include "models/vision/image_rules.h"
#include "task/prompt.h"
#include "text/chat.h"
#include "train/data/source.h"

namespace slip {

class VitInputs {
 public:
  /// Nothing for a model of another kind. `model`: its config.json, beside which preprocessor_config.json stands.
  static Result<std::optional<VitInputs>> load(const json::object& config, const std::filesystem::path& model);

  /// The task's prompt for a record: tokens, positions, pictures and history. kBadInput where its tokens and pictures do not go together.
  Status add_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, const PromptText& text, const EgoInput& ego,
                    std::span<const Image> images, Sample& out) const;

 private:
  VitInputs(ImageRules rules, const ModelConfig& config);
  void add_patches(const PatchGrid& planes, Sample& out) const;

  ImageRules rules_;
  TokenId image_;
  std::optional<HistoryConfig> history_;
  int32_t pool_ = 1, patch_ = 14, channels_ = 3;
};

}  // namespace slip
