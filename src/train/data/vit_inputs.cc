// SPDX-License-Identifier: Apache-2.0
// See vit_inputs.h.
#include "train/data/vit_inputs.h"

#include "models/config/dino_qwen.h"
#include "models/patch_prompt.h"

namespace slip {

VitInputs::VitInputs(ImageRules rules, const ModelConfig& config)
    : rules_(std::move(rules)),
      image_(*config.image_token),
      history_(config.history),
      pool_(config.vit_tower->pool),
      patch_(config.vit_tower->vits.front().patch),
      channels_(config.vit_tower->channels()) {}

Result<std::optional<VitInputs>> VitInputs::load(const json::object& config, const std::filesystem::path& model) {
  if (!is_dino_qwen_config(config)) return std::optional<VitInputs>();
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, model.string()));
  SLIP_TRY(std::optional<ImageRules> rules, ImageRules::load(model.parent_path(), parsed));
  if (!rules) return bad_input("{}: expected preprocessor_config.json beside it, got none", model.string());
  return std::optional<VitInputs>(VitInputs(std::move(*rules), parsed));
}

void VitInputs::add_patches(const PatchGrid& planes, Sample& out) const {
  const int64_t side = patch_, rows = planes.plane_height / side, columns = planes.plane_width / side;
  for (int64_t p = 0; p < rows * columns; ++p)
    for (int64_t c = 0; c < channels_; ++c)
      for (int64_t y = 0; y < side; ++y) {
        const int64_t from = (c * planes.plane_height + p / columns * side + y) * planes.plane_width + p % columns * side;
        out.pixel_values.insert(out.pixel_values.end(), planes.values.begin() + from, planes.values.begin() + from + side);
      }
  out.grids.push_back({1, static_cast<int>(rows), static_cast<int>(columns)});
}

Status VitInputs::add_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, const PromptText& text, const EgoInput& ego,
                             std::span<const Image> images, Sample& out) const {
  ChatMessage message{"user", {}};
  if (!text.before_images.empty()) message.content.emplace_back(TextItem{text.before_images});
  std::vector<int32_t> rows;
  for (const Image& image : images) {
    SLIP_TRY(const PatchGrid planes, rules_.apply(image));
    add_patches(planes, out);
    rows.push_back(static_cast<int32_t>(planes.merged()));
    message.content.emplace_back(ImageItem{});
  }
  const std::string history = history_ ? std::string(tokenizer.token_text(history_->token)) : std::string();
  message.content.emplace_back(TextItem{history + text.after_images});
  SLIP_TRY(const std::string rendered, chat.render(std::vector{message}));
  SLIP_TRY(const std::vector<TokenId> tokens, tokenizer.encode(rendered));
  PatchRules where{image_, {}};
  if (history_) where.history = history_->token;
  SLIP_TRY(const Prompt prompt, patch_prompt_rows(tokens, rows, history_.has_value(), where));
  int32_t cells = 0;
  for (const int32_t n : rows) cells += n;
  for (const RowInput& input : prompt.inputs) {
    const auto* feature = std::get_if<Feature>(&input);
    out.tokens.push_back(!feature ? std::get<TokenId>(input) : feature->index < cells ? image_ : history_->token);
  }
  out.positions = prompt.positions;
  out.image_token = image_;
  out.cell = pool_;
  if (history_) {
    out.history_token = history_->token;
    out.history = history_numbers(ego, history_->states);
  }
  return {};
}

}  // namespace slip
