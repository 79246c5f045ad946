// SPDX-License-Identifier: Apache-2.0
// A ViT's tensors in the two name layouts that are published: timm's as OpenVLA stores them (one qkv matrix, `scale_factor` for
// LayerScale), and Hugging Face's Dinov2 (three matrices, `lambda1`, a position for cls in the table).
#include "models/vision/vit.h"

namespace slip {
namespace {

using Parts = std::vector<WeightReader::Part>;

struct Named {
  WeightReader& reader;
  WeightType type;
  std::vector<float> vector(const std::string& name, int64_t n) { return reader.vector(Parts{{name, {n}}}); }
  PackedMatrix matrix(const std::string& name, int64_t n, int64_t k) { return reader.matrix(type, Parts{{name, {n, k}}}); }
};

VitBlockWeights read_block(Named n, const VitConfig& c, const VitNames& names, const std::string& p) {
  const int64_t d = c.width, up_rows = (c.swiglu ? 2 : 1) * int64_t{c.mlp_width};
  VitBlockWeights b;
  b.norm1_D = n.vector(p + "norm1.weight", d);
  b.norm1_bias_D = n.vector(p + "norm1.bias", d);
  b.norm2_D = n.vector(p + "norm2.weight", d);
  b.norm2_bias_D = n.vector(p + "norm2.bias", d);
  if (c.layer_scale) {
    b.scale1_D = n.vector(p + names.scale1, d);
    b.scale2_D = n.vector(p + names.scale2, d);
  }
  Parts qkv, qkv_bias;
  const int64_t each = 3 * d / static_cast<int64_t>(names.qkv.size());
  for (const std::string& name : names.qkv) {
    qkv.push_back({p + name + ".weight", {each, d}});
    qkv_bias.push_back({p + name + ".bias", {each}});
  }
  b.qkv = n.reader.matrix(n.type, qkv);
  b.qkv_bias = n.reader.vector(qkv_bias);
  b.proj = n.matrix(p + names.proj + ".weight", d, d);
  b.proj_bias = n.vector(p + names.proj + ".bias", d);
  b.up = n.matrix(p + names.up + ".weight", up_rows, d);
  b.up_bias = n.vector(p + names.up + ".bias", up_rows);
  b.down = n.matrix(p + names.down + ".weight", d, c.mlp_width);
  b.down_bias = n.vector(p + names.down + ".bias", d);
  return b;
}

// The stored table, cut into cls's entry and the patches'; cls and registers become the rows in front.
void read_rows_in_front(WeightReader& reader, const VitConfig& c, const VitNames& names, VitWeights& w) {
  const int64_t d = c.width, patches = int64_t{c.grid_rows} * c.grid_columns;
  std::vector<float> front;
  if (c.cls) front = reader.vector(Parts{{c.prefix + names.cls, {1, 1, d}}});
  std::vector<float> extra;
  if (c.registers > 0) extra = reader.vector(Parts{{c.prefix + names.registers, {1, c.registers, d}}});
  std::vector<float> positions = reader.vector(Parts{{c.prefix + names.positions, {1, patches + (c.cls_has_position ? 1 : 0), d}}});
  if (c.cls_has_position && !positions.empty()) {
    for (int64_t i = 0; i < d; ++i) front[static_cast<size_t>(i)] += positions[static_cast<size_t>(i)];
    positions.erase(positions.begin(), positions.begin() + d);
  }
  front.insert(front.end(), extra.begin(), extra.end());
  w.prefix_RD = std::move(front);
  w.positions_PD = std::move(positions);
}

}  // namespace

VitNames vit_names(const VitConfig& c) {
  if (c.timm_names)
    return {.patch = "patch_embed.proj",
            .cls = "cls_token",
            .registers = "reg_token",
            .positions = "pos_embed",
            .norm = "norm",
            .block = "blocks.",
            .scale1 = "ls1.scale_factor",
            .scale2 = "ls2.scale_factor",
            .qkv = {"attn.qkv"},
            .proj = "attn.proj",
            .up = "mlp.fc1",
            .down = "mlp.fc2"};
  const std::string attention = "attention.attention.";
  return {.patch = "embeddings.patch_embeddings.projection",
          .cls = "embeddings.cls_token",
          .registers = "embeddings.register_tokens",
          .positions = "embeddings.position_embeddings",
          .norm = "layernorm",
          .block = "encoder.layer.",
          .scale1 = "layer_scale1.lambda1",
          .scale2 = "layer_scale2.lambda1",
          .qkv = {attention + "query", attention + "key", attention + "value"},
          .proj = "attention.output.dense",
          .up = c.swiglu ? "mlp.weights_in" : "mlp.fc1",
          .down = c.swiglu ? "mlp.weights_out" : "mlp.fc2"};
}

VitWeights read_vit_weights(WeightReader& reader, const VitConfig& c, WeightType type) {
  const int64_t d = c.width;
  const VitNames names = vit_names(c);
  Named n{reader, type};
  VitWeights w;
  const std::string patch = c.prefix + names.patch;
  w.patch_embed = reader.matrix(type, Parts{{patch + ".weight", {d, c.channels, c.patch, c.patch}}});
  w.patch_bias = n.vector(patch + ".bias", d);
  read_rows_in_front(reader, c, names, w);
  for (int32_t i = 0; i < c.used_depth; ++i)
    w.blocks.push_back(read_block(n, c, names, c.prefix + names.block + std::to_string(i) + "."));
  if (c.final_norm) {
    w.norm_D = n.vector(c.prefix + names.norm + ".weight", d);
    w.norm_bias_D = n.vector(c.prefix + names.norm + ".bias", d);
  }
  return w;
}

}  // namespace slip
