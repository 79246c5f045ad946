// SPDX-License-Identifier: Apache-2.0
// Shape and parameter table of a trainable model: Qwen2, Qwen3 and Ministral 3 text (`model.*`; QK-norm, YaRN, the query's scale),
// Qwen2.5-VL (`model.language_model.*`, `model.visual.*`, the layout that transformers >= 4.52 saves), dino_qwen (a DINOv2 tower and a row
// of ego history in front of a Qwen: models/config/dino_qwen.h) and OpenVLA (timm's towers in front of a Llama or Qwen2:
// models/config/openvla.h), read from a Hugging Face config.json (flat or nested). Of a tower only what the features need is a parameter;
// what else is stored of it (OpenVLA's last block, norm and pooling head) a checkpoint takes over as it is (loop/checkpoint.h).
// All parameters lie in one flat buffer; matrices that one product uses (q, k, v; gate, up) lie side by side in it.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/json.h"
#include "models/config/vit_config.h"
#include "train/model/rows.h"
#include "train/model/span_attention.h"

namespace slip {

struct VisionTowerShape {
  int32_t depth = 0, hidden = 0, heads = 0, ffn = 0, out = 0, patch = 14, temporal = 2, merge = 2, window = 112, channels = 3;
  std::vector<int32_t> full_layers;
  int32_t patch_numbers() const { return channels * temporal * patch * patch; }
  AttentionShape attention() const { return {heads, heads, hidden / heads}; }
  VisionShape rows() const { return {merge, window / patch / merge, patch_numbers()}; }
};

struct ModelShape {
  int32_t hidden = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0, ffn = 0, vocab = 0;
  double eps = 1e-6, rope_theta = 1e6;
  std::array<int32_t, 3> mrope{};  // pairs per axis; {K/2, 0, 0} for plain text
  bool tied = true;
  bool qkv_bias = true, qk_norm = false;
  std::vector<double> rotary;  // inverse frequencies of a head's pairs where theta alone does not give them (YaRN)
  double rotary_factor = 1;    // on cosines and sines
  double q_scale_beta = 0, q_scale_positions = 1;  // the query of position p times 1 + beta ln(1 + floor(p / positions))
  int32_t mask_token = -1, image_token = -1;
  std::optional<VisionTowerShape> vision;
  std::optional<VitTowerConfig> vit;     // of dino_qwen and OpenVLA, in place of `vision`
  std::optional<HistoryConfig> history;  // of dino_qwen
  AttentionShape attention() const { return {heads, kv_heads, head_dim}; }
  VisionShape vision_rows() const;
  static Result<ModelShape> from_config(const json::object& config, std::string_view where);
};

enum class InitKind : uint8_t { kNormal, kOne, kZero };
struct Parameter {
  std::string name;  // as stored
  std::vector<int64_t> shape;
  int64_t offset = 0, count = 0;  // in the flat buffer
  InitKind init = InitKind::kNormal;
  double init_scale = 1;  // factor on the standard deviation
};

/// A run of the flat buffer that the forward pass uses as one tensor (rows x columns; columns 0: a vector of `rows`).
struct Group {
  int64_t offset = 0, rows = 0, columns = 0;
};
struct BlockGroups {
  Group norm1, qkv, qkv_bias, q_norm, k_norm, out, out_bias, norm2, gate_up, gate_up_bias, down, down_bias;
};

/// A plain ViT's block, the tower, and all that such a model has in front of its text model.
struct VitBlockGroups {
  Group norm1, norm1_bias, qkv, qkv_bias, out, out_bias, scale1, norm2, norm2_bias, up, up_bias, down, down_bias, scale2;
};
struct VitGroups {
  Group patch, patch_bias, cls, registers, positions, norm, norm_bias;
  std::vector<VitBlockGroups> blocks;
};
struct FrontGroups {
  std::vector<VitGroups> vits;
  std::vector<Group> projector, projector_bias;
  Group history1, history1_bias, history2, history2_bias;
};

struct ParameterTable {
  std::vector<Parameter> parameters;
  int64_t size = 0;         // numbers in the flat buffer, padding included
  Group embed, norm, head;  // head == embed when tied
  std::vector<BlockGroups> layers;
  Group patch_embed, merger_norm, merger_up, merger_up_bias, merger_down, merger_down_bias;
  std::vector<BlockGroups> vision;
  FrontGroups front;
  static ParameterTable of(const ModelShape& shape);
  /// Where the parameters lie whose names begin with one of these: first and one past the last, in order.
  std::vector<std::pair<int64_t, int64_t>> runs_of(std::span<const std::string> prefixes) const;
};

}  // namespace slip
