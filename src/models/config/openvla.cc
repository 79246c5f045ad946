// SPDX-License-Identifier: Apache-2.0
// See openvla.h.
#include "models/config/openvla.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "models/config/config_decoder.h"
#include "models/config/config_reader.h"
#include "text/unicode/unicode.h"

namespace slip {
namespace {

// What timm's ids imply [timm, vision_transformer; docs/notes/checkpoints.md#towers].
struct TimmModel {
  std::string_view id;  // without the training's name behind the point
  int32_t width, depth, heads, patch;
  double mlp_ratio;
  bool dino;  // cls and LayerScale
  int32_t registers;
};
constexpr std::array kTimmModels = {
    TimmModel{"vit_small_patch14_reg4_dinov2", 384, 12, 6, 14, 4, true, 4},
    TimmModel{"vit_base_patch14_reg4_dinov2", 768, 12, 12, 14, 4, true, 4},
    TimmModel{"vit_large_patch14_reg4_dinov2", 1024, 24, 16, 14, 4, true, 4},
    TimmModel{"vit_small_patch14_dinov2", 384, 12, 6, 14, 4, true, 0},
    TimmModel{"vit_base_patch14_dinov2", 768, 12, 12, 14, 4, true, 0},
    TimmModel{"vit_large_patch14_dinov2", 1024, 24, 16, 14, 4, true, 0},
    TimmModel{"vit_base_patch16_siglip_224", 768, 12, 12, 16, 4, false, 0},
    TimmModel{"vit_so400m_patch14_siglip_224", 1152, 27, 16, 14, 3.7362, false, 0},
    TimmModel{"vit_so400m_patch14_siglip_384", 1152, 27, 16, 14, 3.7362, false, 0},
};

Result<VitConfig> timm_config(std::string_view id, int32_t image_size, const std::string& where) {
  const std::string_view name = id.substr(0, id.find('.'));
  const auto* m = std::find_if(kTimmModels.begin(), kTimmModels.end(), [&](const TimmModel& k) { return k.id == name; });
  if (m == kTimmModels.end()) {
    std::string known;
    for (const TimmModel& k : kTimmModels) known += (known.empty() ? "" : ", ") + std::string(k.id);
    return unsupported("{}: timm_model_ids: expected {}, got {}", where, known, cut(id));
  }
  VitConfig c;
  c.depth = m->depth;
  c.width = m->width;
  c.heads = m->heads;
  c.mlp_width = static_cast<int32_t>(m->width * m->mlp_ratio);
  c.patch = m->patch;
  c.registers = m->registers;
  c.cls = c.layer_scale = m->dino;
  c.cls_has_position = m->dino && m->registers == 0;
  c.grid_rows = c.grid_columns = image_size / m->patch;
  return c;
}

Status read_timm_args(const Keys& a, VitConfig& c) {
  SLIP_TRY(c.depth, a.integer("depth", c.depth, 2, 256));
  SLIP_TRY(c.width, a.integer("embed_dim", c.width, 1, 1 << 14));
  SLIP_TRY(c.heads, a.integer("num_heads", c.heads, 1, 1024));
  SLIP_TRY(c.patch, a.integer("patch_size", c.patch, 1, 256));
  SLIP_TRY(const double ratio, a.number("mlp_ratio", static_cast<double>(c.mlp_width) / c.width, 0.01, 64));
  c.mlp_width = std::max(1, static_cast<int32_t>(c.width * ratio));
  SLIP_TRY(c.cls, a.flag("class_token", c.cls));
  SLIP_TRY(c.registers, a.integer("reg_tokens", c.registers, 0, 256));
  SLIP_TRY(const bool patches_only, a.flag("no_embed_class", !c.cls_has_position));
  c.cls_has_position = c.cls && !patches_only;
  if (a.has("init_values")) c.layer_scale = true;
  SLIP_TRY(const int32_t size, a.integer("img_size", c.grid_rows * c.patch, c.patch, 4096));
  c.grid_rows = c.grid_columns = size / c.patch;
  return {};
}

Status check_vit(const VitConfig& c, const std::string& where) {
  if (c.width % c.heads != 0)
    return bad_input("{}: expected a width that is a multiple of the heads, got {} / {}", where, c.width, c.heads);
  if (c.head_width() > kMaxHeadWidth)
    return unsupported("{}: expected heads of at most {} numbers, got {}", where, kMaxHeadWidth, c.head_width());
  if (c.grid_rows < 1) return bad_input("{}: expected images of at least {} pixels, got fewer", where, c.patch);
  return {};
}

Result<VitTowerConfig> read_towers(const Keys& top, int32_t text_width) {
  VitTowerConfig tower;
  SLIP_TRY(const bool fused, top.flag("use_fused_vision_backbone", true));
  SLIP_TRY(const json::array* ids, get_array(top.object, "timm_model_ids", top.where));
  const size_t n = fused ? 2 : 1;
  if (ids->size() != n) return bad_input("{}: timm_model_ids: expected {} names, got {}", top.where, n, cut(*ids));
  SLIP_TRY(const json::array* sizes, get_array(top.object, "image_sizes", top.where));
  const json::value* args = top.has("timm_model_args") ? &top.object.at("timm_model_args") : nullptr;
  const json::value* acts = top.has("timm_override_act_layers") ? &top.object.at("timm_override_act_layers") : nullptr;
  for (size_t i = 0; i < n; ++i) {
    const json::value& size = sizes->size() == n ? (*sizes)[i] : json::value(nullptr);
    if (!(*ids)[i].is_string() || !size.is_int64() || size.get_int64() < 1 || size.get_int64() > 4096)
      return bad_input("{}: expected timm_model_ids and image_sizes of {} towers, got {} and {}", top.where, n, cut(*ids),
                       cut(*sizes));
    if (acts && acts->is_array() && i < acts->get_array().size() && !acts->get_array()[i].is_null())
      return unsupported("{}: timm_override_act_layers: expected null, got {}", top.where, cut(acts->get_array()[i]));
    SLIP_TRY(VitConfig c, timm_config((*ids)[i].get_string(), static_cast<int32_t>(size.get_int64()), top.where));
    if (args) {
      if (!args->is_array() || args->get_array().size() != n || !args->get_array()[i].is_object())
        return bad_input("{}: timm_model_args: expected {} objects, got {}", top.where, n, cut(*args));
      SLIP_TRY_(read_timm_args({args->get_array()[i].get_object(), top.where + ": timm_model_args"}, c));
    }
    SLIP_TRY_(check_vit(c, top.where));
    c.used_depth = c.depth - 1;  // the state before the last block, and no final norm
    c.prefix = i == 0 ? "vision_backbone.featurizer." : "vision_backbone.fused_featurizer.";
    tower.vits.push_back(std::move(c));
  }
  if (fused && (tower.vits[0].grid_rows != tower.vits[1].grid_rows || tower.vits[0].patch != tower.vits[1].patch))
    return bad_input("{}: expected two towers with equal patches, got {} and {} a side", top.where, tower.vits[0].grid_rows,
                     tower.vits[1].grid_rows);
  const int32_t vision = tower.joined_width();
  if (fused) {
    tower.projector = {{"projector.fc1", vision, 4 * vision},
                       {"projector.fc2", 4 * vision, text_width},
                       {"projector.fc3", text_width, text_width}};
  } else {
    tower.projector = {{"projector.fc1", vision, text_width}, {"projector.fc2", text_width, text_width}};
  }
  return tower;
}

Result<std::vector<double>> percentiles(const json::object& action, std::string_view key, const std::string& where) {
  SLIP_TRY(const json::array* list, get_array(action, key, where));
  constexpr size_t kMostDimensions = 256;  // 7 to 14 in published ones
  std::vector<double> out;
  for (const json::value& v : *list) {
    out.push_back(v.is_number() ? v.to_number<double>() : std::nan(""));
    if (!std::isfinite(out.back()) || out.size() > kMostDimensions)
      return bad_input("{}: {}: expected at most {} finite numbers, got {}", where, key, kMostDimensions, cut(*list));
  }
  return out;
}

Result<ActionConfig> read_action(const Keys& top, const ModelConfig& config) {
  ActionConfig out;
  SLIP_TRY(out.bins, top.integer("n_action_bins", ActionBins::kBins, 2, 1 << 16));
  SLIP_TRY(const int32_t padding, top.integer("pad_to_multiple_of", 64, 0, config.decoder.vocab));
  out.bound = config.decoder.vocab - padding;
  if (out.bound < out.bins)
    return bad_input("{}: expected at least {} ids below vocab_size - pad_to_multiple_of, got {}", top.where, out.bins, out.bound);
  SLIP_TRY(const std::string path, top.text("_name_or_path", ""));
  if (config.decoder.name.starts_with("qwen")) {
    out.prompt = ActionConfig::Prompt::kQwen;
  } else if (path.find("openvla-v01") != std::string::npos) {
    out.prompt = ActionConfig::Prompt::kVicuna;
  }
  if (top.has("norm_stats")) {
    SLIP_TRY(const json::object* stats, get_object(top.object, "norm_stats", top.where));
    SLIP_TRY(out.statistics, read_action_statistics(*stats, top.where + ": norm_stats"));
  }
  return out;
}

std::string_view architecture_of(const json::object& top) {
  const json::value* list = top.if_contains("architectures");
  const json::array* a = list ? list->if_array() : nullptr;
  if (a && !a->empty() && (*a)[0].is_string()) return (*a)[0].get_string();
  const json::value* type = top.if_contains("model_type");
  return type && type->is_string() ? std::string_view(type->get_string()) : std::string_view();
}

constexpr std::array<std::string_view, 4> kNames = {"OpenVLAForActionPrediction", "openvla", "PrismaticForConditionalGeneration",
                                                    "prismatic"};

}  // namespace

bool is_openvla_config(const json::object& top) {
  return std::find(kNames.begin(), kNames.end(), architecture_of(top)) != kNames.end();
}

Result<ModelConfig> parse_openvla_config(const json::object& object, std::string_view where) {
  const Keys top{object, std::string(where)};
  SLIP_TRY(const json::object* text, get_object(object, "text_config", where));
  SLIP_TRY(ModelConfig config, parse_model_config(*text, top.where + ": text_config"));
  if (config.vision || config.vit_tower)
    return unsupported("{}: text_config: expected a text model, got {}", where, config.model_type);
  const std::string_view name = architecture_of(object);
  const bool acts = name == kNames[0] || name == kNames[1];
  config.architecture = std::string(acts ? kNames[0] : kNames[2]);
  SLIP_TRY(config.model_type, top.text("model_type", acts ? kNames[1] : kNames[3]));
  if (top.has("torch_dtype") || top.has("dtype")) {
    SLIP_TRY(config.stored_dtype, top.text(top.either("torch_dtype", "dtype"), ""));
  }
  if (top.has("quantization_config")) {
    SLIP_TRY(config.quantization, read_quantization(top));
  }
  SLIP_TRY(config.vit_tower, read_towers(top, config.decoder.width));
  if (acts) {
    SLIP_TRY(config.action, read_action(top, config));
  }
  return config;
}

Result<std::vector<std::pair<std::string, ActionStatistics>>> read_action_statistics(const json::object& o,
                                                                                     std::string_view where) {
  std::vector<std::pair<std::string, ActionStatistics>> out;
  for (const auto& member : o) {
    const std::string at = fmt::format("{}: {}", where, std::string_view(member.key()).substr(0, 60));
    if (!member.value().is_object()) return bad_input("{}: expected an object, got {}", at, cut(member.value()));
    SLIP_TRY(const json::object* action, get_object(member.value().get_object(), "action", at));
    ActionStatistics s;
    SLIP_TRY(s.q01, percentiles(*action, "q01", at));
    SLIP_TRY(s.q99, percentiles(*action, "q99", at));
    s.mask.assign(s.q01.size(), true);
    if (const json::value* mask = action->if_contains("mask"); mask && !mask->is_null()) {
      const json::array* list = mask->if_array();
      if (!list || list->size() != s.q01.size() ||
          !std::all_of(list->begin(), list->end(), [](const auto& b) { return b.is_bool(); }))
        return bad_input("{}: mask: expected {} times true or false, got {}", at, s.q01.size(), cut(*mask));
      for (size_t i = 0; i < list->size(); ++i) s.mask[i] = (*list)[i].get_bool();
    }
    if (s.q99.size() != s.q01.size() || s.q01.empty())
      return bad_input("{}: expected as many q01 as q99, got {} and {}", at, s.q01.size(), s.q99.size());
    out.emplace_back(std::string(member.key()), std::move(s));
  }
  return out;
}

Result<const std::pair<std::string, ActionStatistics>*> choose_statistics(const ActionConfig& config, std::string_view key) {
  std::string known;
  for (const auto& one : config.statistics) {
    if (one.first == key || (key.empty() && config.statistics.size() == 1)) return &one;
    known += (known.empty() ? "" : ", ") + one.first;
  }
  if (known.empty()) return bad_input("actions: expected norm_stats in config.json or a dataset_statistics.json, got neither");
  return usage_error("--unnorm-key: expected one of {}, got {}", known, key.empty() ? "none" : key);
}

std::string openvla_prompt(ActionConfig::Prompt kind, std::string_view instruction) {
  for (const std::string_view frame : {"In: ", "A chat between ", "<|im_start|>"})
    if (instruction.starts_with(frame)) return std::string(instruction);
  const std::string lower = to_lower(instruction);
  switch (kind) {
    case ActionConfig::Prompt::kPure:
      return fmt::format("In: What action should the robot take to {}?\nOut:", lower);
    case ActionConfig::Prompt::kVicuna:
      return fmt::format(
          "A chat between a curious user and an artificial intelligence assistant. The assistant gives helpful, detailed, and "
          "polite "
          "answers to the user's questions. USER: What action should the robot take to {}? ASSISTANT:",
          lower);
    case ActionConfig::Prompt::kQwen:
      return fmt::format(
          "<|im_start|>system\nYou are Qwen, created by Alibaba Cloud. You are a helpful "
          "assistant.<|im_end|>\n<|im_start|>user\nWhat "
          "action should the robot take to {}?<|im_end|>\n<|im_start|>assistant",
          lower);
  }
  return lower;
}

std::string_view action_blank(ActionConfig::Prompt kind) { return kind == ActionConfig::Prompt::kQwen ? "\u010a" : "\u2581"; }

Result<DecodedAction> decode_action(const ActionConfig& config, std::span<const TokenId> tokens, std::string_view unnorm_key) {
  SLIP_TRY(const auto* chosen, choose_statistics(config, unnorm_key));
  DecodedAction out;
  out.unnorm_key = chosen->first;
  const size_t n = chosen->second.q01.size();
  if (tokens.size() < n)
    return bad_input("actions: expected {} tokens as {} has dimensions, got {}", n, chosen->first, tokens.size());
  out.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(n));
  const ActionBins bins(config.bound, config.bins);
  for (const TokenId id : out.tokens) {
    const ActionBins::Decoded d = bins.decode(id);
    out.normalized.push_back(d.action);
    out.is_action.push_back(d.is_action);
  }
  SLIP_TRY(out.values, unnormalise(out.normalized, chosen->second));
  return out;
}

}  // namespace slip
