// SPDX-License-Identifier: Apache-2.0
// OpenVLA-7b (docs/notes/checkpoints.md#shapes).
#include <array>

#include "convert/synthesize_parts.h"

namespace slip {
namespace {

struct Tower {
  std::string prefix;
  int64_t width, depth, heads, mlp, patches, side;
  bool dino;  // class and register tokens, layer scale; the other ends in a pooling head that nobody reads
};

void add_tower(SyntheticTensors& out, const Tower& t) {
  const int64_t d = t.width;
  out.push_back({t.prefix + "patch_embed.proj.weight", {d, 3, t.side, t.side}, 0, fan_in(3 * t.side * t.side)});
  add_bias(out, t.prefix + "patch_embed.proj.bias", d);
  out.push_back({t.prefix + "pos_embed", {1, t.patches, d}, 0, kSyntheticBias});
  if (t.dino) {
    out.push_back({t.prefix + "cls_token", {1, 1, d}, 0, kSyntheticBias});
    out.push_back({t.prefix + "reg_token", {1, 4, d}, 0, kSyntheticBias});
  }
  for (int64_t i = 0; i < t.depth; ++i) {
    const std::string p = t.prefix + "blocks." + std::to_string(i) + ".";
    for (const char* norm : {"norm1", "norm2"}) {
      add_gain(out, p + norm + ".weight", d);
      add_bias(out, p + norm + ".bias", d);
    }
    add_linear(out, p + "attn.qkv", 3 * d, d);
    add_linear(out, p + "attn.proj", d, d);
    add_linear(out, p + "mlp.fc1", t.mlp, d);
    add_linear(out, p + "mlp.fc2", d, t.mlp);
    if (!t.dino) continue;
    add_gain(out, p + "ls1.scale_factor", d);
    add_gain(out, p + "ls2.scale_factor", d);
  }
  add_gain(out, t.prefix + "norm.weight", d);  // stored, never applied
  add_bias(out, t.prefix + "norm.bias", d);
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

json::array tower_args(const std::array<Tower, 2>& towers, int64_t image) {
  json::array args;
  for (const Tower& t : towers)
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
  return args;
}

json::object openvla_config(const SynthesizeOptions& o, const DecoderSizes& s, const std::array<Tower, 2>& towers, int64_t image) {
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
  if (o.tiny || towers[1].depth != 27) config["timm_model_args"] = tower_args(towers, image);
  return config;
}

std::array<Tower, 2> towers_of(const SynthesizeOptions& o, int64_t image) {
  const int64_t patches = image / 14 * (image / 14);
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
  return {dino, siglip};
}

}  // namespace

SyntheticModel synthetic_openvla(const SynthesizeOptions& o) {
  const DecoderSizes s = o.tiny ? DecoderSizes{704, 64, layers_of(o, 2), 4, 4, 16, 172}
                                : DecoderSizes{32064, 4096, layers_of(o, 32), 32, 32, 128, 11008};
  const int64_t image = o.tiny ? 56 : 224;
  const std::array<Tower, 2> towers = towers_of(o, image);
  SyntheticModel m;
  m.tokenizer = SyntheticModel::Tokenizer::kLlama;
  m.vocab = static_cast<int32_t>(s.vocab - 64 + 1);  // the padding token is the last one named
  for (const Tower& t : towers) add_tower(m.tensors, t);
  const int64_t seen = towers[0].width + towers[1].width;
  add_linear(m.tensors, "projector.fc1", 4 * seen, seen);
  add_linear(m.tensors, "projector.fc2", s.width, 4 * seen);
  add_linear(m.tensors, "projector.fc3", s.width, s.width);
  add_decoder(m.tensors, s, "language_model.model.", false);
  add_matrix(m.tensors, "language_model.lm_head.weight", s.vocab, s.width, false);
  m.files.emplace_back("config.json", openvla_config(o, s, towers, image));
  m.files.emplace_back("generation_config.json",
                       json::object{{"bos_token_id", 1}, {"eos_token_id", 2}, {"pad_token_id", s.vocab - 64}});
  m.files.emplace_back("preprocessor_config.json", prismatic_preprocessor(image));
  return m;
}

}  // namespace slip
