// SPDX-License-Identifier: Apache-2.0
// Sizes, biases, windows and refusals of a text configuration; rotary positions are in config_rope.cc.
#include "models/config/config_decoder.h"

#include <array>

#include "models/config/config_rope.h"

namespace slip {
namespace {

constexpr int64_t kMaxVocab = 1 << 22;  // 16 times the largest open vocabularies (262,144); larger is a broken file

// A key that other families use to change the numbers: anything but absent, null or its neutral values is refused.
struct Foreign {
  std::string_view key, expected;
  bool zero_is_neutral, one_is_neutral;
};
constexpr std::array kForeign = {
    Foreign{"num_experts", "a dense MLP", true, true},
    Foreign{"num_local_experts", "a dense MLP", true, true},
    Foreign{"n_routed_experts", "a dense MLP", true, true},
    Foreign{"attn_logit_softcapping", "no softcap", true, false},
    Foreign{"final_logit_softcapping", "no softcap", true, false},
    Foreign{"attention_sinks", "no attention sinks", true, false},
    Foreign{"use_attention_sinks", "no attention sinks", true, false},
    Foreign{"sliding_window_pattern", "a window in every layer or none", true, true},
    Foreign{"attention_chunk_size", "attention that is not cut into chunks", true, false},
    Foreign{"no_rope_layers", "rotary positions in every layer", true, false},
    Foreign{"partial_rotary_factor", "heads that turn as a whole (1)", false, true},
    Foreign{"clip_qkv", "queries and keys that are not clipped", true, false},
    Foreign{"logit_scale", "1", false, true},
    Foreign{"logits_scaling", "1", false, true},
    Foreign{"embedding_multiplier", "1", false, true},
    Foreign{"residual_multiplier", "1", false, true},
    Foreign{"attention_multiplier", "the usual 1 / sqrt(head width)", false, false},
    Foreign{"query_pre_attn_scalar", "the usual 1 / sqrt(head width)", false, false},
    Foreign{"alibi", "rotary positions", true, false},
    Foreign{"is_encoder_decoder", "a decoder alone", true, false},
    Foreign{"add_cross_attention", "a decoder alone", true, false},
};

bool neutral(const json::value& v, const Foreign& f) {
  if (v.is_bool()) return v.get_bool() ? f.one_is_neutral : f.zero_is_neutral;
  if (const json::array* list = v.if_array()) return list->empty();
  if (!v.is_number()) return false;
  const double number = v.to_number<double>();
  return (number == 0 && f.zero_is_neutral) || (number == 1 && f.one_is_neutral);
}

Status refuse_foreign_keys(const Keys& text) {
  for (const Foreign& f : kForeign)
    if (text.has(f.key) && !neutral(text.object.at(f.key), f))
      return unsupported("{}: {}: expected {}, got {}", text.where, f.key, f.expected, cut(text.object.at(f.key)));
  SLIP_TRY(const std::string activation, text.text("hidden_act", "silu"));
  if (activation != "silu" && activation != "swish")  // two names of one function
    return unsupported("{}: hidden_act: expected silu, got {}", text.where, cut(activation));
  return {};
}

Status read_biases(const Keys& text, const ConfigClass& defaults, DecoderOptions& d) {
  if (defaults.bias == AttentionBias::kQkv) {
    d.qkv_bias = true;  // whatever the file says: the class does not read the key
  } else {
    SLIP_TRY(const bool bias, text.flag("attention_bias", false));
    if (bias && defaults.bias == AttentionBias::kNone)
      return unsupported("{}: attention_bias: expected false ({} has none), got true", text.where, defaults.name);
    d.qkv_bias = d.o_bias = bias;
  }
  SLIP_TRY(d.mlp_bias, text.flag("mlp_bias", false));
  if (d.mlp_bias && !defaults.mlp_bias)
    return unsupported("{}: mlp_bias: expected false ({} has none), got true", text.where, defaults.name);
  return {};
}

// Which layers slide by the rule of the class; `layer_types`, where given, must agree or (Qwen) decides.
Result<std::vector<uint8_t>> sliding_layers(const Keys& text, const ConfigClass& defaults, int32_t layers, bool window) {
  std::vector<uint8_t> slides(static_cast<size_t>(layers), window ? 1 : 0);
  if (window && defaults.window_rule == WindowRule::kFromLayer) {
    SLIP_TRY(const int32_t from, text.integer("max_window_layers", defaults.window_layers, 0, 1 << 20));
    std::fill(slides.begin(), slides.begin() + std::min(from, layers), uint8_t{0});
  }
  if (!text.has("layer_types")) return slides;
  SLIP_TRY(const json::array* types, get_array(text.object, "layer_types", text.where));
  if (types->size() != slides.size())
    return bad_input("{}: layer_types: expected one for each of {} layers, got {}", text.where, layers, types->size());
  for (size_t i = 0; i < slides.size(); ++i) {
    const json::value& type = (*types)[i];
    const bool sliding = type == "sliding_attention";
    if (!sliding && type != "full_attention")
      return unsupported("{}: layer_types: expected full_attention or sliding_attention, got {}", text.where, cut(type));
    if (sliding && !window)
      return unsupported("{}: layer_types: expected full_attention without a sliding_window in use, got {}", text.where, cut(type));
    if (sliding != (slides[i] != 0) && defaults.window_rule != WindowRule::kFromLayer)
      return unsupported("{}: layer_types: expected {} in every layer of {}, got {}", text.where,
                         slides[i] ? "sliding_attention" : "full_attention", defaults.name, cut(type));
    slides[i] = sliding;
  }
  return slides;
}

// In Mistral's class a missing key means 4,096 and a null means none; in Qwen's nothing counts unless a switch is on.
Status read_window(const Keys& text, const ConfigClass& defaults, DecoderOptions& d) {
  const bool null = text.object.contains("sliding_window") && !text.has("sliding_window");
  bool used = !null && (defaults.window > 0 || text.has("sliding_window"));
  if (defaults.window_rule == WindowRule::kFromLayer) {
    SLIP_TRY(const bool on, text.flag("use_sliding_window", false));
    used = used && on;
  } else if (defaults.window_rule == WindowRule::kNever && used) {
    return unsupported("{}: sliding_window: expected none ({} has no windows), got {}", text.where, defaults.name,
                       cut(text.object.at("sliding_window")));
  }
  int32_t window = 0;
  if (used) {
    SLIP_TRY(window, text.integer("sliding_window", defaults.window, 1, int64_t{1} << 30));
  } else if (text.log && null) {
    text.log->options.push_back({"sliding_window", nullptr, text.where});
  }
  SLIP_TRY(std::vector<uint8_t> slides, sliding_layers(text, defaults, d.layers, used));
  if (std::find(slides.begin(), slides.end(), 1) == slides.end()) return {};
  d.window = window;
  d.slides_L = std::move(slides);
  return {};
}

Status read_heads(const Keys& text, const ConfigClass& defaults, DecoderOptions& d) {
  SLIP_TRY(d.heads, text.integer("num_attention_heads", defaults.heads, 1, 4096));
  const bool null = text.object.contains("num_key_value_heads") && !text.has("num_key_value_heads");  // as many in every class
  SLIP_TRY(d.kv_heads, text.integer("num_key_value_heads", defaults.kv_heads > 0 && !null ? defaults.kv_heads : d.heads, 1, 4096));
  if (d.heads % d.kv_heads != 0)
    return bad_input("{}: expected num_attention_heads to be a multiple of num_key_value_heads, got {} and {}", text.where, d.heads,
                     d.kv_heads);
  const int32_t derived = d.width / d.heads;
  if (!text.has("head_dim") && defaults.head_width == 0 && d.width % d.heads != 0)
    return bad_input("{}: expected hidden_size to be a multiple of num_attention_heads, got {} and {}", text.where, d.width,
                     d.heads);
  SLIP_TRY(d.head_width, text.integer("head_dim", defaults.head_width > 0 ? defaults.head_width : derived, 2, kMaxConfigWidth));
  SLIP_TRY_(check_head_width(text.where, text.has("head_dim") ? "head_dim" : "hidden_size / num_attention_heads", d.head_width));
  if (d.head_width % 2 != 0) return bad_input("{}: expected an even head width, got {}", text.where, d.head_width);
  return {};
}

}  // namespace

Status check_head_width(std::string_view where, std::string_view key, int64_t width) {
  if (width > kMaxHeadWidth)
    return unsupported("{}: {}: expected heads of at most {} numbers, got {}", where, key, kMaxHeadWidth, width);
  return {};
}

Result<std::string> read_quantization(const Keys& keys) {
  if (!keys.has("quantization_config")) return std::string();
  SLIP_TRY(const json::object* object, get_object(keys.object, "quantization_config", keys.where));
  const Keys quantized{*object, keys.where + ": quantization_config", keys.log, "quantization."};
  SLIP_TRY(std::string method, quantized.text("quant_method", ""));
  if (method != "fp8")
    return unsupported("{}: quant_method: expected fp8, or f32, bf16 or f16 weights without a quantization_config, got {}",
                       quantized.where, method.empty() ? "none" : cut(method));
  return method;
}

Result<DecoderOptions> read_decoder(const Keys& text, const ConfigClass& defaults, int32_t& max_positions) {
  DecoderOptions d;
  SLIP_TRY_(refuse_foreign_keys(text));
  SLIP_TRY(d.vocab, text.integer("vocab_size", defaults.vocab, 1, kMaxVocab));
  SLIP_TRY(d.width, text.integer("hidden_size", defaults.width, 1, kMaxConfigWidth));
  SLIP_TRY(d.mlp_width, text.integer("intermediate_size", defaults.mlp_width, 1, 8 * kMaxConfigWidth));
  SLIP_TRY(d.layers, text.integer("num_hidden_layers", defaults.layers, 1, 1024));
  SLIP_TRY_(read_heads(text, defaults, d));
  SLIP_TRY(const double eps, text.number("rms_norm_eps", defaults.norm_eps, 0, 1));
  d.norm_eps = static_cast<float>(eps);
  SLIP_TRY_(read_biases(text, defaults, d));
  d.qk_norm = defaults.qk_norm;
  SLIP_TRY_(read_window(text, defaults, d));
  SLIP_TRY(max_positions, text.integer("max_position_embeddings", defaults.max_positions, 1, int64_t{1} << 30));
  SLIP_TRY(d.rope, read_rope(text, defaults, d, max_positions));
  return d;
}

}  // namespace slip
