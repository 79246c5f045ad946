// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "convert/prismatic_parts.h"

namespace slip {
namespace {

struct Shapes {
  const TensorsByName& tensors;
  const std::string where;
  Result<std::vector<int64_t>> of(const std::string& name, size_t rank) const {
    const auto at = tensors.find(name);
    if (at == tensors.end()) return bad_input("{}: expected a tensor that becomes {}, got none", where, name);
    if (at->second.shape.size() != rank ||
        std::any_of(at->second.shape.begin(), at->second.shape.end(), [](int64_t n) { return n < 1 || n > (1 << 24); }))
      return bad_input("{}: tensor {}: expected {} sizes of at least 1, got others", where, name, rank);
    return at->second.shape;
  }
  // Numbers behind `front`, from 0 on.
  int64_t count(const std::string& front, const std::string& back) const {
    int64_t n = 0;
    while (tensors.contains(front + std::to_string(n) + back)) ++n;
    return n;
  }
};

// Heads of the published towers, by width [timm]; -1: not known.
int64_t tower_heads(int64_t width) {
  for (const auto& [w, heads] : {std::pair<int64_t, int64_t>{384, 6}, {768, 12}, {1024, 16}, {1152, 16}})
    if (w == width) return heads;
  return -1;
}

Result<json::object> tower_args(const Shapes& s, const std::string& prefix, const json::object* given) {
  SLIP_TRY(const auto patch, s.of(prefix + "patch_embed.proj.weight", 4));
  SLIP_TRY(const auto positions, s.of(prefix + "pos_embed", 3));
  SLIP_TRY(const auto fc1, s.of(prefix + "blocks.0.mlp.fc1.weight", 2));
  const bool cls = s.tensors.contains(prefix + "cls_token");
  int64_t registers = 0;
  if (s.tensors.contains(prefix + "reg_token")) {
    SLIP_TRY(const auto r, s.of(prefix + "reg_token", 3));
    registers = r[1];
  }
  const bool patches_only = !cls || registers > 0;
  const int64_t patches = positions[1] - (patches_only ? 0 : 1);
  const auto side = static_cast<int64_t>(std::lround(std::sqrt(static_cast<double>(patches))));
  if (side * side != patches || patch[2] != patch[3])
    return bad_input("{}: {}pos_embed: expected a square of patches, got {}", s.where, prefix, patches);
  const int64_t width = patch[0];
  json::object args{{"depth", s.count(prefix + "blocks.", ".norm1.weight")},
                    {"embed_dim", width},
                    {"num_heads", tower_heads(width)},
                    // A quotient that times the width gives the hidden width again when cut down.
                    {"mlp_ratio", (static_cast<double>(fc1[0]) + 0.25) / static_cast<double>(width)},
                    {"patch_size", patch[2]},
                    {"img_size", side * patch[2]},
                    {"class_token", cls},
                    {"reg_tokens", registers},
                    {"no_embed_class", patches_only}};
  if (s.tensors.contains(prefix + "blocks.0.ls1.scale_factor")) args["init_values"] = 1e-5;
  for (const auto& member : given ? *given : json::object()) args[member.key()] = member.value();
  if (args.at("num_heads") == json::value(-1))
    return bad_input(
        "{}: expected timm_model_args with num_heads in config.json, since the width {} is of no published tower, got none",
        s.where, width);
  return args;
}

// Head widths of the published text models, by width.
int64_t head_width(int64_t width, bool qwen) {
  if (qwen && width == 896) return 64;
  for (const int64_t w : {1536, 2048, 3584, 4096, 5120})
    if (w == width) return 128;
  return -1;
}

Result<json::object> text_config(const Shapes& s, const json::object* given) {
  const std::string p = "language_model.model.", layer = p + "layers.0.";
  SLIP_TRY(const auto embed, s.of(p + "embed_tokens.weight", 2));
  SLIP_TRY(const auto q, s.of(layer + "self_attn.q_proj.weight", 2));
  SLIP_TRY(const auto k, s.of(layer + "self_attn.k_proj.weight", 2));
  SLIP_TRY(const auto gate, s.of(layer + "mlp.gate_proj.weight", 2));
  const bool qwen = s.tensors.contains(layer + "self_attn.q_proj.bias");
  const int64_t head = head_width(embed[1], qwen);
  json::object o{{"model_type", qwen ? "qwen2" : "llama"},
                 {"vocab_size", embed[0]},
                 {"hidden_size", embed[1]},
                 {"intermediate_size", gate[0]},
                 {"num_hidden_layers", s.count(p + "layers.", ".input_layernorm.weight")},
                 {"rope_theta", qwen ? 1e6 : 1e4},
                 // Native runs use the text model's own configuration, not the class's defaults
                 // [docs/notes/checkpoints.md#minivla].
                 {"rms_norm_eps", qwen ? 1e-6 : 1e-5},
                 {"max_position_embeddings", qwen ? 32768 : 4096},
                 {"tie_word_embeddings", !s.tensors.contains("language_model.lm_head.weight")}};
  if (head > 0) {
    o["num_attention_heads"] = q[0] / head;
    o["num_key_value_heads"] = k[0] / head;
  }
  for (const auto& member : given ? *given : json::object()) o[member.key()] = member.value();
  if (!o.contains("num_attention_heads"))
    return bad_input(
        "{}: expected text_config with num_attention_heads in config.json, since the width {} is of no published model, got none",
        s.where, embed[1]);
  return o;
}

std::string stored_type(const TensorsByName& tensors) {
  const DType t = tensors.begin()->second.dtype;
  return t == DType::kF32 ? "float32" : t == DType::kF16 ? "float16" : t == DType::kF64 ? "float64" : "bfloat16";
}

}  // namespace

std::string text_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v && v->is_string() ? std::string(v->get_string()) : std::string();
}
const json::object* object_at(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return v ? v->if_object() : nullptr;
}

Result<json::object> prismatic_config(const TensorsByName& tensors, const json::object& given, const std::string& where) {
  const Shapes shapes{tensors, where};
  const bool fused = tensors.contains("vision_backbone.fused_featurizer.pos_embed");
  const json::value* args = given.if_contains("timm_model_args");
  const json::array* list = args ? args->if_array() : nullptr;
  json::array towers, ids, sizes;
  for (size_t i = 0; i < (fused ? 2u : 1u); ++i) {
    const json::object* own = list && i < list->size() ? (*list)[i].if_object() : nullptr;
    SLIP_TRY(json::object t, tower_args(shapes, i == 0 ? "vision_backbone.featurizer." : "vision_backbone.fused_featurizer.", own));
    const bool cls = t.at("class_token") == json::value(true);
    ids.push_back(cls ? "vit_large_patch14_reg4_dinov2.lvd142m" : "vit_so400m_patch14_siglip_224");
    sizes.push_back(t.at("img_size"));
    towers.push_back(std::move(t));
  }
  SLIP_TRY(json::object text, text_config(shapes, object_at(given, "text_config")));
  const std::string strategy = text_at(given, "image_resize_strategy");
  return json::object{{"architectures", {"OpenVLAForActionPrediction"}},
                      {"model_type", "openvla"},
                      {"torch_dtype", stored_type(tensors)},
                      {"use_fused_vision_backbone", fused},
                      {"image_resize_strategy", strategy.empty() ? "resize-naive" : strategy},
                      {"image_sizes", sizes},
                      {"timm_model_ids", ids},
                      {"timm_model_args", towers},
                      {"n_action_bins", 256},
                      {"text_config", text}};
}

json::object prismatic_preprocessor(std::span<const VitConfig> towers, const std::string& strategy) {
  const json::object dino{{"mean", {0.485, 0.456, 0.406}}, {"std", {0.229, 0.224, 0.225}}};
  const json::object siglip{{"mean", {0.5, 0.5, 0.5}}, {"std", {0.5, 0.5, 0.5}}};
  const int64_t side = int64_t{towers.front().grid_rows} * towers.front().patch;
  const json::array square{side, side};
  json::array resize, crop, normalize;
  for (const VitConfig& tower : towers) {
    normalize.push_back(tower.cls ? dino : siglip);
    const bool naive = strategy == "resize-naive";
    json::object one{{"interpolation", 3}, {"antialias", true}};
    one["size"] = naive ? json::value(square) : json::value(side);
    resize.push_back(std::move(one));
    crop.push_back(json::object{{"output_size", square}});
  }
  json::object o{{"image_processor_type", "PrismaticImageProcessor"},
                 {"image_resize_strategy", strategy},
                 {"tvf_resize_params", resize},
                 {"tvf_crop_params", crop},
                 {"tvf_normalize_params", normalize},
                 {"tvf_do_letterbox", strategy == "letterbox"}};
  if (strategy == "letterbox") {
    json::array fill;
    for (const json::value& mean : normalize.front().at("mean").as_array())
      fill.push_back(static_cast<int64_t>(mean.as_double() * 255));
    o["tvf_letterbox_fill"] = std::move(fill);
  }
  return o;
}

}  // namespace slip
