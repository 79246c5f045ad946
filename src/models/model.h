// SPDX-License-Identifier: Apache-2.0
// A Hugging Face folder, loaded: decoder, vision tower, tokenizer, preprocessing. The one object that a session needs.
//
//   folder: config.json, *.safetensors; optional generation_config.json (more end tokens), tokenizer.json (or vocab.json and
//   merges.txt), a chat template, preprocessor_config.json, linear_spec_lora/ (a draft adapter, models/adapter.h)
#pragma once
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "image/qwen_preprocess.h"
#include "models/config/config.h"
#include "models/config/dino_qwen.h"
#include "models/loader.h"
#include "models/prompt.h"
#include "models/rows_file.h"
#include "models/vision/feature_cache.h"
#include "models/vision/history_encoder.h"
#include "models/vision/image_rules.h"
#include "models/vision/vision_tower.h"
#include "nn/decoder.h"
#include "text/chat.h"
#include "text/tokenizer.h"

namespace slip {

class QwenVision;

struct ModelOptions {
  WeightType type = WeightType::kBF16;
  int threads = 0;   // 0: all physical cores this process may use
  int slots = 4096;  // rows that the key/value cache holds
  /// Folder of a draft adapter; empty: the model folder's own where it has one; "none": without.
  std::filesystem::path draft_adapter = {};
  /// "cpu", or where the decoder runs: "cuda:0" (device.h), and a tower of Qwen2.5-VL's kind. Other towers and draft heads run on the processor.
  std::string device = "cpu";
  std::optional<KvType> kv_type = {};  // numbers of the key/value cache; none: as kv_type_of(type). int8 on the processor only
};

class Model {
 public:
  const std::filesystem::path& folder() const { return folder_; }
  const ModelConfig& config() const { return config_; }
  const ModelOptions& options() const { return options_; }
  const MemoryNeed& memory() const { return memory_; }
  /// The tensor-name layout that was found ("model.language_model."), and remarks on the folder.
  const std::string& text_prefix() const { return text_prefix_; }
  const std::string& vision_prefix() const { return vision_prefix_; }
  const std::vector<std::string>& notes() const { return notes_; }

  Lm& lm() { return *lm_; }
  /// The same as what it is on the processor; null where a device runs it.
  DecoderLm* decoder() { return decoder_; }
  /// kUnsupported on a device; `what` needs it.
  Result<DecoderLm*> need_decoder(std::string_view what);
  ThreadPool& pool() { return *pool_; }
  /// Null when the folder has none, or one that cannot be read: passes of token ids need none.
  const Tokenizer* tokenizer() const { return tokenizer_ && *tokenizer_ ? &**tokenizer_ : nullptr; }
  /// The same with the reason.
  Result<const Tokenizer*> need_tokenizer() const;
  const Result<ChatTemplate>& chat() const { return chat_; }
  /// Null without a vision tower.
  VisionTower* vision() { return vision_.get(); }
  /// Of Qwen2-VL's kind; nothing for other towers, and for folders without preprocessor_config.json.
  const std::optional<PreprocessorConfig>& preprocessor() const { return preprocessor_; }

  /// kUnsupported when the model has no vision tower, kBadInput when its folder has no preprocessor_config.json.
  /// A tower on a device makes the patches itself, from a copy of the picture, or from the picture that is shared with it.
  Result<PatchGrid> preprocess(const Image& image) const;
  Result<PatchGrid> preprocess(std::shared_ptr<const Image> image) const;
  /// Appends the images' feature rows, where the tower leaves them.
  Status image_features(std::span<const PatchGrid> images, Features& features, const CancelToken& cancel = {});
  /// The same as numbers.
  Status encode_images(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel = {});
  /// Features of images whose content is known stay for later requests, up to so many bytes; 0, as a folder is loaded: none do.
  void keep_features(size_t bytes) { features_ = FeatureCache(bytes); }
  const FeatureCache& kept_features() const { return features_; }
  /// Messages, rendered by the folder's own template; its loading error when it has none that is known.
  Result<Prompt> build_prompt(std::span<const ChatMessage> messages, std::span<const PatchGrid> images = {},
                              const ChatOptions& options = {});
  /// Text to ids as this model's prompts have them: with BOS in front for OpenVLA.
  Result<std::vector<TokenId>> prompt_tokens(std::string_view text) const;
  /// Text as the chat template renders it (one placeholder per image) -> rows with the images' features. OpenVLA: text without
  /// placeholders, its patches behind the first token. `history`: the numbers of the ego history's row, for models that take one
  /// (config().history).
  Result<Prompt> build_prompt(std::string_view text, std::span<const PatchGrid> images = {}, std::span<const float> history = {},
                              const CancelToken& cancel = {});
  /// The same from tokens.
  Result<Prompt> build_prompt(std::span<const TokenId> tokens, std::span<const PatchGrid> images = {},
                              std::span<const float> history = {}, const CancelToken& cancel = {});
  /// Loads, preprocesses and encodes the images of a rows file.
  Result<RowFeatures> row_features(const RowsFile& file);

 private:
  friend Result<std::unique_ptr<Model>> load_model(const std::filesystem::path&, const ModelOptions&, const LoadProgress&);
  Model() = default;
  Status load_parts(const LoadProgress& progress);
  Status check_device() const;
  Status make_lm(DecoderWeights weights);
  Result<DraftAdapter> load_adapter();
  Status make_towers(LoadedWeights& weights);
  Status place_tower(QwenVision& vision);
  Status kept_or_made(std::span<const PatchGrid> images, Features& features, const CancelToken& cancel);
  Result<Prompt> patch_prompt(std::span<const TokenId> tokens, std::span<const PatchGrid> images, std::span<const float> history,
                              const CancelToken& cancel);
  std::filesystem::path folder_;
  ModelOptions options_;
  ModelConfig config_;
  MemoryNeed memory_;
  std::string text_prefix_, vision_prefix_;
  std::vector<std::string> notes_;
  std::unique_ptr<ThreadPool> pool_;  // before what runs on it
  Result<std::optional<Tokenizer>> tokenizer_ = std::optional<Tokenizer>{};
  Result<ChatTemplate> chat_ = unsupported("chat template: expected a folder with a tokenizer, got none");
  std::optional<PreprocessorConfig> preprocessor_;
  std::unique_ptr<Lm> lm_;
  DecoderLm* decoder_ = nullptr;
  std::optional<ImageRules> image_rules_;
  std::unique_ptr<VisionTower> vision_;
  FeatureCache features_;
  std::optional<HistoryEncoder> history_;
};

Result<std::unique_ptr<Model>> load_model(const std::filesystem::path& folder, const ModelOptions& options = {},
                                          const LoadProgress& progress = {});

/// config.json with what generation_config.json adds; mask and null ids resolved through the tokenizer (may be null).
Result<ModelConfig> load_config(const std::filesystem::path& folder, const Tokenizer* tokenizer);
/// Model::prompt_tokens without the model.
Result<std::vector<TokenId>> prompt_tokens(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view text);
/// The folder's tokenizer, or nothing when it has no tokenizer.json and no vocab.json.
Result<std::optional<Tokenizer>> load_tokenizer(const std::filesystem::path& folder);

}  // namespace slip
