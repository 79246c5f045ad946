// SPDX-License-Identifier: Apache-2.0
// Loading a folder and preparing prompts; contracts in model.h.
#include "models/model.h"

#include <algorithm>

#include "base/clock/operation_clock.h"
#include "base/pause.h"
#include "models/adapter.h"
#include "models/config/openvla.h"
#include "models/device.h"
#include "models/patch_prompt.h"
#include "models/vision/qwen_vision.h"
#include "models/vision/vit_tower.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

// More end tokens than config.json names: a number or a list.
Status read_generation_config(const fs::path& folder, ModelConfig& config) {
  const fs::path file = folder / "generation_config.json";
  std::error_code ec;
  if (!fs::exists(file, ec)) return {};
  SLIP_TRY(const json::value value, read_json(file, size_t{16} << 20));
  if (!value.is_object())
    return bad_input("{}: expected a JSON object, got {}", file.string(), json::serialize(value).substr(0, 40));
  const json::value* eos = value.get_object().if_contains("eos_token_id");
  if (!eos || eos->is_null()) return {};
  const json::array ids = eos->is_array() ? eos->get_array() : json::array{*eos};
  for (const json::value& id : ids) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= config.decoder.vocab)
      return bad_input("{}: eos_token_id: expected ids below {}, got {}", file.string(), config.decoder.vocab,
                       json::serialize(id).substr(0, 60));
    const TokenId token{static_cast<int32_t>(id.get_int64())};
    if (std::find(config.eos.begin(), config.eos.end(), token) == config.eos.end()) config.eos.push_back(token);
  }
  return {};
}

// Statistics of a fine-tuned OpenVLA, which override those of config.json.
Status read_dataset_statistics(const fs::path& folder, ModelConfig& config) {
  const fs::path file = folder / "dataset_statistics.json";
  std::error_code ec;
  if (!config.action || !fs::exists(file, ec)) return {};
  SLIP_TRY(const json::value value, read_json(file, size_t{64} << 20));
  if (!value.is_object())
    return bad_input("{}: expected a JSON object, got {}", file.string(), json::serialize(value).substr(0, 40));
  SLIP_TRY(config.action->statistics, read_action_statistics(value.get_object(), file.string()));
  return {};
}

// OpenVLA-OFT stores heads of its own beside the weights: actions come from a regression on hidden states, not from tokens.
Status refuse_oft(const fs::path& folder) {
  std::error_code ec;
  std::string found;  // the first by name, so that a folder has one message
  for (const auto& e : fs::directory_iterator(folder, ec)) {
    const std::string name = e.path().filename().string();
    const bool head = name.starts_with("action_head--") || name.starts_with("proprio_projector--") ||
                      name.starts_with("noisy_action_projector--");
    if (head && name.ends_with(".pt") && (found.empty() || name < found)) found = name;
  }
  if (found.empty()) return {};
  return unsupported("{}: expected an OpenVLA that answers with action tokens, got an OpenVLA-OFT folder ({})", folder.string(),
                     found);
}

Status check_options(const ModelOptions& o) {
  constexpr int kMaxThreads = 1024;   // beyond the cores of the machines that this is for: a typing error
  constexpr int kMaxSlots = 1 << 24;  // 16 million rows; 10 million is the longest published context (Llama 4 Scout)
  if (o.threads < 0 || o.threads > kMaxThreads) return usage_error("threads: expected 0 to {}, got {}", kMaxThreads, o.threads);
  if (o.slots < 1 || o.slots > kMaxSlots) return usage_error("slots: expected 1 to {}, got {}", kMaxSlots, o.slots);
  return {};
}

}  // namespace

Result<std::optional<Tokenizer>> load_tokenizer(const fs::path& folder) {
  std::error_code ec;
  if (!fs::exists(folder / "tokenizer.json", ec) && !fs::exists(folder / "vocab.json", ec)) return std::optional<Tokenizer>{};
  SLIP_TRY(Tokenizer tokenizer, Tokenizer::load(folder));
  return std::optional<Tokenizer>{std::move(tokenizer)};
}

Result<ModelConfig> load_config(const fs::path& folder, const Tokenizer* tokenizer) {
  SLIP_TRY(ModelConfig config, read_model_config(folder));
  if (config.action) SLIP_TRY_(refuse_oft(folder));
  SLIP_TRY_(read_generation_config(folder, config));
  SLIP_TRY_(read_dataset_statistics(folder, config));
  if (tokenizer) resolve_draft_tokens(config, *tokenizer);
  return config;
}

Result<DraftAdapter> Model::load_adapter() {
  fs::path folder = options_.draft_adapter;
  if (folder == "none") return DraftAdapter{};
  if (folder.empty()) {
    folder = folder_ / kDraftAdapterFolder;
    std::error_code ec;
    if (!fs::is_directory(folder, ec)) return DraftAdapter{};
  }
  SLIP_TRY(DraftAdapter adapter, load_draft_adapter(folder, config_.decoder, options_.type, *pool_));
  notes_.push_back(fmt::format("draft adapter {}: rank {}, scale {}", folder.string(), adapter.rank, adapter.scale));
  return adapter;
}

Status Model::load_parts(const LoadProgress& progress) {
  tokenizer_ = load_tokenizer(folder_);
  SLIP_TRY(config_, load_config(folder_, tokenizer()));
  if (tokenizer()) chat_ = ChatTemplate::load(folder_);
  if (config_.vision || config_.vit_tower) {
    SLIP_TRY(image_rules_, ImageRules::load(folder_, config_));
    if (image_rules_ && image_rules_->qwen()) preprocessor_ = *image_rules_->qwen();
  }
  if (tokenizer() && tokenizer()->size() > config_.decoder.vocab)
    notes_.push_back(fmt::format("the tokenizer has {} ids, the model {} rows: ids beyond are refused", tokenizer()->size(),
                                 config_.decoder.vocab));
  SLIP_TRY_(check_device());
  SLIP_TRY(DraftAdapter adapter, load_adapter());  // before the weights: small, and may be refused
  SLIP_TRY(const Checkpoint checkpoint, Checkpoint::open_folder(folder_));
  SLIP_TRY(const DeviceName device, parse_device(options_.device));
  SLIP_TRY(LoadedWeights weights, load_weights(checkpoint, config_, options_.type, device.cpu() ? options_.slots : 0, *pool_,
                                               progress, &memory_, options_.kv_type));
  text_prefix_ = std::move(weights.text_prefix);
  vision_prefix_ = std::move(weights.vision_prefix);
  notes_.insert(notes_.end(), weights.notes.begin(), weights.notes.end());
  for (const DraftAdapter::Layer& layer : adapter.layers)
    memory_.weights += static_cast<int64_t>(layer.a.bytes() + layer.b.bytes());
  weights.decoder.adapter = std::move(adapter);
  SLIP_TRY_(make_lm(std::move(weights.decoder)));
  return make_towers(weights);
}

/// What a device refuses, before a model's weights are read for it.
Status Model::check_device() const {
  SLIP_TRY(const DeviceName device, parse_device(options_.device));
  if (device.cpu()) return {};
  if (options_.kv_type && *options_.kv_type != KvType::kBF16)
    return unsupported("{} on {}: --kv: expected bf16 keys and values, the only ones on a device, got {}", folder_.string(),
                       device.text(), *options_.kv_type == KvType::kF32 ? "f32" : "int8");
  return slip::check_device(device, config_.decoder, options_.type);
}

Status Model::make_lm(DecoderWeights weights) {
  SLIP_TRY(const DeviceName device, parse_device(options_.device));
  if (!device.cpu()) {
    SLIP_TRY(lm_, open_on_device(device, config_.decoder, weights, options_.slots, *pool_));
    notes_.push_back("the decoder runs on " + device.text());
    return {};
  }
  SLIP_TRY(auto lm, DecoderLm::create(config_.decoder, std::move(weights), options_.slots, *pool_, options_.kv_type));
  decoder_ = lm.get();
  lm_ = std::move(lm);
  return {};
}

Result<DecoderLm*> Model::need_decoder(std::string_view what) {
  if (decoder_) return decoder_;
  return unsupported("{}: {}: expected a model on the cpu, got one on {}", folder_.string(), what, options_.device);
}

Result<std::unique_ptr<Model>> load_model(const fs::path& folder, const ModelOptions& options, const LoadProgress& progress) {
  SLIP_TRY_(check_isa_wish());
  SLIP_TRY_(check_options(options));
  if (const auto device = parse_device(options.device); !device) return device.error();
  std::unique_ptr<Model> model(new Model);
  model->folder_ = folder;
  model->options_ = options;
  if (options.threads == 0) model->options_.threads = usable_threads();
  model->pool_ = std::make_unique<ThreadPool>(model->options_.threads);
  SLIP_TRY_(model->load_parts(progress));
  return model;
}

/// On the decoder's device, where it has the kernels; else a note says that pictures are read here. A device without room for it is an error:
/// what a picture comes to must not depend on free memory.
Status Model::place_tower(QwenVision& vision) {
  SLIP_TRY(const DeviceName device, parse_device(options_.device));
  if (device.cpu()) return {};
  auto there = open_vision_on_device(device, vision.device_weights(), *pool_);
  if (there) {
    vision.run_on(std::move(*there));
    notes_.push_back("the vision tower runs on " + device.text());
    return {};
  }
  if (there.error().kind != ErrorKind::kUnsupported) return there.error();
  notes_.push_back("the vision tower runs on the processor: " + there.error().message);
  return {};
}

Status Model::make_towers(LoadedWeights& weights) {
  if (weights.vision) {
    auto vision = std::make_unique<QwenVision>(*config_.vision, std::move(*weights.vision), *pool_);
    SLIP_TRY_(place_tower(*vision));
    vision_ = std::move(vision);
  }
  if (weights.vit_tower) vision_ = std::make_unique<VitTower>(*config_.vit_tower, std::move(*weights.vit_tower), *pool_);
  if (weights.history) history_.emplace(*config_.history, std::move(*weights.history), *pool_);
  return {};
}

Result<const Tokenizer*> Model::need_tokenizer() const {
  if (!tokenizer_) return tokenizer_.error();
  if (tokenizer()) return tokenizer();
  std::error_code ec;
  for (const char* other : {"tokenizer.model", "tekken.json"})
    if (fs::exists(folder_ / other, ec))
      return unsupported("{}: expected a tokenizer (tokenizer.json, or vocab.json and merges.txt), got {}", folder_.string(),
                         other);
  return bad_input("{}: expected a tokenizer (tokenizer.json, or vocab.json and merges.txt), got none", folder_.string());
}

Result<PatchGrid> Model::preprocess(const Image& image) const {
  if (!vision_) return unsupported("{}: expected a model with a vision tower, got {}", folder_.string(), config_.architecture);
  if (!image_rules_) return bad_input("{}: expected preprocessor_config.json for images, got none", folder_.string());
  if (vision_->makes_patches() && image_rules_->qwen()) return image_rules_->apply_later(std::make_shared<const Image>(image));
  return image_rules_->apply(image);
}

Result<PatchGrid> Model::preprocess(std::shared_ptr<const Image> image) const {
  if (vision_ && image_rules_ && vision_->makes_patches() && image_rules_->qwen())
    return image_rules_->apply_later(std::move(image));
  return preprocess(*image);
}

Status Model::encode_images(std::span<const PatchGrid> images, std::vector<float>& features_ND, const CancelToken& cancel) {
  Features features;
  SLIP_TRY_(image_features(images, features, cancel));
  if (!features.resident.empty()) return features.read(features_ND);
  features_ND = std::move(features.numbers_ND);
  return {};
}

Status Model::image_features(std::span<const PatchGrid> images, Features& features, const CancelToken& cancel) {
  if (images.empty()) return {};
  const OperationScope encoding("tower");
  if (!vision_) return unsupported("{}: expected a model with a vision tower, got {}", folder_.string(), config_.architecture);
  if (!features_.enabled()) {
    Features all;
    SLIP_TRY_(vision_->features(images, features.empty() ? features : all, cancel));
    features.append(all);
    return {};
  }
  const Status done = kept_or_made(images, features, cancel);
  if (done || done.error().kind != ErrorKind::kResource || features_.bytes() == 0) return done;
  features_.drop();  // features that are kept give way to those that are needed
  return kept_or_made(images, features, cancel);
}

Status Model::kept_or_made(std::span<const PatchGrid> images, Features& features, const CancelToken& cancel) {
  Features all;
  std::vector<const PatchGrid*> missing;
  std::vector<const Features*> kept;
  for (const PatchGrid& g : images)
    if (!kept.emplace_back(features_.get(g))) missing.push_back(&g);
  std::vector<Features> made;
  if (missing.size() == images.size() && vision_->makes_patches()) {  // here a request gives way to others between pictures
    SLIP_TRY_(vision_->features(images, all, cancel));
    for (FeatureBlock& block : all.resident) made.push_back({{std::move(block)}, {}});
  } else {
    for (const PatchGrid* g : missing) SLIP_TRY_(vision_->features({g, 1}, made.emplace_back(), cancel));
  }
  auto fresh = made.begin();
  for (const Features* its : kept) features.append(its ? *its : *fresh++);
  for (size_t i = 0; i < missing.size(); ++i) features_.put(*missing[i], std::move(made[i]));
  return {};
}

Result<Prompt> Model::build_prompt(std::span<const ChatMessage> messages, std::span<const PatchGrid> images,
                                   const ChatOptions& options) {
  if (!chat_) return chat_.error();
  SLIP_TRY(const std::string text, chat_->render(messages, options));
  return build_prompt(text, images);
}

Result<std::vector<TokenId>> prompt_tokens(const ModelConfig& config, const Tokenizer& tokenizer, std::string_view text) {
  SLIP_TRY(std::vector<TokenId> tokens, tokenizer.encode(text, pause_point));
  // OpenVLA's patches stand behind BOS, which Llama's tokenizer puts in front of every text; Qwen has none.
  const bool starts = config.vit_tower && !config.image_token && config.bos && !config.decoder.name.starts_with("qwen");
  if (starts && (tokens.empty() || tokens.front() != *config.bos)) tokens.insert(tokens.begin(), *config.bos);
  return tokens;
}

Result<std::vector<TokenId>> Model::prompt_tokens(std::string_view text) const {
  const OperationScope splitting("text to tokens");
  SLIP_TRY(const Tokenizer* tokenizer, need_tokenizer());
  return slip::prompt_tokens(config_, *tokenizer, text);
}

Result<Prompt> Model::build_prompt(std::string_view text, std::span<const PatchGrid> images, std::span<const float> history,
                                   const CancelToken& cancel) {
  SLIP_TRY(const std::vector<TokenId> tokens, prompt_tokens(text));
  return build_prompt(tokens, images, history, cancel);
}

Result<Prompt> Model::patch_prompt(std::span<const TokenId> tokens, std::span<const PatchGrid> images,
                                   std::span<const float> history, const CancelToken& cancel) {
  std::vector<int32_t> rows;
  for (const PatchGrid& g : images) rows.push_back(static_cast<int32_t>(g.merged()));
  PatchRules rules{config_.image_token, {}};
  if (config_.history) rules.history = config_.history->token;
  SLIP_TRY(Prompt prompt, patch_prompt_rows(tokens, rows, !history.empty(), rules));
  SLIP_TRY_(image_features(images, prompt.features, cancel));
  if (!history.empty()) SLIP_TRY_(history_->encode(history, prompt.features.numbers_ND));
  return prompt;
}

Result<Prompt> Model::build_prompt(std::span<const TokenId> tokens, std::span<const PatchGrid> images,
                                   std::span<const float> history, const CancelToken& cancel) {
  if (!history.empty() && !history_)
    return unsupported("{}: expected a model that takes the ego history as a row, got {}", folder_.string(), config_.architecture);
  if (config_.vit_tower) return patch_prompt(tokens, images, history, cancel);
  if (!config_.vision || !config_.image_token) {
    if (!images.empty())
      return unsupported("{}: expected a model with a vision tower, got {}", folder_.string(), config_.architecture);
    return prompt_rows(tokens);
  }
  std::vector<VisionGrid> grids;
  for (const PatchGrid& g : images) grids.push_back({g.t, g.h, g.w});
  const VisionRules rules{*config_.image_token, config_.video_token.value_or(TokenId{-1}), config_.vision->merge,
                          static_cast<int32_t>(config_.vision->tokens_per_second)};
  SLIP_TRY(Prompt prompt, prompt_rows(tokens, grids, rules));
  SLIP_TRY_(image_features(images, prompt.features, cancel));
  return prompt;
}

Result<RowFeatures> Model::row_features(const RowsFile& file) {
  std::vector<PatchGrid> grids;
  RowFeatures out;
  int32_t end = 0;
  for (const fs::path& path : file.images) {
    SLIP_TRY(const Image image, load_image(path));
    SLIP_TRY(PatchGrid grid, preprocess(image));
    out.ends.push_back(end += grid.merged());
    grids.push_back(std::move(grid));
  }
  SLIP_TRY_(image_features(grids, out.features));
  return out;
}

}  // namespace slip
