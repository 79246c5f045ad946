// SPDX-License-Identifier: Apache-2.0
// What samples of models behind plain ViTs (dino_qwen, OpenVLA) bring beside tokens: pictures cut into patches in raster order, and the ego
// history as numbers. As the engine reads them (models/vision/image_rules.h, models/patch_prompt.h).
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
  /// `model`: the file of `config`, which has such towers; preprocessor_config.json stands beside it.
  static Result<VitInputs> of(const ModelConfig& config, const std::filesystem::path& model);
  /// Nothing for a model that is no dino_qwen.
  static Result<std::optional<VitInputs>> load(const json::object& config, const std::filesystem::path& model);

  /// The task's prompt for a record: tokens, positions, pictures and history. kBadInput where its tokens and pictures do not go together.
  Status add_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, const PromptText& text, const EgoInput& ego,
                    std::span<const Image> images, Sample& out) const;

  /// Rows of a prompt: an image token for each feature, in the placeholders' stead or, where the model has none (OpenVLA), behind the first
  /// token. Image tokens are then the vocabulary's last id, which is padding there.
  Status add_rows(std::span<const TokenId> tokens, std::span<const Image> images, Sample& out) const;

 private:
  VitInputs(ImageRules rules, const ModelConfig& config);
  Status add_patches(const PatchGrid& planes, Sample& out) const;

  ImageRules rules_;
  std::optional<TokenId> placeholder_;
  TokenId image_;
  std::optional<HistoryConfig> history_;
  VitTowerConfig tower_;
};

}  // namespace slip
