// SPDX-License-Identifier: Apache-2.0
// See config_rope.h; the formulas are in kernels/rope.h.
#include "models/config/config_rope.h"

#include <array>
#include <optional>

namespace slip {
namespace {

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

// The library has no default for these: it fails where one is missing.
Result<double> required(const Keys& rope, std::string_view key, double low, double high) {
  if (!rope.has(key)) return bad_input("{}: {}: expected it beside this rope type, got none", rope.where, key);
  return rope.number(key, 0, low, high);
}

Result<RopeYarn> read_yarn(const Keys& rope, int32_t max_positions) {
  RopeYarn y;
  SLIP_TRY(y.factor, required(rope, "factor", 1e-3, 1e6));
  SLIP_TRY(y.original_max_position, rope.number("original_max_position_embeddings", max_positions, 1, 1e9));
  SLIP_TRY(y.beta_fast, rope.number("beta_fast", 32, 1e-6, 1e6));
  SLIP_TRY(y.beta_slow, rope.number("beta_slow", 1, 1e-6, 1e6));
  SLIP_TRY(y.mscale, optional_number(rope, "mscale"));
  SLIP_TRY(y.mscale_all_dim, optional_number(rope, "mscale_all_dim"));
  SLIP_TRY(y.attention_factor, optional_number(rope, "attention_factor"));
  SLIP_TRY(y.truncate, rope.flag("truncate", true));
  return y;
}

Result<RopeLlama3> read_llama3(const Keys& rope) {
  RopeLlama3 l;
  SLIP_TRY(l.factor, required(rope, "factor", 1e-3, 1e6));
  SLIP_TRY(l.low_freq_factor, required(rope, "low_freq_factor", 1e-6, 1e6));
  SLIP_TRY(l.high_freq_factor, required(rope, "high_freq_factor", 1e-6, 1e6));
  SLIP_TRY(l.original_max_position, required(rope, "original_max_position_embeddings", 1, 1e9));
  if (l.high_freq_factor <= l.low_freq_factor)
    return bad_input("{}: expected high_freq_factor above low_freq_factor, got {} and {}", rope.where, l.high_freq_factor,
                     l.low_freq_factor);
  return l;
}

Status read_scaling(const Keys& rope, std::string_view type, int32_t max_positions, DecoderOptions& decoder, RopeSpec& spec) {
  const double beta = rope.has("llama_4_scaling_beta") ? 1 : 0;
  if (type == "yarn") {
    SLIP_TRY(const RopeYarn yarn, read_yarn(rope, max_positions));
    SLIP_TRY(decoder.q_scale_beta, rope.number("llama_4_scaling_beta", 0, 0, 1e3));
    decoder.q_scale_positions = yarn.original_max_position;
    spec.scaling = yarn;
    return {};
  }
  if (beta != 0)
    return unsupported("{}: llama_4_scaling_beta: expected with rope type yarn alone, got it with {}", rope.where, cut(type));
  if (type == "llama3") {
    SLIP_TRY(spec.scaling, read_llama3(rope));
  } else if (type == "linear") {
    SLIP_TRY(const double factor, required(rope, "factor", 1e-3, 1e6));
    spec.scaling = RopeLinear{factor};
  } else if (type != "default" && type != "mrope") {
    return unsupported("{}: expected rope type default, mrope, linear, llama3 or yarn, got {}", rope.where, cut(type));
  }
  return {};
}

// What Ministral3Config means by no rope keys at all.
const json::object& ministral_rope() {
  static const json::object rope = {
      {"rope_type", "yarn"},        {"rope_theta", 1e6}, {"factor", 16.0}, {"original_max_position_embeddings", 16384},
      {"beta_fast", 32.0},          {"beta_slow", 1.0},  {"mscale", 1.0},  {"mscale_all_dim", 1.0},
      {"llama_4_scaling_beta", 0.1}};
  return rope;
}

}  // namespace

Result<RopeSpec> read_rope(const Keys& text, const ConfigClass& defaults, DecoderOptions& decoder, int32_t max_positions) {
  static const json::object kEmpty;
  RopeSpec spec;
  spec.width = decoder.head_width;
  const std::string_view name = text.either("rope_scaling", "rope_parameters");
  const bool given = text.has(name);
  const json::object* inner = defaults.yarn ? &ministral_rope() : &kEmpty;
  if (given) {
    SLIP_TRY(inner, get_object(text.object, name, text.where));
  }
  Keys rope{*inner, given ? text.where + ": " + std::string(name) : text.log ? text.log->defaults : text.where, text.log, "rope."};
  for (const char* per_layer : {"full_attention", "sliding_attention"})
    if (rope.has(per_layer))
      return unsupported("{}: expected one rotation for all layers, got one for each layer type ({})", rope.where, per_layer);
  if (rope.has("partial_rotary_factor")) {
    SLIP_TRY(const double part, rope.number("partial_rotary_factor", 1, 0, 1));
    if (part != 1)
      return unsupported("{}: partial_rotary_factor: expected heads that turn as a whole (1), got {}", rope.where, part);
  }
  SLIP_TRY(spec.theta, (rope.has("rope_theta") ? rope : text).number("rope_theta", defaults.theta, 1.0001, 1e15));
  SLIP_TRY(const std::string type, rope.text(rope.either("rope_type", "type"), "default"));
  if (rope.has("mrope_section")) {
    SLIP_TRY(const bool interleaved, rope.flag("mrope_interleaved", false));
    if (interleaved) return unsupported("{}: expected chunked sections, got mrope_interleaved", rope.where);
    SLIP_TRY(spec.sections, read_sections(rope, decoder.head_width));
    if (rope.log) rope.log->options.push_back({"rope.mrope_section", rope.object.at("mrope_section"), rope.where});
  }
  SLIP_TRY_(read_scaling(rope, type, max_positions, decoder, spec));
  return spec;
}

}  // namespace slip
