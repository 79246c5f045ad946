// SPDX-License-Identifier: Apache-2.0
// A ViT's tensors in the two name layouts that are published: timm's as OpenVLA stores them (one qkv matrix, `scale_factor` for
// LayerScale), and Hugging Face's Dinov2 (three matrices, `lambda1`, a position for cls in the table). And the resampling of
// positions.
#include <algorithm>
#include <cmath>

#include "models/vision/vit.h"

namespace slip {
namespace {

using Parts = std::vector<WeightReader::Part>;

// Weight and bias of a norm or a product.
struct Named {
  WeightReader& reader;
  WeightType type;
  std::vector<float> vector(const std::string& name, int64_t n) { return reader.vector(Parts{{name, {n}}}); }
  PackedMatrix matrix(const std::string& name, int64_t n, int64_t k) { return reader.matrix(type, Parts{{name, {n, k}}}); }
};

VitBlockWeights read_timm_block(Named n, const VitConfig& c, const std::string& p) {
  const int64_t d = c.width, f = c.mlp_width;
  VitBlockWeights b;
  b.norm1_D = n.vector(p + "norm1.weight", d);
  b.norm1_bias_D = n.vector(p + "norm1.bias", d);
  b.norm2_D = n.vector(p + "norm2.weight", d);
  b.norm2_bias_D = n.vector(p + "norm2.bias", d);
  if (c.layer_scale) {
    b.scale1_D = n.vector(p + "ls1.scale_factor", d);
    b.scale2_D = n.vector(p + "ls2.scale_factor", d);
  }
  b.qkv = n.matrix(p + "attn.qkv.weight", 3 * d, d);
  b.qkv_bias = n.vector(p + "attn.qkv.bias", 3 * d);
  b.proj = n.matrix(p + "attn.proj.weight", d, d);
  b.proj_bias = n.vector(p + "attn.proj.bias", d);
  b.up = n.matrix(p + "mlp.fc1.weight", f, d);
  b.up_bias = n.vector(p + "mlp.fc1.bias", f);
  b.down = n.matrix(p + "mlp.fc2.weight", d, f);
  b.down_bias = n.vector(p + "mlp.fc2.bias", d);
  return b;
}

VitBlockWeights read_hf_block(Named n, const VitConfig& c, const std::string& p) {
  const int64_t d = c.width, f = c.mlp_width;
  const std::string a = p + "attention.attention.";
  VitBlockWeights b;
  b.norm1_D = n.vector(p + "norm1.weight", d);
  b.norm1_bias_D = n.vector(p + "norm1.bias", d);
  b.norm2_D = n.vector(p + "norm2.weight", d);
  b.norm2_bias_D = n.vector(p + "norm2.bias", d);
  if (c.layer_scale) {
    b.scale1_D = n.vector(p + "layer_scale1.lambda1", d);
    b.scale2_D = n.vector(p + "layer_scale2.lambda1", d);
  }
  b.qkv = n.reader.matrix(n.type, Parts{{a + "query.weight", {d, d}}, {a + "key.weight", {d, d}}, {a + "value.weight", {d, d}}});
  b.qkv_bias = n.reader.vector(Parts{{a + "query.bias", {d}}, {a + "key.bias", {d}}, {a + "value.bias", {d}}});
  b.proj = n.matrix(p + "attention.output.dense.weight", d, d);
  b.proj_bias = n.vector(p + "attention.output.dense.bias", d);
  const std::string up = c.swiglu ? "mlp.weights_in" : "mlp.fc1", down = c.swiglu ? "mlp.weights_out" : "mlp.fc2";
  const int64_t up_rows = c.swiglu ? 2 * f : f;
  b.up = n.matrix(p + up + ".weight", up_rows, d);
  b.up_bias = n.vector(p + up + ".bias", up_rows);
  b.down = n.matrix(p + down + ".weight", d, f);
  b.down_bias = n.vector(p + down + ".bias", d);
  return b;
}

// The stored table, cut into cls's entry and the patches'; cls and registers become the rows in front.
void read_rows_in_front(WeightReader& reader, const VitConfig& c, const std::string& cls, const std::string& registers,
                        const std::string& table, VitWeights& w) {
  const int64_t d = c.width, patches = int64_t{c.grid_rows} * c.grid_columns;
  std::vector<float> front;
  if (c.cls) front = reader.vector(Parts{{cls, {1, 1, d}}});
  std::vector<float> extra;
  if (c.registers > 0) extra = reader.vector(Parts{{registers, {1, c.registers, d}}});
  std::vector<float> positions = reader.vector(Parts{{table, {1, patches + (c.cls_has_position ? 1 : 0), d}}});
  if (c.cls_has_position && !positions.empty()) {
    for (int64_t i = 0; i < d; ++i) front[static_cast<size_t>(i)] += positions[static_cast<size_t>(i)];
    positions.erase(positions.begin(), positions.begin() + d);
  }
  front.insert(front.end(), extra.begin(), extra.end());
  w.prefix_RD = std::move(front);
  w.positions_PD = std::move(positions);
}

}  // namespace

VitWeights read_vit_weights(WeightReader& reader, const VitConfig& c, WeightType type) {
  const int64_t d = c.width;
  const std::string& p = c.prefix;
  Named n{reader, type};
  VitWeights w;
  const std::string patch = p + (c.timm_names ? "patch_embed.proj" : "embeddings.patch_embeddings.projection");
  w.patch_embed = reader.matrix(type, Parts{{patch + ".weight", {d, c.channels, c.patch, c.patch}}});
  w.patch_bias = n.vector(patch + ".bias", d);
  if (c.timm_names) {
    read_rows_in_front(reader, c, p + "cls_token", p + "reg_token", p + "pos_embed", w);
  } else {
    read_rows_in_front(reader, c, p + "embeddings.cls_token", p + "embeddings.register_tokens",
                       p + "embeddings.position_embeddings", w);
  }
  for (int32_t i = 0; i < c.used_depth; ++i) {
    const std::string block = p + (c.timm_names ? "blocks." : "encoder.layer.") + std::to_string(i) + ".";
    w.blocks.push_back(c.timm_names ? read_timm_block(n, c, block) : read_hf_block(n, c, block));
  }
  if (c.final_norm) {
    const std::string norm = p + (c.timm_names ? "norm" : "layernorm");
    w.norm_D = n.vector(norm + ".weight", d);
    w.norm_bias_D = n.vector(norm + ".bias", d);
  }
  return w;
}

namespace {

// For each output: the inputs that it is made of, and their weights.
struct Taps {
  std::vector<std::vector<std::pair<int32_t, float>>> of;
};

double cubic(double x, double a) {
  x = std::abs(x);
  if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  if (x < 2) return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  return 0;
}

// Four neighbours, those outside clamped to the border [torch, upsample_bicubic2d].
Taps plain_taps(int32_t in, int32_t out) {
  Taps t;
  const double scale = static_cast<double>(in) / out;
  for (int32_t i = 0; i < out; ++i) {
    const double at = scale * (i + 0.5) - 0.5, first = std::floor(at);
    auto& taps = t.of.emplace_back();
    for (int32_t k = -1; k <= 2; ++k) {
      const auto from = static_cast<int32_t>(std::clamp(first + k, 0.0, in - 1.0));
      taps.emplace_back(from, static_cast<float>(cubic(at - first - k, -0.75)));
    }
  }
  return t;
}

// Pillow's rule: the filter widens where it shrinks, weights are normalised [torch, _upsample_bicubic2d_aa].
Taps antialias_taps(int32_t in, int32_t out) {
  Taps t;
  const double scale = static_cast<double>(in) / out, widened = std::max(scale, 1.0), support = 2 * widened;
  for (int32_t i = 0; i < out; ++i) {
    const double centre = scale * (i + 0.5);
    const auto low = static_cast<int32_t>(std::max(centre - support + 0.5, 0.0));
    const int32_t high = std::min(static_cast<int32_t>(centre + support + 0.5), in);
    std::vector<double> weights;
    double total = 0;
    for (int32_t k = low; k < high; ++k) total += weights.emplace_back(cubic((k - centre + 0.5) / widened, -0.5));
    auto& taps = t.of.emplace_back();
    for (int32_t k = low; k < high; ++k) taps.emplace_back(k, static_cast<float>(weights[static_cast<size_t>(k - low)] / total));
  }
  return t;
}

void add_tap(float* to, const float* from, float weight, int32_t width) {
  for (int32_t d = 0; d < width; ++d) to[d] += weight * from[d];
}

}  // namespace

std::vector<float> resample_positions(std::span<const float> table_PD, int32_t rows, int32_t columns, int32_t width,
                                      int32_t to_rows, int32_t to_columns, bool antialias) {
  if (rows == to_rows && columns == to_columns) return {table_PD.begin(), table_PD.end()};
  const Taps across = antialias ? antialias_taps(columns, to_columns) : plain_taps(columns, to_columns);
  const Taps down = antialias ? antialias_taps(rows, to_rows) : plain_taps(rows, to_rows);
  const auto d = static_cast<size_t>(width);
  std::vector<float> wide(static_cast<size_t>(rows) * static_cast<size_t>(to_columns) * d);
  for (size_t y = 0; y < static_cast<size_t>(rows); ++y)
    for (size_t x = 0; x < across.of.size(); ++x)
      for (const auto& [from, weight] : across.of[x])
        add_tap(&wide[(y * across.of.size() + x) * d],
                &table_PD[(y * static_cast<size_t>(columns) + static_cast<size_t>(from)) * d], weight, width);
  std::vector<float> out(static_cast<size_t>(to_rows) * static_cast<size_t>(to_columns) * d);
  for (size_t y = 0; y < down.of.size(); ++y)
    for (const auto& [from, weight] : down.of[y])
      for (size_t x = 0; x < across.of.size(); ++x)
        add_tap(&out[(y * across.of.size() + x) * d], &wide[(static_cast<size_t>(from) * across.of.size() + x) * d], weight, width);
  return out;
}

}  // namespace slip
