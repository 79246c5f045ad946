// SPDX-License-Identifier: Apache-2.0
// The real shapes as configuration files and lists of tensors (docs/notes/checkpoints.md#shapes).
#include <algorithm>
#include <cmath>

#include "convert/synthesize.h"
#include "text/chat.h"

namespace slip {
namespace {

using Tensors = std::vector<SyntheticTensor>;

constexpr float kBias = 0.02F;  // the released models' initialiser

// The decoder's sizes; tiny ones keep every ratio that code may depend on (grouped heads, tied head, several layers).
struct Sizes {
  int64_t vocab, width, layers, heads, kv_heads, head_width, mlp;
};

float fan_in(int64_t k) { return 1 / std::sqrt(static_cast<float>(k)); }

void matrix(Tensors& out, const std::string& name, int64_t n, int64_t k, bool decoder = true) {
  out.push_back({name, {n, k}, 0, fan_in(k), decoder});
}
void gain(Tensors& out, const std::string& name, int64_t n) { out.push_back({name, {n}, 1, 0}); }
void bias(Tensors& out, const std::string& name, int64_t n) { out.push_back({name, {n}, 0, kBias}); }
void linear(Tensors& out, const std::string& name, int64_t n, int64_t k) {
  matrix(out, name + ".weight", n, k, false);
  bias(out, name + ".bias", n);
}

void decoder_tensors(Tensors& out, const Sizes& s, const std::string& prefix, bool qkv_bias) {
  const int64_t q = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  matrix(out, prefix + "embed_tokens.weight", s.vocab, s.width, false);
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string p = prefix + "layers." + std::to_string(i) + ".", a = p + "self_attn.", m = p + "mlp.";
    gain(out, p + "input_layernorm.weight", s.width);
    for (const auto& [name, n] : {std::pair{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}}) {
      matrix(out, a + name + ".weight", n, s.width);
      if (qkv_bias) bias(out, a + name + ".bias", n);
    }
    matrix(out, a + "o_proj.weight", s.width, q);
    gain(out, p + "post_attention_layernorm.weight", s.width);
    matrix(out, m + "gate_proj.weight", s.mlp, s.width);
    matrix(out, m + "up_proj.weight", s.mlp, s.width);
    matrix(out, m + "down_proj.weight", s.width, s.mlp);
  }
  gain(out, prefix + "norm.weight", s.width);
}

json::object decoder_keys(const Sizes& s, double eps, int64_t positions) {
  return {{"hidden_act", "silu"},
          {"hidden_size", s.width},
          {"intermediate_size", s.mlp},
          {"max_position_embeddings", positions},
          {"num_attention_heads", s.heads},
          {"num_hidden_layers", s.layers},
          {"num_key_value_heads", s.kv_heads},
          {"rms_norm_eps", eps},
          {"vocab_size", s.vocab}};
}

void put(json::object& into, const json::object& from) {
  for (const auto& [key, value] : from) into[key] = value;
}

int64_t thinned(int64_t depth, const SynthesizeOptions& o, int64_t decoder_layers) {
  if (o.layers <= 0 || o.layers >= decoder_layers) return depth;
  return std::max<int64_t>(2, (depth * o.layers + decoder_layers - 1) / decoder_layers);
}

// Decoder layers asked for, or all.
int64_t layers_of(const SynthesizeOptions& o, int64_t all) { return o.layers > 0 ? o.layers : all; }

// Ids of the Qwen vocabulary: bytes and words up to `words`, then the added tokens (docs/notes/checkpoints.md#tokenizers).
struct QwenIds {
  int64_t words;
  int64_t end_of_text() const { return words; }
  int64_t im_end() const { return words + 2; }
  int64_t vision_start() const { return words + 9; }
  int64_t image_pad() const { return words + 12; }
};

SyntheticModel qwen_vl(const SynthesizeOptions& o) {
  const Sizes s =
      o.tiny ? Sizes{704, 64, layers_of(o, 2), 4, 2, 16, 176} : Sizes{151936, 2048, layers_of(o, 36), 16, 2, 128, 11008};
  const int64_t depth = o.tiny ? 4 : thinned(32, o, 36), d = o.tiny ? 32 : 1280, f = o.tiny ? 44 : 3420;
  const QwenIds ids{o.tiny ? 640 : 151643};
  json::array full;
  const int64_t fulls = std::min<int64_t>(4, depth / 2);  // the others have windows
  for (int64_t i = 1; i <= fulls; ++i) full.push_back(depth * i / fulls - 1);
  json::object config{{"architectures", {"Qwen2_5_VLForConditionalGeneration"}},
                      {"model_type", "qwen2_5_vl"},
                      {"attention_dropout", 0.0},
                      {"bos_token_id", ids.end_of_text()},
                      {"eos_token_id", ids.im_end()},
                      {"vision_start_token_id", ids.vision_start()},
                      {"vision_end_token_id", ids.vision_start() + 1},
                      {"vision_token_id", ids.vision_start() + 2},
                      {"image_token_id", ids.image_pad()},
                      {"video_token_id", ids.image_pad() + 1}};
  put(config, decoder_keys(s, 1e-6, o.tiny ? 4096 : 128000));
  const json::array sections = o.tiny ? json::array{2, 3, 3} : json::array{16, 24, 24};
  put(config, {{"max_window_layers", 70},
               {"rope_theta", 1e6},
               {"rope_scaling", {{"type", "mrope"}, {"mrope_section", sections}}},
               {"sliding_window", 32768},
               {"use_sliding_window", false},
               {"tie_word_embeddings", true},
               {"use_cache", true},
               {"vision_config",
                {{"depth", depth},
                 {"hidden_act", "silu"},
                 {"hidden_size", d},
                 {"intermediate_size", f},
                 {"num_heads", o.tiny ? 2 : 16},
                 {"in_chans", 3},
                 {"out_hidden_size", s.width},
                 {"patch_size", 14},
                 {"spatial_merge_size", 2},
                 {"spatial_patch_size", 14},
                 {"window_size", 112},
                 {"fullatt_block_indexes", full},
                 {"tokens_per_second", 2},
                 {"temporal_patch_size", 2}}}});
  SyntheticModel m;
  m.vocab = static_cast<int32_t>(s.vocab);
  decoder_tensors(m.tensors, s, "model.", true);
  m.tensors.push_back({"visual.patch_embed.proj.weight", {d, 3, 2, 14, 14}, 0, fan_in(1176)});
  for (int64_t i = 0; i < depth; ++i) {
    const std::string p = "visual.blocks." + std::to_string(i) + ".";
    gain(m.tensors, p + "norm1.weight", d);
    gain(m.tensors, p + "norm2.weight", d);
    linear(m.tensors, p + "attn.qkv", 3 * d, d);
    linear(m.tensors, p + "attn.proj", d, d);
    linear(m.tensors, p + "mlp.gate_proj", f, d);
    linear(m.tensors, p + "mlp.up_proj", f, d);
    linear(m.tensors, p + "mlp.down_proj", d, f);
  }
  gain(m.tensors, "visual.merger.ln_q.weight", d);
  linear(m.tensors, "visual.merger.mlp.0", 4 * d, 4 * d);
  linear(m.tensors, "visual.merger.mlp.2", s.width, 4 * d);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", ids.end_of_text()},
                                                              {"pad_token_id", ids.end_of_text()},
                                                              {"eos_token_id", {ids.im_end(), ids.end_of_text()}},
                                                              {"do_sample", false}});
  m.files.emplace_back("preprocessor_config.json", json::object{{"min_pixels", 3136},
                                                                {"max_pixels", 12845056},
                                                                {"patch_size", 14},
                                                                {"temporal_patch_size", 2},
                                                                {"merge_size", 2},
                                                                {"image_mean", {0.48145466, 0.4578275, 0.40821073}},
                                                                {"image_std", {0.26862954, 0.26130258, 0.27577711}},
                                                                {"image_processor_type", "Qwen2VLImageProcessor"},
                                                                {"processor_class", "Qwen2_5_VLProcessor"}});
  return m;
}

SyntheticModel qwen_text(const SynthesizeOptions& o) {
  const Sizes s = o.tiny ? Sizes{704, 56, layers_of(o, 2), 14, 2, 4, 152} : Sizes{151936, 896, layers_of(o, 24), 14, 2, 64, 4864};
  const QwenIds ids{o.tiny ? 640 : 151643};
  json::object config{{"architectures", {"Qwen2ForCausalLM"}},
                      {"model_type", "qwen2"},
                      {"attention_dropout", 0.0},
                      {"bos_token_id", ids.end_of_text()},
                      {"eos_token_id", ids.im_end()}};
  put(config, decoder_keys(s, 1e-6, o.tiny ? 4096 : 32768));
  put(config, {{"max_window_layers", 21},
               {"rope_theta", 1e6},
               {"sliding_window", 32768},
               {"use_sliding_window", false},
               {"tie_word_embeddings", true},
               {"use_cache", true}});
  SyntheticModel m;
  m.vocab = static_cast<int32_t>(s.vocab);
  decoder_tensors(m.tensors, s, "model.", true);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", ids.end_of_text()},
                                                              {"pad_token_id", ids.end_of_text()},
                                                              {"eos_token_id", {ids.im_end(), ids.end_of_text()}}});
  return m;
}

SyntheticModel nemotron(const SynthesizeOptions& o) {
  const Sizes s =
      o.tiny ? Sizes{1408, 48, layers_of(o, 2), 4, 2, 16, 144} : Sizes{131072, 3072, layers_of(o, 26), 32, 8, 128, 9216};
  json::object config{{"architectures", {"NemotronLabsDiffusionModel"}},
                      {"model_type", "nemotron_labs_diffusion"},
                      {"attention_bias", false},
                      {"attention_dropout", 0.0},
                      {"block_size", 32},
                      {"bos_token_id", 1},
                      {"eos_token_id", 11},
                      {"mask_token_id", 100},
                      {"dlm_paradigm", "bidirectional"},
                      {"head_dim", s.head_width},
                      {"mlp_bias", false}};
  put(config, decoder_keys(s, 1e-5, 262144));
  put(config, {{"rope_parameters",
                {{"rope_type", "yarn"},
                 {"type", "yarn"},
                 {"rope_theta", 1e6},
                 {"factor", 16.0},
                 {"original_max_position_embeddings", 16384},
                 {"beta_fast", 32.0},
                 {"beta_slow", 1.0},
                 {"mscale", 1.0},
                 {"mscale_all_dim", 1.0},
                 {"llama_4_scaling_beta", 0.1}}},
               {"sliding_window", nullptr},
               {"tie_word_embeddings", true},
               {"use_cache", false}});
  SyntheticModel m;
  m.tokenizer = SyntheticModel::Tokenizer::kTekken;
  m.vocab = static_cast<int32_t>(s.vocab);
  decoder_tensors(m.tensors, s, "encoder.", false);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", 1}, {"eos_token_id", 11}});
  return m;
}

struct Tower {
  std::string prefix;
  int64_t width, depth, heads, mlp, patches, side;
  bool dino;  // class and register tokens, layer scale; the other ends in a pooling head that nobody reads
};

void tower_tensors(Tensors& out, const Tower& t) {
  const int64_t d = t.width;
  out.push_back({t.prefix + "patch_embed.proj.weight", {d, 3, t.side, t.side}, 0, fan_in(3 * t.side * t.side)});
  bias(out, t.prefix + "patch_embed.proj.bias", d);
  out.push_back({t.prefix + "pos_embed", {1, t.patches, d}, 0, kBias});
  if (t.dino) {
    out.push_back({t.prefix + "cls_token", {1, 1, d}, 0, kBias});
    out.push_back({t.prefix + "reg_token", {1, 4, d}, 0, kBias});
  }
  for (int64_t i = 0; i < t.depth; ++i) {
    const std::string p = t.prefix + "blocks." + std::to_string(i) + ".";
    for (const char* norm : {"norm1", "norm2"}) {
      gain(out, p + norm + ".weight", d);
      bias(out, p + norm + ".bias", d);
    }
    linear(out, p + "attn.qkv", 3 * d, d);
    linear(out, p + "attn.proj", d, d);
    linear(out, p + "mlp.fc1", t.mlp, d);
    linear(out, p + "mlp.fc2", d, t.mlp);
    if (!t.dino) continue;
    gain(out, p + "ls1.scale_factor", d);
    gain(out, p + "ls2.scale_factor", d);
  }
  gain(out, t.prefix + "norm.weight", d);  // stored, never applied
  bias(out, t.prefix + "norm.bias", d);
}

json::object prismatic_preprocessor(int64_t side) {
  const json::array size{side, side}, half{0.5, 0.5, 0.5};
  const json::array mean{0.484375, 0.455078125, 0.40625}, deviation{0.228515625, 0.2236328125, 0.224609375};
  const json::object resize{{"antialias", true}, {"interpolation", 3}, {"max_size", nullptr}, {"size", size}};
  return {{"image_processor_type", "PrismaticImageProcessor"},
          {"image_resize_strategy", "resize-naive"},
          {"input_sizes", {{3, side, side}, {3, side, side}}},
          {"interpolations", {"bicubic", "bicubic"}},
          {"means", {mean, half}},
          {"stds", {deviation, half}},
          {"processor_class", "PrismaticProcessor"},
          {"tvf_crop_params", {{{"output_size", size}}, {{"output_size", size}}}},
          {"tvf_do_letterbox", false},
          {"tvf_letterbox_fill", nullptr},
          {"tvf_normalize_params",
           {{{"inplace", false}, {"mean", mean}, {"std", deviation}}, {{"inplace", false}, {"mean", half}, {"std", half}}}},
          {"tvf_resize_params", {resize, resize}},
          {"use_fused_vision_backbone", true}};
}

json::object action_statistics() {
  json::array low, high, mask, mean, deviation;
  for (int i = 0; i < 7; ++i) {
    low.push_back(i == 6 ? 0.0 : -0.5);
    high.push_back(i == 6 ? 1.0 : 0.5);
    mean.push_back(0.0);
    deviation.push_back(0.25);
    mask.push_back(i != 6);
  }
  return {
      {"synthetic",
       {{"action", {{"mean", mean}, {"std", deviation}, {"min", low}, {"max", high}, {"q01", low}, {"q99", high}, {"mask", mask}}},
        {"num_trajectories", 1},
        {"num_transitions", 1}}}};
}

SyntheticModel openvla(const SynthesizeOptions& o) {
  const Sizes s =
      o.tiny ? Sizes{704, 64, layers_of(o, 2), 4, 4, 16, 172} : Sizes{32064, 4096, layers_of(o, 32), 32, 32, 128, 11008};
  const int64_t image = o.tiny ? 56 : 224, patches = image / 14 * (image / 14);
  const Tower dino{"vision_backbone.featurizer.",
                   o.tiny ? 32 : 1024,
                   o.tiny ? 3 : thinned(24, o, 32),
                   o.tiny ? 2 : 16,
                   o.tiny ? 128 : 4096,
                   patches,
                   14,
                   true};
  const Tower siglip{"vision_backbone.fused_featurizer.",
                     o.tiny ? 36 : 1152,
                     o.tiny ? 4 : thinned(27, o, 32),
                     o.tiny ? 2 : 16,
                     o.tiny ? 134 : 4304,
                     patches,
                     14,
                     false};
  json::object text{
      {"model_type", "llama"}, {"pad_token_id", s.vocab - 64}, {"torch_dtype", o.dtype == "f32" ? "float32" : "bfloat16"}};
  put(text, decoder_keys(s, 1e-6, 2048));
  json::object config{{"architectures", {"OpenVLAForActionPrediction"}},
                      {"model_type", "openvla"},
                      {"arch_specifier", "no-align+fused-gelu-mlp"},
                      {"hf_llm_id", "meta-llama/Llama-2-7b-hf"},
                      {"llm_backbone_id", "llama2-7b-pure"},
                      {"llm_max_length", 2048},
                      {"image_resize_strategy", "resize-naive"},
                      {"image_sizes", {image, image}},
                      {"n_action_bins", 256},
                      {"norm_stats", action_statistics()},
                      {"output_projector_states", false},
                      {"pad_to_multiple_of", 64},
                      {"pad_token_id", s.vocab - 64},
                      {"text_config", text},
                      {"timm_model_ids", {"vit_large_patch14_reg4_dinov2.lvd142m", "vit_so400m_patch14_siglip_224"}},
                      {"timm_override_act_layers", {nullptr, nullptr}},
                      {"use_fused_vision_backbone", true},
                      {"vision_backbone_id", "dinosiglip-vit-so-224px"}};
  // The releases' tower sizes follow from the identifiers; towers of other sizes must be spelt out.
  json::array args;
  for (const Tower& t : {dino, siglip})
    args.push_back(json::object{{"img_size", image},
                                {"patch_size", 14},
                                {"embed_dim", t.width},
                                {"depth", t.depth},
                                {"num_heads", t.heads},
                                {"mlp_ratio", t.dino ? 4.0 : 3.7362},
                                {"reg_tokens", t.dino ? 4 : 0},
                                {"class_token", t.dino},
                                {"no_embed_class", true},
                                {"global_pool", t.dino ? "token" : "map"},
                                {"num_classes", 0}});
  if (o.tiny || siglip.depth != 27) config["timm_model_args"] = std::move(args);
  SyntheticModel m;
  m.tokenizer = SyntheticModel::Tokenizer::kLlama;
  m.vocab = static_cast<int32_t>(s.vocab - 64 + 1);  // the padding token is the last one named
  tower_tensors(m.tensors, dino);
  tower_tensors(m.tensors, siglip);
  const int64_t seen = dino.width + siglip.width;
  linear(m.tensors, "projector.fc1", 4 * seen, seen);
  linear(m.tensors, "projector.fc2", s.width, 4 * seen);
  linear(m.tensors, "projector.fc3", s.width, s.width);
  decoder_tensors(m.tensors, s, "language_model.model.", false);
  matrix(m.tensors, "language_model.lm_head.weight", s.vocab, s.width, false);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json",
                       json::object{{"bos_token_id", 1}, {"eos_token_id", 2}, {"pad_token_id", s.vocab - 64}});
  m.files.emplace_back("preprocessor_config.json", prismatic_preprocessor(image));
  return m;
}

struct Named {
  const char* name;
  SyntheticModel (*make)(const SynthesizeOptions&);
};
constexpr Named kShapes[] = {
    {"qwen2.5-vl-3b", qwen_vl}, {"qwen2.5-0.5b", qwen_text}, {"nemotron-3b", nemotron}, {"openvla-7b", openvla}};

}  // namespace

std::string synthetic_shapes() {
  std::string all;
  for (const Named& s : kShapes) all += (all.empty() ? "" : ", ") + std::string(s.name);
  return all;
}

Result<SyntheticModel> synthetic_model(const SynthesizeOptions& o) {
  if (o.layers < 0 || o.layers > 1024) return usage_error("--layers: expected 0 (all) to 1024, got {}", o.layers);
  const std::string_view torch = o.dtype == "f32"                        ? "float32"
                                 : o.dtype == "f16"                      ? "float16"
                                 : o.dtype == "bf16" || o.dtype == "fp8" ? "bfloat16"
                                                                         : "";
  if (torch.empty())
    return unsupported("--dtype: expected bf16, f32, f16 or fp8 (`slipstream quantize` packs int8 and int4 from those), got {}",
                       o.dtype);
  for (const Named& s : kShapes) {
    if (o.like != s.name) continue;
    SyntheticModel m = s.make(o);
    json::object& config = m.files.front().second.as_object();
    config["torch_dtype"] = torch;
    if (o.dtype == "fp8")
      config["quantization_config"] = {
          {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
    return m;
  }
  return usage_error("--like: expected {}, got {}", synthetic_shapes(), o.like);
}

}  // namespace slip
