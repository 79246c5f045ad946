// SPDX-License-Identifier: Apache-2.0
// Reading config.json; rules in config.h, the decoder's keys in config_decoder.cc.
#include "models/config/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/config/config_decoder.h"
#include "models/config/dino_qwen.h"
#include "models/config/openvla.h"

namespace slip {
namespace {

Result<const Family*> family_of(const Keys& top) {
  std::string architecture;
  if (top.has("architectures")) {
    SLIP_TRY(const json::array* list, get_array(top.object, "architectures", top.where));
    if (list->empty() || !(*list)[0].is_string())
      return bad_input("{}: architectures: expected a list of strings, got {}", top.where, cut(*list));
    architecture = std::string(list->at(0).as_string());
  }
  SLIP_TRY(const std::string model_type, top.text("model_type", ""));
  if (const Family* family = find_family(architecture, model_type)) return family;
  if (architecture.empty() && model_type.empty())
    return bad_input("{}: expected `architectures` or `model_type`, got neither", top.where);
  if (const std::string_view why = why_not_done(architecture); !why.empty())
    return unsupported("{}: expected one of the architectures {}, got {}: {}", top.where, supported_architectures(),
                       cut(architecture), why);
  return unsupported("{}: expected one of the architectures {}, got {}", top.where, supported_architectures(),
                     cut(architecture.empty() ? model_type : architecture));
}

Result<std::optional<TokenId>> read_token(const Keys& keys, std::string_view key, std::string_view synonym, int32_t vocab) {
  const std::string_view name = keys.either(key, synonym);
  if (!keys.has(name)) return std::optional<TokenId>{};
  SLIP_TRY(const int32_t id, keys.integer(name, 0, 0, vocab - 1));
  return std::optional<TokenId>{TokenId{id}};
}

// Keys at the top count before those of the text_config (Fast-dVLM has both, and they differ).
Result<DraftRule> read_rule(const Keys& top, const Keys& text, const DraftDefaults& family, int32_t vocab) {
  DraftRule rule;
  const auto holder = [&](std::string_view a, std::string_view b) -> const Keys& { return top.has(a) || top.has(b) ? top : text; };
  SLIP_TRY(rule.shift, holder("diffusion_shift", "").flag("diffusion_shift", family.shift));
  const Keys& context = holder("context_mask", "");
  SLIP_TRY(const std::string mask, context.text("context_mask", family.block_causal ? "block_causal" : "causal"));
  if (mask != "causal" && mask != "block_causal" && mask != "block-causal")
    return bad_input("{}: context_mask: expected causal or block_causal, got {}", context.where, cut(mask));
  rule.block_causal_context = mask != "causal";
  const Keys& block = holder("bd_size", "block_size");
  SLIP_TRY(rule.block_size, block.integer(block.either("bd_size", "block_size"), family.block, 1, 65536));
  const Keys& mask_holder = holder("mask_token_id", "mask_id");
  SLIP_TRY(auto mask_id, read_token(mask_holder, "mask_token_id", "mask_id", vocab));
  if (!mask_id && family.mask_id >= 0 && family.mask_id < vocab)
    mask_id = TokenId{mask_holder.noted("mask_token_id", family.mask_id)};
  SLIP_TRY(const auto null_id, read_token(holder("null_token_id", "null_id"), "null_token_id", "null_id", vocab));
  rule.has_mask = mask_id.has_value();
  rule.has_null = null_id.has_value();
  rule.mask = mask_id.value_or(TokenId{});
  rule.null_token = null_id.value_or(TokenId{});
  return rule;
}

Result<VisionConfig> read_vision(const Keys& keys, int32_t text_width) {
  VisionConfig v;
  SLIP_TRY(v.depth, keys.integer("depth", v.depth, 1, 1024));
  SLIP_TRY(v.width, keys.integer("hidden_size", v.width, 1, kMaxConfigWidth));
  SLIP_TRY(v.heads, keys.integer("num_heads", v.heads, 1, 4096));
  SLIP_TRY(v.mlp_width, keys.integer("intermediate_size", v.mlp_width, 1, 8 * kMaxConfigWidth));
  SLIP_TRY(v.out_width, keys.integer("out_hidden_size", v.out_width, 1, kMaxConfigWidth));
  SLIP_TRY(v.channels, keys.integer(keys.either("in_channels", "in_chans"), v.channels, 1, 64));
  SLIP_TRY(v.patch, keys.integer("patch_size", v.patch, 1, 512));
  SLIP_TRY(v.temporal_patch, keys.integer("temporal_patch_size", v.temporal_patch, 1, 64));
  SLIP_TRY(v.merge, keys.integer("spatial_merge_size", v.merge, 1, 64));
  SLIP_TRY(v.window, keys.integer("window_size", v.window, 1, 1 << 20));
  SLIP_TRY(v.tokens_per_second, keys.number("tokens_per_second", v.tokens_per_second, 0, 1e6));
  if (v.tokens_per_second != std::floor(v.tokens_per_second))
    return unsupported("{}: tokens_per_second: expected a whole number, got {}", keys.where, v.tokens_per_second);
  if (keys.has("fullatt_block_indexes")) {
    SLIP_TRY(const json::array* list, get_array(keys.object, "fullatt_block_indexes", keys.where));
    v.full_attention_blocks.clear();
    for (const json::value& i : *list) {
      if (!i.is_int64() || i.get_int64() < 0 || i.get_int64() >= 1 << 20)
        return bad_input("{}: fullatt_block_indexes: expected block numbers, got {}", keys.where, cut(i));
      if (i.get_int64() >= v.depth)
        return bad_input("{}: fullatt_block_indexes: expected blocks of {}, got {}", keys.where, v.depth, i.get_int64());
      v.full_attention_blocks.push_back(static_cast<int32_t>(i.get_int64()));
    }
  }
  SLIP_TRY(const std::string activation, keys.text("hidden_act", "silu"));
  if (activation != "silu") return unsupported("{}: hidden_act: expected silu, got {}", keys.where, cut(activation));
  if (v.width % v.heads != 0 || v.head_width() % 4 != 0)
    return bad_input("{}: expected a head width that is a multiple of 4, got {} / {}", keys.where, v.width, v.heads);
  SLIP_TRY_(check_head_width(keys.where, "hidden_size / num_heads", v.head_width()));
  if (v.window / v.patch / v.merge < 1)
    return bad_input("{}: window_size: expected at least {}, got {}", keys.where, v.patch * v.merge, v.window);
  if (v.out_width != text_width)
    return bad_input("{}: out_hidden_size: expected {}, the decoder's hidden_size, got {}", keys.where, text_width, v.out_width);
  return v;
}

// The first and last token that the class means by no key at all; a null means none.
void default_ids(const Keys& top, const Keys& text, const ConfigClass& defaults, ModelConfig& config) {
  const auto missing = [&](std::string_view key, int32_t id) {
    return id >= 0 && id < config.decoder.vocab && !top.object.contains(key) && !text.object.contains(key);
  };
  if (missing("bos_token_id", defaults.bos)) config.bos = TokenId{text.noted("bos_token_id", defaults.bos)};
  if (missing("eos_token_id", defaults.eos)) config.eos = {TokenId{text.noted("eos_token_id", defaults.eos)}};
}

// Text tokens may stand in the text_config alone.
Status read_ids(const Keys& top, const Keys& text, ModelConfig& config) {
  const int32_t vocab = config.decoder.vocab;
  SLIP_TRY(config.image_token, read_token(top, "image_token_id", "image_token_index", vocab));
  SLIP_TRY(config.video_token, read_token(top, "video_token_id", "video_token_index", vocab));
  SLIP_TRY(config.vision_start, read_token(top, "vision_start_token_id", "", vocab));
  SLIP_TRY(config.vision_end, read_token(top, "vision_end_token_id", "", vocab));
  SLIP_TRY(config.bos, read_token(top.has("bos_token_id") ? top : text, "bos_token_id", "", vocab));
  const Keys& keys = top.has("eos_token_id") ? top : text;
  if (keys.has("eos_token_id") && keys.object.at("eos_token_id").is_array()) {
    for (const json::value& id : keys.object.at("eos_token_id").get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= vocab)
        return bad_input("{}: eos_token_id: expected ids below {}, got {}", keys.where, vocab, cut(id));
      config.eos.push_back(TokenId{static_cast<int32_t>(id.get_int64())});
    }
  } else {
    SLIP_TRY(const auto eos, read_token(keys, "eos_token_id", "", vocab));
    if (eos) config.eos.push_back(*eos);
  }
  return {};
}

// A nested configuration may be of another class than the family's usual one (Mistral 3: mistral or ministral3).
Result<const ConfigClass*> text_class(const Keys& top, const Keys& text, const Family& family) {
  if (&text.object == &top.object) return family.text;
  SLIP_TRY(const std::string model_type, text.text("model_type", family.text->model_type));
  const ConfigClass* own = find_config_class(model_type);
  if (own == nullptr && family.tower == Tower::kNotDone && model_type != family.model_type)
    return unsupported("{}: model_type: expected mistral or ministral3, got {}", text.where, cut(model_type));
  return own != nullptr && family.tower == Tower::kNotDone ? own : family.text;
}

Status read_tower(const Keys& top, ModelConfig& config) {
  if (!top.has("vision_config") || config.family->tower == Tower::kNone) return {};
  if (config.family->tower == Tower::kNotDone) {
    config.notes.push_back("the folder's vision tower is not read: text works, images are refused");
    return {};
  }
  SLIP_TRY(const json::object* vision, get_object(top.object, "vision_config", top.where));
  SLIP_TRY(config.vision, read_vision({*vision, top.where + ": vision_config", top.log, "vision."}, config.decoder.width));
  if (!config.image_token) return bad_input("{}: expected image_token_id beside vision_config, got none", top.where);
  // Without sections every pair would follow t, and the patches of an image would stand in one place.
  if (config.decoder.rope.sections == std::array<int32_t, 3>{})
    return bad_input("{}: mrope_section: expected three counts among the rope keys beside vision_config, got none", top.where);
  return {};
}

// The file's own name in front of the sections, whatever path it was read by.
void take_log(ConfigLog& log, std::string_view where, ModelConfig& config) {
  for (ConfigOption& o : log.options)
    if (o.from.starts_with(where)) o.from = "config.json" + o.from.substr(where.size());
  config.options = std::move(log.options);
}

}  // namespace

Result<ModelConfig> parse_model_config(const json::value& value, std::string_view where) {
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", where, cut(value));
  if (is_openvla_config(value.get_object())) return parse_openvla_config(value.get_object(), where);
  if (is_dino_qwen_config(value.get_object())) return parse_dino_qwen_config(value.get_object(), where);
  ConfigLog log;
  Keys top{value.get_object(), std::string(where)};
  SLIP_TRY(const Family* family, family_of(top));
  top.log = &log;
  const json::object* inner = &top.object;
  if (top.has("text_config")) {
    SLIP_TRY(inner, get_object(top.object, "text_config", where));
  }
  Keys text{*inner, inner == &top.object ? top.where : top.where + ": text_config"};
  SLIP_TRY(const ConfigClass* defaults, text_class(top, text, *family));
  text.log = &log;
  log.defaults = fmt::format("default of {}", defaults->name);
  ModelConfig config;
  config.family = family;
  config.architecture = std::string(family->architecture);
  config.config_class = std::string(defaults->name);
  SLIP_TRY(config.model_type, Keys{top}.text("model_type", family->model_type));
  const Keys& dtype = top.has("torch_dtype") || top.has("dtype") ? top : text;
  SLIP_TRY(config.stored_dtype, dtype.text(dtype.either("torch_dtype", "dtype"), ""));
  SLIP_TRY(config.quantization, read_quantization(top.has("quantization_config") ? top : text));
  SLIP_TRY(config.decoder, read_decoder(text, *defaults, config.max_positions));
  config.decoder.name = std::string(family->name);
  SLIP_TRY(config.decoder.tied_head, (top.has("tie_word_embeddings") ? top : text).flag("tie_word_embeddings", false));
  log.defaults = fmt::format("default of the family {}", family->name);
  SLIP_TRY(config.decoder.rule, read_rule(top, text, family->draft, config.decoder.vocab));
  SLIP_TRY_(read_ids(top, text, config));
  log.defaults = fmt::format("default of {}", defaults->name);
  default_ids(top, text, *defaults, config);
  log.defaults = "default of Qwen2_5_VLVisionConfig";
  SLIP_TRY_(read_tower(top, config));
  take_log(log, where, config);
  return config;
}

Result<ModelConfig> read_model_config(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  std::error_code ec;
  if (!std::filesystem::exists(file, ec) && std::filesystem::exists(folder / "params.json", ec))
    return unsupported("{}: expected a folder in the Hugging Face form (config.json), got params.json alone", folder.string());
  SLIP_TRY(const json::value value, read_json(file, size_t{16} << 20));
  return parse_model_config(value, file.string());
}

void resolve_draft_tokens(ModelConfig& config, const Tokenizer& tokenizer) {
  DraftRule& rule = config.decoder.rule;
  const auto resolve = [&](std::string_view text, std::string_view key, bool& has, TokenId& id) {
    if (has) return;
    if (const auto found = tokenizer.find(text); found && found->value < config.decoder.vocab) {
      has = true;
      id = *found;
      config.options.push_back({std::string(key), id.value, fmt::format("tokenizer: {}", text)});
    }
  };
  const DraftDefaults& texts = config.family->draft;
  resolve(texts.mask, "mask_token_id", rule.has_mask, rule.mask);
  resolve(texts.null_token, "null_token_id", rule.has_null, rule.null_token);
}

}  // namespace slip
