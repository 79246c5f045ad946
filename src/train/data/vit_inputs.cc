// SPDX-License-Identifier: Apache-2.0
// See vit_inputs.h.
#include "train/data/vit_inputs.h"

#include "models/config/dino_qwen.h"
#include "models/patch_prompt.h"

namespace slip {

VitInputs::VitInputs(ImageRules rules, const ModelConfig& config)
    : rules_(std::move(rules)),
      placeholder_(config.image_token),
      image_(config.image_token.value_or(TokenId{config.decoder.vocab - 1})),
      history_(config.history),
      tower_(*config.vit_tower) {}

Result<VitInputs> VitInputs::of(const ModelConfig& config, const std::filesystem::path& model) {
  SLIP_TRY(std::optional<ImageRules> rules, ImageRules::load(model.parent_path(), config));
  if (!rules) return bad_input("{}: expected preprocessor_config.json beside it, got none", model.string());
  return VitInputs(std::move(*rules), config);
}

Result<std::optional<VitInputs>> VitInputs::load(const json::object& config, const std::filesystem::path& model) {
  if (!is_dino_qwen_config(config)) return std::optional<VitInputs>();
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, model.string()));
  SLIP_TRY(VitInputs out, of(parsed, model));
  return std::optional<VitInputs>(std::move(out));
}

Status VitInputs::add_patches(const PatchGrid& planes, Sample& out) const {
  const int64_t side = tower_.vits.front().patch, rows = planes.plane_height / side, columns = planes.plane_width / side;
  for (const VitConfig& v : tower_.vits)
    if (v.interpolation == VitConfig::Interpolation::kNone && (rows != v.grid_rows || columns != v.grid_columns))
      return bad_input("image: expected {} x {} patches, got {} x {}", v.grid_columns, v.grid_rows, columns, rows);
  for (int64_t p = 0; p < rows * columns; ++p)
    for (int64_t c = 0; c < tower_.channels(); ++c)
      for (int64_t y = 0; y < side; ++y) {
        const int64_t from = (c * planes.plane_height + p / columns * side + y) * planes.plane_width + p % columns * side;
        out.pixel_values.insert(out.pixel_values.end(), planes.values.begin() + from, planes.values.begin() + from + side);
      }
  out.grids.push_back({1, static_cast<int>(rows), static_cast<int>(columns)});
  return {};
}

Status VitInputs::add_rows(std::span<const TokenId> tokens, std::span<const Image> images, Sample& out) const {
  std::vector<int32_t> rows;
  int32_t cells = 0;
  for (const Image& image : images) {
    SLIP_TRY(const PatchGrid planes, rules_.apply(image));
    SLIP_TRY_(add_patches(planes, out));
    rows.push_back(planes.merged());
    cells += rows.back();
  }
  PatchRules where{placeholder_, {}};
  if (history_) where.history = history_->token;
  SLIP_TRY(const Prompt prompt, patch_prompt_rows(tokens, rows, history_.has_value(), where));
  for (const RowInput& input : prompt.inputs) {
    const auto* feature = std::get_if<Feature>(&input);
    out.tokens.push_back(!feature ? std::get<TokenId>(input) : feature->index < cells ? image_ : history_->token);
  }
  out.positions = prompt.positions;
  out.image_token = image_;
  out.cell = tower_.pool;
  return {};
}

Status VitInputs::add_prompt(const ChatTemplate& chat, const Tokenizer& tokenizer, const PromptText& text, const EgoInput& ego,
                             std::span<const Image> images, Sample& out) const {
  ChatMessage message{"user", {}};
  if (!text.before_images.empty()) message.content.emplace_back(TextItem{text.before_images});
  for (size_t i = 0; i < images.size(); ++i) message.content.emplace_back(ImageItem{});
  const std::string history = history_ ? std::string(tokenizer.token_text(history_->token)) : std::string();
  message.content.emplace_back(TextItem{history + text.after_images});
  SLIP_TRY(const std::string rendered, chat.render(std::vector{message}));
  SLIP_TRY(const std::vector<TokenId> tokens, tokenizer.encode(rendered));
  SLIP_TRY_(add_rows(tokens, images, out));
  if (history_) {
    out.history_token = history_->token;
    out.history = history_numbers(ego, history_->states);
  }
  return {};
}

}  // namespace slip
