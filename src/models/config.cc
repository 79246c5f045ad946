// SPDX-License-Identifier: Apache-2.0
// Reading config.json; rules in config.h.
#include "models/config.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/keys.h"

namespace slip {
namespace {

// A family: architecture and model_type strings as released, and the defaults of the library's configuration class.
struct Family {
  std::string_view architecture, model_type, name;
  int32_t vocab, width, mlp_width, layers, heads, kv_heads, head_width;  // head_width 0: width / heads; kv_heads 0: heads
  double norm_eps, theta;
  int32_t max_positions;
  bool qkv_bias, qk_norm, vision;
  bool shift = false, block_causal = false;
};

constexpr Family kQwen2{
    "Qwen2ForCausalLM", "qwen2", "qwen2", 151936, 4096, 22016, 32, 32, 32, 0, 1e-6, 1e4, 32768, true, false, false};
constexpr Family kQwen3{
    "Qwen3ForCausalLM", "qwen3", "qwen3", 151936, 4096, 22016, 32, 32, 32, 128, 1e-6, 1e4, 32768, false, true, false};
constexpr Family kQwen25Vl{"Qwen2_5_VLForConditionalGeneration",
                           "qwen2_5_vl",
                           "qwen2_5_vl",
                           152064,
                           8192,
                           29568,
                           80,
                           64,
                           8,
                           0,
                           1e-5,
                           1e6,
                           32768,
                           true,
                           false,
                           true};
constexpr Family kLlama{
    "LlamaForCausalLM", "llama", "llama", 32000, 4096, 11008, 32, 32, 0, 0, 1e-6, 1e4, 2048, false, false, false};
constexpr Family kMistral{
    "MistralForCausalLM", "mistral", "mistral", 32000, 4096, 14336, 32, 32, 8, 0, 1e-6, 1e4, 131072, false, false, false};
constexpr Family kMinistral3{"Ministral3ForCausalLM",
                             "ministral3",
                             "ministral3",
                             131072,
                             4096,
                             14336,
                             34,
                             32,
                             8,
                             128,
                             1e-5,
                             1e6,
                             262144,
                             false,
                             false,
                             false};

constexpr Family drafting(Family f, std::string_view architecture, std::string_view model_type, bool shift, bool block_causal) {
  f.architecture = architecture;
  f.model_type = model_type;
  f.shift = shift;
  f.block_causal = block_causal;
  return f;
}

constexpr std::array kFamilies = {
    kQwen2,
    kQwen3,
    kQwen25Vl,
    drafting(kQwen25Vl, "Fast_dDriveForConditionalGeneration", "fast_dllm_qwen2_5_vl", true, false),
    drafting(kQwen25Vl, "Fast_dLLM_Qwen2_5_VLForConditionalGeneration", "fast_dllm_qwen2_5_vl", true, false),
    drafting(kQwen25Vl, "Fast_dVLMForConditionalGeneration", "fast_dvlm", true, false),
    drafting(kQwen2, "Fast_dLLM_QwenForCausalLM", "fast_dllm_qwen", true, true),
    kLlama,
    kMistral,
    kMinistral3,
    drafting(kMinistral3, "NemotronLabsDiffusionModel", "nemotron_labs_diffusion", false, false),
};

constexpr int64_t kMaxWidth = 1 << 17;  // 8 times the widest open decoder (16,384, Llama 3.1 405B); larger is a broken file
constexpr int64_t kMaxVocab = 1 << 22;  // 16 times the largest open vocabularies (262,144); larger is a broken file

/// The attention kernels' limit is no fault of the file.
Status check_head_width(std::string_view where, std::string_view key, int64_t width) {
  if (width > kMaxHeadWidth)
    return unsupported("{}: {}: expected heads of at most {} numbers, got {}", where, key, kMaxHeadWidth, width);
  return {};
}

Result<const Family*> find_family(const Keys& top) {
  std::string architecture;
  if (top.has("architectures")) {
    SLIP_TRY(const json::array* list, get_array(top.object, "architectures", top.where));
    if (list->empty() || !(*list)[0].is_string())
      return bad_input("{}: architectures: expected a list of strings, got {}", top.where, cut(*list));
    architecture = std::string(list->at(0).as_string());
  }
  SLIP_TRY(const std::string model_type, top.text("model_type", ""));
  for (const Family& f : kFamilies)
    if (architecture == f.architecture || (architecture.empty() && model_type == f.model_type)) return &f;
  if (architecture.empty() && model_type.empty())
    return bad_input("{}: expected `architectures` or `model_type`, got neither", top.where);
  return unsupported("{}: expected one of the architectures {}, got {}", top.where, supported_architectures(),
                     architecture.empty() ? model_type : architecture);
}

Result<std::array<int32_t, 3>> read_sections(const Keys& rope, int32_t head_width) {
  std::array<int32_t, 3> sections{};
  SLIP_TRY(const json::array* list, get_array(rope.object, "mrope_section", rope.where));
  const auto refused = [&] {
    return bad_input("{}: mrope_section: expected three counts of at least 0 with sum {}, got {}", rope.where, head_width / 2,
                     cut(*list));
  };
  if (list->size() != sections.size()) return refused();
  int64_t sum = 0;
  for (size_t i = 0; i < sections.size(); ++i) {
    const json::value& n = (*list)[i];
    if (!n.is_int64() || n.get_int64() < 0 || n.get_int64() > head_width / 2) return refused();
    sections[i] = static_cast<int32_t>(n.get_int64());
    sum += sections[i];
  }
  if (sum != head_width / 2) return refused();
  return sections;
}

Result<std::optional<double>> optional_number(const Keys& keys, std::string_view key) {
  if (!keys.has(key)) return std::optional<double>{};
  SLIP_TRY(const double value, keys.number(key, 0, 0, 1e6));
  return std::optional<double>{value};
}

Result<RopeYarn> read_yarn(const Keys& rope, int32_t max_positions) {
  RopeYarn y;
  SLIP_TRY(y.factor, rope.number("factor", 1, 1e-3, 1e6));
  SLIP_TRY(y.original_max_position, rope.number("original_max_position_embeddings", max_positions, 1, 1e9));
  SLIP_TRY(y.beta_fast, rope.number("beta_fast", 32, 1e-6, 1e6));
  SLIP_TRY(y.beta_slow, rope.number("beta_slow", 1, 1e-6, 1e6));
  SLIP_TRY(y.mscale, optional_number(rope, "mscale"));
  SLIP_TRY(y.mscale_all_dim, optional_number(rope, "mscale_all_dim"));
  SLIP_TRY(y.attention_factor, optional_number(rope, "attention_factor"));
  SLIP_TRY(y.truncate, rope.flag("truncate", true));
  return y;
}

Result<RopeLlama3> read_llama3(const Keys& rope, int32_t max_positions) {
  RopeLlama3 l;
  SLIP_TRY(l.factor, rope.number("factor", 8, 1e-3, 1e6));
  SLIP_TRY(l.low_freq_factor, rope.number("low_freq_factor", 1, 1e-6, 1e6));
  SLIP_TRY(l.high_freq_factor, rope.number("high_freq_factor", 4, 1e-6, 1e6));
  SLIP_TRY(l.original_max_position, rope.number("original_max_position_embeddings", max_positions, 1, 1e9));
  if (l.high_freq_factor <= l.low_freq_factor)
    return bad_input("{}: expected high_freq_factor above low_freq_factor, got {} and {}", rope.where, l.high_freq_factor,
                     l.low_freq_factor);
  return l;
}

Result<RopeSpec> read_rope(const Keys& text, const Family& family, DecoderOptions& decoder, int32_t max_positions) {
  RopeSpec spec;
  spec.width = decoder.head_width;
  static const json::object kEmpty;
  const std::string_view name = text.either("rope_scaling", "rope_parameters");
  const json::object* inner = &kEmpty;
  if (text.has(name)) {
    SLIP_TRY(inner, get_object(text.object, name, text.where));
  }
  const Keys rope{*inner, text.where + ": " + std::string(name)};
  SLIP_TRY(spec.theta, text.number("rope_theta", family.theta, 1.0001, 1e15));
  SLIP_TRY(spec.theta, rope.number("rope_theta", spec.theta, 1.0001, 1e15));
  SLIP_TRY(const std::string type, rope.text(rope.either("rope_type", "type"), "default"));
  if (rope.has("mrope_section")) {
    SLIP_TRY(const bool interleaved, rope.flag("mrope_interleaved", false));
    if (interleaved) return unsupported("{}: expected chunked sections, got mrope_interleaved", rope.where);
    SLIP_TRY(spec.sections, read_sections(rope, decoder.head_width));
  }
  if (type == "yarn") {
    SLIP_TRY(const RopeYarn yarn, read_yarn(rope, max_positions));
    SLIP_TRY(decoder.q_scale_beta, rope.number("llama_4_scaling_beta", 0, 0, 1e3));
    decoder.q_scale_positions = yarn.original_max_position;
    spec.scaling = yarn;
  } else if (type == "llama3") {
    SLIP_TRY(spec.scaling, read_llama3(rope, max_positions));
  } else if (type == "linear") {
    SLIP_TRY(const double factor, rope.number("factor", 1, 1e-3, 1e6));
    spec.scaling = RopeLinear{factor};
  } else if (type != "default" && type != "mrope") {
    return unsupported("{}: expected rope type default, mrope, linear, llama3 or yarn, got {}", rope.where, type);
  }
  return spec;
}

Status refuse_what_is_not_done(const Keys& text) {
  SLIP_TRY(const std::string activation, text.text("hidden_act", "silu"));
  if (activation != "silu") return unsupported("{}: hidden_act: expected silu, got {}", text.where, activation);
  if (text.has("quantization_config"))
    return unsupported("{}: expected f32, bf16 or f16 weights, got a quantization_config", text.where);
  return {};
}

// A window that would hide keys. Qwen's configs carry one that `use_sliding_window` switches off.
Status refuse_window(const Keys& text, const Family& family) {
  const bool qwen = family.name.starts_with("qwen");
  SLIP_TRY(const bool used, text.flag("use_sliding_window", !qwen));
  if (used && text.has("sliding_window"))
    return unsupported("{}: expected full attention in every layer, got a sliding_window in use", text.where);
  return {};
}

Result<DecoderOptions> read_decoder(const Keys& text, const Family& family, int32_t& max_positions) {
  DecoderOptions d;
  d.name = std::string(family.name);
  SLIP_TRY_(refuse_what_is_not_done(text));
  SLIP_TRY_(refuse_window(text, family));
  SLIP_TRY(d.vocab, text.integer("vocab_size", family.vocab, 1, kMaxVocab));
  SLIP_TRY(d.width, text.integer("hidden_size", family.width, 1, kMaxWidth));
  SLIP_TRY(d.mlp_width, text.integer("intermediate_size", family.mlp_width, 1, 8 * kMaxWidth));
  SLIP_TRY(d.layers, text.integer("num_hidden_layers", family.layers, 1, 1024));
  SLIP_TRY(d.heads, text.integer("num_attention_heads", family.heads, 1, 4096));
  SLIP_TRY(d.kv_heads, text.integer("num_key_value_heads", family.kv_heads > 0 ? family.kv_heads : d.heads, 1, 4096));
  if (d.heads % d.kv_heads != 0)
    return bad_input("{}: expected num_attention_heads to be a multiple of num_key_value_heads, got {} and {}", text.where, d.heads,
                     d.kv_heads);
  const int32_t derived = d.width / d.heads;
  if (!text.has("head_dim") && family.head_width == 0 && d.width % d.heads != 0)
    return bad_input("{}: expected hidden_size to be a multiple of num_attention_heads, got {} and {}", text.where, d.width,
                     d.heads);
  SLIP_TRY(d.head_width, text.integer("head_dim", family.head_width > 0 ? family.head_width : derived, 2, kMaxWidth));
  SLIP_TRY_(check_head_width(text.where, text.has("head_dim") ? "head_dim" : "hidden_size / num_attention_heads", d.head_width));
  if (d.head_width % 2 != 0) return bad_input("{}: expected an even head width, got {}", text.where, d.head_width);
  SLIP_TRY(const double eps, text.number("rms_norm_eps", family.norm_eps, 0, 1));
  d.norm_eps = static_cast<float>(eps);
  SLIP_TRY(const bool bias, text.flag("attention_bias", false));
  d.qkv_bias = family.qkv_bias || bias;
  d.o_bias = !family.qkv_bias && bias;
  SLIP_TRY(d.mlp_bias, text.flag("mlp_bias", false));
  d.qk_norm = family.qk_norm;
  SLIP_TRY(max_positions, text.integer("max_position_embeddings", family.max_positions, 1, int64_t{1} << 30));
  SLIP_TRY(d.rope, read_rope(text, family, d, max_positions));
  return d;
}

Result<std::optional<TokenId>> read_token(const Keys& keys, std::string_view key, std::string_view synonym, int32_t vocab) {
  const std::string_view name = keys.either(key, synonym);
  if (!keys.has(name)) return std::optional<TokenId>{};
  SLIP_TRY(const int32_t id, keys.integer(name, 0, 0, vocab - 1));
  return std::optional<TokenId>{TokenId{id}};
}

Result<DraftRule> read_rule(const Keys& top, const Keys& text, const Family& family, int32_t vocab) {
  DraftRule rule;
  const auto holder = [&](std::string_view a, std::string_view b) -> const Keys& { return top.has(a) || top.has(b) ? top : text; };
  SLIP_TRY(rule.shift, holder("diffusion_shift", "").flag("diffusion_shift", family.shift));
  const Keys& context = holder("context_mask", "");
  SLIP_TRY(const std::string mask, context.text("context_mask", family.block_causal ? "block_causal" : "causal"));
  if (mask != "causal" && mask != "block_causal" && mask != "block-causal")
    return bad_input("{}: context_mask: expected causal or block_causal, got {}", context.where, mask);
  rule.block_causal_context = mask != "causal";
  const Keys& block = holder("bd_size", "block_size");
  SLIP_TRY(rule.block_size, block.integer(block.either("bd_size", "block_size"), 32, 1, 65536));
  SLIP_TRY(const auto mask_id, read_token(holder("mask_token_id", "mask_id"), "mask_token_id", "mask_id", vocab));
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
  SLIP_TRY(v.width, keys.integer("hidden_size", v.width, 1, kMaxWidth));
  SLIP_TRY(v.heads, keys.integer("num_heads", v.heads, 1, 4096));
  SLIP_TRY(v.mlp_width, keys.integer("intermediate_size", v.mlp_width, 1, 8 * kMaxWidth));
  SLIP_TRY(v.out_width, keys.integer("out_hidden_size", v.out_width, 1, kMaxWidth));
  SLIP_TRY(v.channels, keys.integer(keys.either("in_channels", "in_chans"), v.channels, 1, 64));
  SLIP_TRY(v.patch, keys.integer("patch_size", v.patch, 1, 512));
  SLIP_TRY(v.temporal_patch, keys.integer("temporal_patch_size", v.temporal_patch, 1, 64));
  SLIP_TRY(v.merge, keys.integer("spatial_merge_size", v.merge, 1, 64));
  SLIP_TRY(v.window, keys.integer("window_size", v.window, 1, 1 << 20));
  SLIP_TRY(v.tokens_per_second, keys.number("tokens_per_second", v.tokens_per_second, 0, 1e6));
  if (keys.has("fullatt_block_indexes")) {
    SLIP_TRY(const json::array* list, get_array(keys.object, "fullatt_block_indexes", keys.where));
    v.full_attention_blocks.clear();
    for (const json::value& i : *list) {
      if (!i.is_int64() || i.get_int64() < 0 || i.get_int64() >= 1 << 20)
        return bad_input("{}: fullatt_block_indexes: expected block numbers, got {}", keys.where, cut(i));
      v.full_attention_blocks.push_back(static_cast<int32_t>(i.get_int64()));
    }
  }
  SLIP_TRY(const std::string activation, keys.text("hidden_act", "silu"));
  if (activation != "silu") return unsupported("{}: hidden_act: expected silu, got {}", keys.where, activation);
  if (v.width % v.heads != 0 || v.head_width() % 4 != 0)
    return bad_input("{}: expected a head width that is a multiple of 4, got {} / {}", keys.where, v.width, v.heads);
  SLIP_TRY_(check_head_width(keys.where, "hidden_size / num_heads", v.head_width()));
  if (v.window / v.patch / v.merge < 1)
    return bad_input("{}: window_size: expected at least {}, got {}", keys.where, v.patch * v.merge, v.window);
  if (v.out_width != text_width)
    return bad_input("{}: out_hidden_size: expected {}, the decoder's hidden_size, got {}", keys.where, text_width, v.out_width);
  return v;
}

Status read_ids(const Keys& top, ModelConfig& config) {
  const int32_t vocab = config.decoder.vocab;
  SLIP_TRY(config.image_token, read_token(top, "image_token_id", "image_token_index", vocab));
  SLIP_TRY(config.video_token, read_token(top, "video_token_id", "video_token_index", vocab));
  SLIP_TRY(config.vision_start, read_token(top, "vision_start_token_id", "", vocab));
  SLIP_TRY(config.vision_end, read_token(top, "vision_end_token_id", "", vocab));
  SLIP_TRY(config.bos, read_token(top, "bos_token_id", "", vocab));
  if (top.has("eos_token_id") && top.object.at("eos_token_id").is_array()) {
    for (const json::value& id : top.object.at("eos_token_id").get_array()) {
      if (!id.is_int64() || id.get_int64() < 0 || id.get_int64() >= vocab)
        return bad_input("{}: eos_token_id: expected ids below {}, got {}", top.where, vocab, cut(id));
      config.eos.push_back(TokenId{static_cast<int32_t>(id.get_int64())});
    }
  } else {
    SLIP_TRY(const auto eos, read_token(top, "eos_token_id", "", vocab));
    if (eos) config.eos.push_back(*eos);
  }
  return {};
}

}  // namespace

std::string supported_architectures() {
  std::string all;
  for (const Family& f : kFamilies) all += (all.empty() ? "" : ", ") + std::string(f.architecture);
  return all;
}

Result<ModelConfig> parse_model_config(const json::value& value, std::string_view where) {
  if (!value.is_object()) return bad_input("{}: expected a JSON object, got {}", where, cut(value));
  const Keys top{value.get_object(), std::string(where)};
  SLIP_TRY(const Family* family, find_family(top));
  const json::object* inner = &top.object;
  if (top.has("text_config")) {
    SLIP_TRY(inner, get_object(top.object, "text_config", where));
  }
  const Keys text{*inner, inner == &top.object ? top.where : top.where + ": text_config"};
  ModelConfig config;
  config.architecture = std::string(family->architecture);
  SLIP_TRY(config.model_type, top.text("model_type", family->model_type));
  const Keys& dtype = top.has("torch_dtype") || top.has("dtype") ? top : text;
  SLIP_TRY(config.stored_dtype, dtype.text(dtype.either("torch_dtype", "dtype"), ""));
  SLIP_TRY(config.decoder, read_decoder(text, *family, config.max_positions));
  SLIP_TRY(config.decoder.tied_head, (top.has("tie_word_embeddings") ? top : text).flag("tie_word_embeddings", false));
  SLIP_TRY(config.decoder.rule, read_rule(top, text, *family, config.decoder.vocab));
  SLIP_TRY_(read_ids(top, config));
  if (family->vision && top.has("vision_config")) {
    SLIP_TRY(const json::object* vision, get_object(top.object, "vision_config", where));
    SLIP_TRY(config.vision, read_vision({*vision, top.where + ": vision_config"}, config.decoder.width));
    if (!config.image_token) return bad_input("{}: expected image_token_id beside vision_config, got none", where);
  }
  return config;
}

Result<ModelConfig> read_model_config(const std::filesystem::path& folder) {
  const auto file = folder / "config.json";
  SLIP_TRY(const json::value value, read_json(file, size_t{16} << 20));
  return parse_model_config(value, file.string());
}

void resolve_draft_tokens(ModelConfig& config, const Tokenizer& tokenizer) {
  DraftRule& rule = config.decoder.rule;
  const auto resolve = [&](std::string_view text, bool& has, TokenId& id) {
    if (has) return;
    if (const auto found = tokenizer.find(text); found && found->value < config.decoder.vocab) {
      has = true;
      id = *found;
    }
  };
  resolve("|<MASK>|", rule.has_mask, rule.mask);
  resolve("<|NULL|>", rule.has_null, rule.null_token);
}

}  // namespace slip
