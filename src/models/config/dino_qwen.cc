// SPDX-License-Identifier: Apache-2.0
// See dino_qwen.h.
#include "models/config/dino_qwen.h"

#include <algorithm>
#include <cmath>

#include "models/config/config_decoder.h"
#include "models/config/config_reader.h"

namespace slip {
namespace {

constexpr std::string_view kArchitecture = "DinoQwenForCausalLM", kModelType = "dino_qwen";

Status read_history(const Keys& top, ModelConfig& config) {
  if (!top.has("history")) return {};
  SLIP_TRY(const json::object* o, get_object(top.object, "history", top.where));
  const Keys keys{*o, top.where + ": history"};
  HistoryConfig h;
  if (!keys.has("token_id")) return bad_input("{}: expected token_id, got none", keys.where);
  SLIP_TRY(h.token.value, keys.integer("token_id", 0, 0, config.decoder.vocab - 1));
  SLIP_TRY(h.states, keys.integer("states", 16, 1, 1024));
  SLIP_TRY(h.hidden, keys.integer("hidden_size", 256, 1, 1 << 16));
  if (keys.has("scale")) {
    SLIP_TRY(const json::array* list, get_array(*o, "scale", keys.where));
    for (size_t i = 0; i < h.scale.size(); ++i) {
      const json::value* v = list->size() == h.scale.size() ? &(*list)[i] : nullptr;
      if (!v || !v->is_number() || !(std::abs(v->to_number<double>()) <= 1e6))
        return bad_input("{}: scale: expected {} numbers of at most 1e6, got {}", keys.where, h.scale.size(), cut(*list));
      h.scale[i] = v->to_number<double>();
    }
  }
  config.history = h;
  return {};
}

Result<VitTowerConfig> read_tower(const Keys& top, int32_t text_width) {
  VitTowerConfig tower;
  SLIP_TRY(const json::object* vision, get_object(top.object, "vision_config", top.where));
  SLIP_TRY(VitConfig vit, read_dinov2_config(*vision, top.where + ": vision_config", "vision_tower."));
  SLIP_TRY(tower.pool, top.integer("pooling", 1, 1, 16));
  int32_t hidden = text_width;
  if (top.has("projector")) {
    SLIP_TRY(const json::object* o, get_object(top.object, "projector", top.where));
    SLIP_TRY(hidden, (Keys{*o, top.where + ": projector"}.integer("hidden_size", text_width, 0, 1 << 17)));
  }
  if (hidden == 0) {  // one linear map
    tower.projector = {{"projector.fc1", vit.width, text_width}};
  } else {
    tower.projector = {{"projector.fc1", vit.width, hidden}, {"projector.fc2", hidden, text_width}};
  }
  tower.vits.push_back(std::move(vit));
  return tower;
}

}  // namespace

bool is_dino_qwen_config(const json::object& top) {
  const json::value* list = top.if_contains("architectures");
  const json::array* a = list ? list->if_array() : nullptr;
  if (a && !a->empty()) return (*a)[0].is_string() && (*a)[0].get_string() == kArchitecture;
  const json::value* type = top.if_contains("model_type");
  return type && type->is_string() && type->get_string() == kModelType;
}

Result<VitConfig> read_dinov2_config(const json::object& o, std::string_view where, std::string prefix) {
  const Keys keys{o, std::string(where)};
  SLIP_TRY(const std::string type, keys.text("model_type", "dinov2"));
  const bool registers = type == "dinov2_with_registers";
  if (!registers && type != "dinov2")
    return unsupported("{}: model_type: expected dinov2 or dinov2_with_registers, got {}", where, cut(type));
  VitConfig c;
  c.timm_names = false;
  c.prefix = std::move(prefix);
  c.cls = c.cls_has_position = c.layer_scale = c.final_norm = true;
  c.interpolation = registers ? VitConfig::Interpolation::kBicubicAntialias : VitConfig::Interpolation::kBicubic;
  SLIP_TRY(c.depth, keys.integer("num_hidden_layers", 12, 1, 256));
  c.used_depth = c.depth;
  SLIP_TRY(c.width, keys.integer("hidden_size", 768, 1, 1 << 14));
  SLIP_TRY(c.heads, keys.integer("num_attention_heads", 12, 1, 1024));
  SLIP_TRY(const double ratio, keys.number("mlp_ratio", 4, 0.01, 64));
  SLIP_TRY(c.swiglu, keys.flag("use_swiglu_ffn", false));
  c.mlp_width = std::max(1, static_cast<int32_t>(c.width * ratio));
  if (c.swiglu) c.mlp_width = (c.mlp_width * 2 / 3 + 7) / 8 * 8;
  SLIP_TRY(c.channels, keys.integer("num_channels", 3, 1, 64));
  SLIP_TRY(c.patch, keys.integer("patch_size", 14, 1, 256));
  SLIP_TRY(const int32_t size, keys.integer("image_size", 224, c.patch, 4096));
  c.grid_rows = c.grid_columns = size / c.patch;
  SLIP_TRY(c.registers, keys.integer("num_register_tokens", registers ? 4 : 0, 0, 256));
  SLIP_TRY(const double eps, keys.number("layer_norm_eps", 1e-6, 0, 1));
  c.norm_eps = static_cast<float>(eps);
  SLIP_TRY(const std::string activation, keys.text("hidden_act", "gelu"));
  if (activation != "gelu") return unsupported("{}: hidden_act: expected gelu, got {}", where, cut(activation));
  SLIP_TRY(const bool bias, keys.flag("qkv_bias", true));
  if (!bias) return unsupported("{}: qkv_bias: expected true, got false", where);
  if (c.width % c.heads != 0)
    return bad_input("{}: expected hidden_size to be a multiple of num_attention_heads, got {} and {}", where, c.width, c.heads);
  if (c.head_width() > kMaxHeadWidth)
    return unsupported("{}: expected heads of at most {} numbers, got {}", where, kMaxHeadWidth, c.head_width());
  return c;
}

Result<ModelConfig> parse_dino_qwen_config(const json::object& object, std::string_view where) {
  const Keys top{object, std::string(where)};
  SLIP_TRY(const json::object* stored, get_object(object, "text_config", where));
  json::object text = *stored;
  for (const char* key :
       {"mask_token_id", "null_token_id", "diffusion_shift", "context_mask", "bd_size", "bos_token_id", "eos_token_id"})
    if (object.contains(key) && !text.contains(key))
      text[key] = object.at(key);  // of the whole model, as in folders with one tower
  SLIP_TRY(ModelConfig config, parse_model_config(text, top.where + ": text_config"));
  if (config.model_type != "qwen2" && config.model_type != "qwen3")
    return unsupported("{}: text_config: model_type: expected qwen2 or qwen3, got {}", where, config.model_type);
  config.architecture = std::string(kArchitecture);
  config.model_type = std::string(kModelType);
  if (top.has("torch_dtype") || top.has("dtype")) {
    SLIP_TRY(config.stored_dtype, top.text(top.either("torch_dtype", "dtype"), ""));
  }
  if (top.has("quantization_config")) {
    SLIP_TRY(config.quantization, read_quantization(top));
  }
  if (!top.has("image_token_id")) return bad_input("{}: expected image_token_id, got none", where);
  SLIP_TRY(const int32_t image, top.integer("image_token_id", 0, 0, config.decoder.vocab - 1));
  config.image_token = TokenId{image};
  SLIP_TRY(config.vit_tower, read_tower(top, config.decoder.width));
  SLIP_TRY_(read_history(top, config));
  if (config.history && config.history->token == *config.image_token)
    return bad_input("{}: history: token_id: expected another token than image_token_id, got {}", where, image);
  return config;
}

}  // namespace slip
