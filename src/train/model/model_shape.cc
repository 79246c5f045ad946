// SPDX-License-Identifier: Apache-2.0
// Shapes from config.json and the flat parameter table; contracts in model_shape.h.
#include "train/model/model_shape.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "models/config/config.h"
#include "models/config/dino_qwen.h"
#include "models/config/openvla.h"
#include "models/vision/vit.h"

namespace slip {
namespace {

/// nullptr where there is none; a null counts as none.
Result<const json::object*> object_at(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (v == nullptr || v->is_null()) return static_cast<const json::object*>(nullptr);
  return get_object(o, key, where);
}

// Products of two sizes and a layer count fit 63 bits; no model is near either bound.
constexpr int64_t kMostSize = int64_t{1} << 24, kMostLayers = 4096;

Status in_range(int64_t n, std::string_view key, std::string_view where) {
  const int64_t most = key == "num_hidden_layers" || key == "depth" ? kMostLayers : kMostSize;
  if (n < 1) return bad_input("{}: {}: expected at least 1, got {}", where, key, n);
  if (n > most) return bad_input("{}: {}: expected at most {}, got {}", where, key, most, n);
  return {};
}

Result<std::vector<int32_t>> small_integers(const json::object& o, std::string_view key, std::string_view where) {
  SLIP_TRY(const json::array* list, get_array(o, key, where));
  std::vector<int32_t> out;
  for (const json::value& v : *list) {
    if (!v.is_int64() || v.get_int64() < 0 || v.get_int64() > kMostSize)
      return bad_input("{}: {}: expected integers from 0 to {}, got {}", where, key, kMostSize, json::serialize(v).substr(0, 40));
    out.push_back(static_cast<int32_t>(v.get_int64()));
  }
  return out;
}

Result<VisionTowerShape> vision_of(const json::object& v, std::string_view where) {
  VisionTowerShape c;
  const auto read = [&](std::string_view key, int32_t& to, int64_t other) -> Status {
    SLIP_TRY(const int64_t n, other >= 0 ? int_or(v, key, other, where) : get_int(v, key, where));
    SLIP_TRY_(in_range(n, key, fmt::format("{}: vision_config", where)));
    to = static_cast<int32_t>(n);
    return {};
  };
  SLIP_TRY_(read("depth", c.depth, -1));
  SLIP_TRY_(read("hidden_size", c.hidden, -1));
  SLIP_TRY_(read("num_heads", c.heads, -1));
  SLIP_TRY_(read("intermediate_size", c.ffn, -1));
  SLIP_TRY_(read("out_hidden_size", c.out, -1));
  SLIP_TRY_(read("patch_size", c.patch, 14));
  SLIP_TRY_(read("temporal_patch_size", c.temporal, 2));
  SLIP_TRY_(read("spatial_merge_size", c.merge, 2));
  SLIP_TRY_(read("window_size", c.window, 112));
  SLIP_TRY_(read(v.contains("in_chans") ? "in_chans" : "in_channels", c.channels, 3));
  if (c.hidden % (4 * c.heads) != 0)
    return bad_input("{}: vision_config.hidden_size: expected a multiple of 4 num_heads = {}, got {}", where, 4 * c.heads,
                     c.hidden);
  if (v.contains("fullatt_block_indexes")) {
    SLIP_TRY(c.full_layers, small_integers(v, "fullatt_block_indexes", where));
  }
  return c;
}

/// True where the sections are told; otherwise every pair of a head follows t.
Result<bool> read_rope(const json::object& text, ModelShape& s, std::string_view where) {
  bool told = false;
  s.mrope = {s.head_dim / 2, 0, 0};
  for (const std::string_view key : {"rope_parameters", "rope_scaling"}) {
    SLIP_TRY(const json::object* rope, object_at(text, key, where));
    if (rope == nullptr) continue;
    SLIP_TRY(s.rope_theta, number_or(*rope, "rope_theta", s.rope_theta, where));
    if (!rope->contains("mrope_section")) continue;
    SLIP_TRY(const std::vector<int32_t> sections, small_integers(*rope, "mrope_section", where));
    if (sections.size() != 3) return bad_input("{}: mrope_section: expected 3 numbers, got {}", where, sections.size());
    std::copy_n(sections.begin(), 3, s.mrope.begin());
    told = true;
  }
  if (s.mrope[0] + s.mrope[1] + s.mrope[2] != s.head_dim / 2)
    return bad_input("{}: mrope_section: expected a sum of {}, got {}", where, s.head_dim / 2,
                     s.mrope[0] + s.mrope[1] + s.mrope[2]);
  return told;
}

/// Inverse frequencies and the factor of YaRN [Peng et al.] in double; docs in kernels/rope.h.
void read_yarn(const RopeYarn& y, double theta, ModelShape& s) {
  const double d = s.head_dim, pi = std::numbers::pi;
  const auto pair_of = [&](double turns) {
    return d * std::log(y.original_max_position / (turns * 2 * pi)) / (2 * std::log(theta));
  };
  double low = pair_of(y.beta_fast), high = pair_of(y.beta_slow);
  if (y.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  s.rotary.clear();
  for (int32_t i = 0; i < s.head_dim / 2; ++i) {
    const double plain = std::pow(theta, -2.0 * i / d), ramp = std::clamp((i - low) / (high - low), 0.0, 1.0);
    s.rotary.push_back(plain / y.factor * ramp + plain * (1 - ramp));
  }
  const auto scale = [&](double m) { return y.factor <= 1 ? 1.0 : 0.1 * m * std::log(y.factor) + 1; };
  const double all = y.mscale_all_dim.value_or(0);
  s.rotary_factor = y.attention_factor                      ? *y.attention_factor
                    : y.mscale.value_or(0) != 0 && all != 0 ? scale(*y.mscale) / scale(all)
                                                            : scale(1);
}

/// What the engine reads of a decoder, in the trainer's terms; sizes apart.
Status read_decoder(const DecoderOptions& d, ModelShape& s, std::string_view where) {
  if (d.o_bias || d.mlp_bias || d.window > 0)
    return unsupported("{}: expected a decoder without output biases and sliding windows to train, got one with", where);
  s.qkv_bias = d.qkv_bias;
  s.qk_norm = d.qk_norm;
  s.tied = d.tied_head;
  s.q_scale_beta = d.q_scale_beta;
  s.q_scale_positions = d.q_scale_positions;
  s.rope_theta = d.rope.theta;
  if (const auto* yarn = std::get_if<RopeYarn>(&d.rope.scaling))
    read_yarn(*yarn, d.rope.theta, s);
  else if (!std::holds_alternative<RopeDefault>(d.rope.scaling))
    return unsupported("{}: expected plain rotary positions or YaRN to train, got another scaling", where);
  return {};
}

/// Families beside Qwen2's.
Status read_family(const json::object& config, ModelShape& s, std::string_view where) {
  SLIP_TRY(const std::string type, string_or(config, "model_type", "qwen2", where));
  if (type != "qwen3" && type != "ministral3" && type != "llama" && type != "mistral") return {};
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, std::string(where)));
  return read_decoder(parsed.decoder, s, where);
}

/// Lays parameters side by side; a group starts at a multiple of 16 numbers (64 bytes of f32).
class Layout {
 public:
  explicit Layout(ParameterTable& table) : table_(table) {}
  /// One tensor, or several stacked along the first dimension.
  Group add(const std::vector<std::string>& names, const std::vector<std::vector<int64_t>>& shapes, InitKind init,
            double scale = 1) {
    table_.size = (table_.size + 15) / 16 * 16;
    Group g{table_.size, 0, 0};
    for (size_t i = 0; i < names.size(); ++i) {
      int64_t count = 1;
      for (const int64_t n : shapes[i]) count *= n;
      table_.parameters.push_back({names[i], shapes[i], table_.size, count, init, scale});
      table_.size += count;
      g.rows += shapes[i][0];
      g.columns = shapes[i].size() == 1 ? 0 : count / shapes[i][0];
    }
    return g;
  }
  Group vector(const std::string& name, int64_t n, InitKind init) { return add({name}, {{n}}, init); }
  Group matrix(const std::string& name, int64_t rows, int64_t columns, double scale = 1) {
    return add({name}, {{rows, columns}}, InitKind::kNormal, scale);
  }

 private:
  ParameterTable& table_;
};

BlockGroups text_block(Layout& l, const ModelShape& s, const std::string& p) {
  const int64_t D = s.hidden, q = int64_t{s.heads} * s.head_dim, kv = int64_t{s.kv_heads} * s.head_dim, F = s.ffn;
  const double residual = 1 / std::sqrt(2.0 * s.layers);
  const std::string a = p + "self_attn.", m = p + "mlp.";
  BlockGroups g;
  g.norm1 = l.vector(p + "input_layernorm.weight", D, InitKind::kOne);
  g.qkv = l.add({a + "q_proj.weight", a + "k_proj.weight", a + "v_proj.weight"}, {{q, D}, {kv, D}, {kv, D}}, InitKind::kNormal);
  if (s.qkv_bias) g.qkv_bias = l.add({a + "q_proj.bias", a + "k_proj.bias", a + "v_proj.bias"}, {{q}, {kv}, {kv}}, InitKind::kZero);
  if (s.qk_norm) g.q_norm = l.vector(a + "q_norm.weight", s.head_dim, InitKind::kOne);
  if (s.qk_norm) g.k_norm = l.vector(a + "k_norm.weight", s.head_dim, InitKind::kOne);
  g.out = l.matrix(a + "o_proj.weight", D, q, residual);
  g.norm2 = l.vector(p + "post_attention_layernorm.weight", D, InitKind::kOne);
  g.gate_up = l.add({m + "gate_proj.weight", m + "up_proj.weight"}, {{F, D}, {F, D}}, InitKind::kNormal);
  g.down = l.matrix(m + "down_proj.weight", D, F, residual);
  return g;
}

BlockGroups vision_block(Layout& l, const VisionTowerShape& v, const std::string& p) {
  const int64_t D = v.hidden, F = v.ffn;
  const double residual = 1 / std::sqrt(2.0 * v.depth);
  BlockGroups g;
  g.norm1 = l.vector(p + "norm1.weight", D, InitKind::kOne);
  g.qkv = l.matrix(p + "attn.qkv.weight", 3 * D, D);
  g.qkv_bias = l.vector(p + "attn.qkv.bias", 3 * D, InitKind::kZero);
  g.out = l.matrix(p + "attn.proj.weight", D, D, residual);
  g.out_bias = l.vector(p + "attn.proj.bias", D, InitKind::kZero);
  g.norm2 = l.vector(p + "norm2.weight", D, InitKind::kOne);
  g.gate_up = l.add({p + "mlp.gate_proj.weight", p + "mlp.up_proj.weight"}, {{F, D}, {F, D}}, InitKind::kNormal);
  g.gate_up_bias = l.add({p + "mlp.gate_proj.bias", p + "mlp.up_proj.bias"}, {{F}, {F}}, InitKind::kZero);
  g.down = l.matrix(p + "mlp.down_proj.weight", D, F, residual);
  g.down_bias = l.vector(p + "mlp.down_proj.bias", D, InitKind::kZero);
  return g;
}

void vision_tower(ParameterTable& t, Layout& l, const VisionTowerShape& v) {
  const std::string p = "model.visual.";
  const int64_t D = v.hidden, merged = D * v.merge * v.merge;
  t.patch_embed = l.add({p + "patch_embed.proj.weight"}, {{D, v.channels, v.temporal, v.patch, v.patch}}, InitKind::kNormal);
  for (int32_t i = 0; i < v.depth; ++i) t.vision.push_back(vision_block(l, v, p + "blocks." + std::to_string(i) + "."));
  t.merger_norm = l.vector(p + "merger.ln_q.weight", D, InitKind::kOne);
  t.merger_up = l.matrix(p + "merger.mlp.0.weight", merged, merged);
  t.merger_up_bias = l.vector(p + "merger.mlp.0.bias", merged, InitKind::kZero);
  t.merger_down = l.matrix(p + "merger.mlp.2.weight", v.out, merged);
  t.merger_down_bias = l.vector(p + "merger.mlp.2.bias", v.out, InitKind::kZero);
}

VitBlockGroups vit_block(Layout& l, const VitConfig& v, const VitNames& names, const std::string& p) {
  const int64_t D = v.width, F = v.mlp_width, up = (v.swiglu ? 2 : 1) * F, each = 3 * D / static_cast<int64_t>(names.qkv.size());
  const double residual = 1 / std::sqrt(2.0 * v.depth);
  std::vector<std::string> qkv, qkv_bias;
  for (const std::string& name : names.qkv) {
    qkv.push_back(p + name + ".weight");
    qkv_bias.push_back(p + name + ".bias");
  }
  VitBlockGroups g;
  g.norm1 = l.vector(p + "norm1.weight", D, InitKind::kOne);
  g.norm1_bias = l.vector(p + "norm1.bias", D, InitKind::kZero);
  g.qkv = l.add(qkv, {qkv.size(), {each, D}}, InitKind::kNormal);
  g.qkv_bias = l.add(qkv_bias, {qkv.size(), {each}}, InitKind::kZero);
  g.out = l.matrix(p + names.proj + ".weight", D, D, residual);
  g.out_bias = l.vector(p + names.proj + ".bias", D, InitKind::kZero);
  if (v.layer_scale) g.scale1 = l.vector(p + names.scale1, D, InitKind::kOne);
  g.norm2 = l.vector(p + "norm2.weight", D, InitKind::kOne);
  g.norm2_bias = l.vector(p + "norm2.bias", D, InitKind::kZero);
  g.up = l.matrix(p + names.up + ".weight", up, D);
  g.up_bias = l.vector(p + names.up + ".bias", up, InitKind::kZero);
  g.down = l.matrix(p + names.down + ".weight", D, F, residual);
  g.down_bias = l.vector(p + names.down + ".bias", D, InitKind::kZero);
  if (v.layer_scale) g.scale2 = l.vector(p + names.scale2, D, InitKind::kOne);
  return g;
}

VitGroups vit(Layout& l, const VitConfig& v) {
  const int64_t D = v.width, positions = int64_t{v.grid_rows} * v.grid_columns + (v.cls_has_position ? 1 : 0);
  const VitNames names = vit_names(v);
  VitGroups g;
  if (v.cls) g.cls = l.add({v.prefix + names.cls}, {{1, 1, D}}, InitKind::kNormal);
  if (v.registers > 0) g.registers = l.add({v.prefix + names.registers}, {{1, v.registers, D}}, InitKind::kNormal);
  g.positions = l.add({v.prefix + names.positions}, {{1, positions, D}}, InitKind::kNormal);
  g.patch = l.add({v.prefix + names.patch + ".weight"}, {{D, v.channels, v.patch, v.patch}}, InitKind::kNormal);
  g.patch_bias = l.vector(v.prefix + names.patch + ".bias", D, InitKind::kZero);
  for (int32_t i = 0; i < v.used_depth; ++i)
    g.blocks.push_back(vit_block(l, v, names, fmt::format("{}{}{}.", v.prefix, names.block, i)));
  if (!v.final_norm) return g;
  g.norm = l.vector(v.prefix + names.norm + ".weight", D, InitKind::kOne);
  g.norm_bias = l.vector(v.prefix + names.norm + ".bias", D, InitKind::kZero);
  return g;
}

/// models/config/dino_qwen.h and models/vision/vit.h name the tensors.
void add_front(FrontGroups& g, Layout& l, const ModelShape& s) {
  for (const VitConfig& v : s.vit->vits) g.vits.push_back(vit(l, v));
  for (const VitTowerConfig::Layer& p : s.vit->projector) {
    g.projector.push_back(l.matrix(p.name + ".weight", p.out, p.in));
    g.projector_bias.push_back(l.vector(p.name + ".bias", p.out, InitKind::kZero));
  }
  if (!s.history) return;
  g.history1 = l.matrix("history.fc1.weight", s.history->hidden, s.history->numbers());
  g.history1_bias = l.vector("history.fc1.bias", s.history->hidden, InitKind::kZero);
  g.history2 = l.matrix("history.fc2.weight", s.hidden, s.history->hidden);
  g.history2_bias = l.vector("history.fc2.bias", s.hidden, InitKind::kZero);
}

/// Plain ViTs in front of a text model, whose configuration may leave out all that its class sets: sizes are those that the engine reads.
Result<ModelShape> vit_shape(const json::object& config, std::string_view where) {
  SLIP_TRY(const ModelConfig parsed, parse_model_config(config, std::string(where)));
  const DecoderOptions& d = parsed.decoder;
  ModelShape s{.hidden = d.width,
               .layers = d.layers,
               .heads = d.heads,
               .kv_heads = d.kv_heads,
               .head_dim = d.head_width,
               .ffn = d.mlp_width,
               .vocab = d.vocab,
               .eps = static_cast<double>(d.norm_eps),
               .mrope = {d.head_width / 2, 0, 0},
               .image_token = parsed.image_token.value_or(TokenId{-1}).value,
               .vit = parsed.vit_tower,
               .history = parsed.history};
  SLIP_TRY_(read_decoder(d, s, where));
  SLIP_TRY(const json::object* text, object_at(config, "text_config", where));
  if (text != nullptr) {  // in double, where it stands there
    SLIP_TRY(s.eps, number_or(*text, "rms_norm_eps", s.eps, where));
  }
  SLIP_TRY(const int64_t mask, int_or(config, "mask_token_id", -1, where));
  s.mask_token = static_cast<int32_t>(mask);
  return s;
}

}  // namespace

VisionShape ModelShape::vision_rows() const {
  if (vision) return vision->rows();
  VisionShape out;
  if (!vit) return out;
  out.plain.emplace().pool = vit->pool;
  out.patch_numbers = 0;
  for (const VitConfig& v : vit->vits) {
    out.plain->front.push_back(v.prefix_rows());
    out.patch_numbers += v.patch_numbers();
  }
  return out;
}

Result<ModelShape> ModelShape::from_config(const json::object& config, std::string_view where) {
  if (is_dino_qwen_config(config) || is_openvla_config(config)) return vit_shape(config, where);
  SLIP_TRY(const json::object* nested, object_at(config, "text_config", where));
  const json::object& text = nested != nullptr ? *nested : config;
  ModelShape s;
  const auto read = [&](std::string_view key, int32_t& to, int64_t other) -> Status {
    SLIP_TRY(const int64_t n, other != 0 ? int_or(text, key, other, where) : get_int(text, key, where));
    SLIP_TRY_(in_range(n, key, where));
    to = static_cast<int32_t>(n);
    return {};
  };
  SLIP_TRY_(read("hidden_size", s.hidden, 0));
  SLIP_TRY_(read("num_hidden_layers", s.layers, 0));
  SLIP_TRY_(read("num_attention_heads", s.heads, 0));
  SLIP_TRY_(read("num_key_value_heads", s.kv_heads, s.heads));
  SLIP_TRY_(read("head_dim", s.head_dim, s.hidden / s.heads));
  SLIP_TRY_(read("intermediate_size", s.ffn, 0));
  SLIP_TRY_(read("vocab_size", s.vocab, 0));
  if (s.heads % s.kv_heads != 0)
    return bad_input("{}: num_attention_heads: expected a multiple of num_key_value_heads {}, got {}", where, s.kv_heads, s.heads);
  if (s.head_dim % 2 != 0) return bad_input("{}: head_dim: expected an even number, got {}", where, s.head_dim);
  SLIP_TRY(s.eps, number_or(text, "rms_norm_eps", 1e-6, where));
  SLIP_TRY(s.rope_theta, number_or(text, "rope_theta", 1e4, where));
  SLIP_TRY(const bool sections, read_rope(text, s, where));
  SLIP_TRY(s.tied, bool_or(text.contains("tie_word_embeddings") ? text : config, "tie_word_embeddings", false, where));
  SLIP_TRY_(read_family(config, s, where));
  SLIP_TRY(const int64_t mask, int_or(config, "mask_token_id", -1, where));
  SLIP_TRY(const int64_t image, int_or(config, "image_token_id", -1, where));
  s.mask_token = static_cast<int32_t>(mask);
  s.image_token = static_cast<int32_t>(image);
  SLIP_TRY(const json::object* vision, object_at(config, "vision_config", where));
  if (vision != nullptr) {
    SLIP_TRY(s.vision, vision_of(*vision, where));
    if (s.vision->out != s.hidden)
      return bad_input("{}: vision_config.out_hidden_size: expected hidden_size {}, got {}", where, s.hidden, s.vision->out);
    if (!sections)  // as models/config/config.cc: the patches of an image would stand in one place
      return bad_input("{}: mrope_section: expected three counts among the rope keys beside vision_config, got none", where);
  }
  return s;
}

ParameterTable ParameterTable::of(const ModelShape& s) {
  ParameterTable t;
  Layout l(t);
  const std::string own = s.vit ? "language_model." : "", p = own + (s.vision ? "model.language_model." : "model.");
  if (s.vision) vision_tower(t, l, *s.vision);
  if (s.vit) add_front(t.front, l, s);
  t.embed = l.matrix(p + "embed_tokens.weight", s.vocab, s.hidden);
  for (int32_t i = 0; i < s.layers; ++i) t.layers.push_back(text_block(l, s, p + "layers." + std::to_string(i) + "."));
  t.norm = l.vector(p + "norm.weight", s.hidden, InitKind::kOne);
  t.head = s.tied ? t.embed : l.matrix(own + "lm_head.weight", s.vocab, s.hidden);
  t.size = (t.size + 15) / 16 * 16;
  return t;
}

std::vector<std::pair<int64_t, int64_t>> ParameterTable::runs_of(std::span<const std::string> prefixes) const {
  std::vector<std::pair<int64_t, int64_t>> out;
  for (const Parameter& p : parameters) {
    if (std::none_of(prefixes.begin(), prefixes.end(), [&](const std::string& f) { return p.name.starts_with(f); })) continue;
    if (!out.empty() && out.back().second == p.offset)
      out.back().second += p.count;
    else
      out.emplace_back(p.offset, p.offset + p.count);
  }
  return out;
}

}  // namespace slip
