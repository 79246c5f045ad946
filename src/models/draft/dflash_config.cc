// SPDX-License-Identifier: Apache-2.0
// Checks between a draft head's folder and its target; see dflash_config.h.
#include "models/draft/dflash_config.h"

#include <cmath>

#include "models/config/config_reader.h"
#include "models/draft/dflash.h"

namespace slip {
namespace {

namespace fs = std::filesystem;

Result<json::object> read_object(const fs::path& file) {
  SLIP_TRY(json::value value, read_json(file, size_t{16} << 20));
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", file.string(), cut(value));
  return std::move(value.get_object());
}

// The draft layers are Qwen3's, whatever the file calls the model.
Result<DecoderOptions> read_decoder(json::object config, const std::string& where) {
  config["architectures"] = json::array{"Qwen3ForCausalLM"};
  config["model_type"] = "qwen3";
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, where));
  DecoderOptions decoder = parsed.decoder;
  if (decoder.window > 0)
    return unsupported("{}: use_sliding_window: expected full attention in every layer, got a window of {}", where, decoder.window);
  if (decoder.qkv_bias)
    return unsupported("{}: attention_bias: expected false (a draft head's keys and values have none), got true", where);
  decoder.name = "dflash";
  decoder.tied_head = false;  // both are borrowed
  decoder.rule = {};
  return decoder;
}

Status check_windows(const Keys& top) {
  if (!top.has("layer_types")) return {};
  SLIP_TRY(const json::array* types, get_array(top.object, "layer_types", top.where));
  for (const json::value& type : *types)
    if (type != "full_attention")
      return unsupported("{}: layer_types: expected full_attention in every layer, got {}", top.where, cut(type));
  return {};
}

Status check_target(const Keys& top, const DecoderOptions& decoder, Model& target) {
  const DecoderOptions& t = target.config().decoder;
  const std::string name = target.folder().string();
  SLIP_TRY(const int32_t layers, top.integer("num_target_layers", t.layers, 1, 1 << 20));
  const auto differ = [&](std::string_view key, int32_t expected, int32_t got) {
    return bad_input("{}: {}: expected {} as in the target {}, got {}: a draft head for another target", top.where, key, expected,
                     name, got);
  };
  if (layers != t.layers) return differ("num_target_layers", t.layers, layers);
  if (decoder.width != t.width) return differ("hidden_size", t.width, decoder.width);
  if (decoder.vocab != t.vocab) return differ("vocab_size", t.vocab, decoder.vocab);
  return {};
}

Result<std::vector<int32_t>> read_taps(const Keys& dflash, const DecoderOptions& decoder, Model& target) {
  const int32_t layers = target.config().decoder.layers;
  if (!dflash.has("target_layer_ids")) return dflash_tap_layers(layers, decoder.layers);
  SLIP_TRY(const json::array* ids, get_array(dflash.object, "target_layer_ids", dflash.where));
  std::vector<int32_t> taps;
  for (const json::value& id : *ids) {
    if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= layers)
      return bad_input("{}: target_layer_ids: expected layers 0 to {} of the target {}, got {}", dflash.where, layers - 1,
                       target.folder().string(), cut(id));
    taps.push_back(static_cast<int32_t>(id.get_int64()));
  }
  if (taps.empty()) return bad_input("{}: target_layer_ids: expected at least one layer, got none", dflash.where);
  return taps;
}

// Ascending, so that the lowest row on a tie is the lowest id.
Result<std::vector<TokenId>> read_draft_vocab(const fs::path& file, int32_t vocab) {
  std::vector<TokenId> ids;
  std::error_code ec;
  if (!fs::exists(file, ec)) return ids;
  SLIP_TRY(const json::value value, read_json(file, size_t{256} << 20));
  const auto* list = value.if_array();
  if (!list || list->empty()) return bad_input("{}: expected a list of ids of the target, got {}", file.string(), cut(value));
  for (const json::value& id : *list) {
    const int64_t last = ids.empty() ? -1 : ids.back().value;
    if (!id.is_int64() || id.get_int64() <= last || id.get_int64() >= vocab)
      return bad_input("{}: expected ascending ids below {}, got {} after {}", file.string(), vocab, cut(id), last);
    ids.push_back(TokenId{static_cast<int32_t>(id.get_int64())});
  }
  return ids;
}

}  // namespace

std::vector<int32_t> dflash_tap_layers(int32_t target_layers, int32_t draft_layers) {
  if (draft_layers == 1) return {target_layers / 2};
  std::vector<int32_t> taps;
  taps.reserve(static_cast<size_t>(std::max(0, draft_layers)));
  for (int32_t i = 0; i < draft_layers; ++i)
    taps.push_back(static_cast<int32_t>(std::nearbyint(1 + double{1} * i * (target_layers - 4) / (draft_layers - 1))));
  return taps;
}

Result<DFlashConfig> read_dflash_config(const fs::path& folder, Model& target) {
  const fs::path file = folder / "config.json";
  SLIP_TRY(const json::object object, read_object(file));
  const Keys top{object, file.string()};
  if (!top.has("dflash_config"))
    return bad_input("{}: expected a DFlash draft head with dflash_config, got {}", top.where,
                     top.has("architectures") ? cut(object.at("architectures")) : "none");
  SLIP_TRY(const json::object* inner, get_object(object, "dflash_config", top.where));
  const Keys dflash{*inner, top.where + ": dflash_config"};
  DFlashConfig config;
  SLIP_TRY(config.decoder, read_decoder(object, top.where));
  SLIP_TRY_(check_windows(top));
  SLIP_TRY_(check_target(top, config.decoder, target));
  SLIP_TRY(config.block, (dflash.has("block_size") ? dflash : top).integer("block_size", 16, 2, 4096));
  if (!dflash.has("mask_token_id")) return bad_input("{}: mask_token_id: expected an id, got none", dflash.where);
  SLIP_TRY(const int32_t mask, dflash.integer("mask_token_id", 0, 0, config.decoder.vocab - 1));
  config.mask = TokenId{mask};
  SLIP_TRY(config.tap_layers, read_taps(dflash, config.decoder, target));
  for (const int32_t layer : config.tap_layers)
    if (layer < 0 || layer >= target.config().decoder.layers)
      return bad_input("{}: target_layer_ids: expected a list, as the published rule has none for the {} layers of the target {}",
                       dflash.where, target.config().decoder.layers, target.folder().string());
  SLIP_TRY(config.image_context, dflash.flag("image_context", !target.config().vision));
  SLIP_TRY(config.draft_vocab, read_draft_vocab(folder / "draft_vocab.json", config.decoder.vocab));
  return config;
}

}  // namespace slip
