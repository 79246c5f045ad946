// SPDX-License-Identifier: Apache-2.0
#include "convert/synthesize_parts.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace slip {

float fan_in(int64_t k) { return 1 / std::sqrt(static_cast<float>(k)); }

void add_matrix(SyntheticTensors& out, const std::string& name, int64_t n, int64_t k, bool decoder) {
  out.push_back({name, {n, k}, 0, fan_in(k), decoder});
}
void add_gain(SyntheticTensors& out, const std::string& name, int64_t n) { out.push_back({name, {n}, 1, 0}); }
void add_bias(SyntheticTensors& out, const std::string& name, int64_t n) { out.push_back({name, {n}, 0, kSyntheticBias}); }
void add_linear(SyntheticTensors& out, const std::string& name, int64_t n, int64_t k) {
  add_matrix(out, name + ".weight", n, k, false);
  add_bias(out, name + ".bias", n);
}

void add_decoder(SyntheticTensors& out, const DecoderSizes& s, const std::string& prefix, bool qkv_bias) {
  const int64_t q = s.heads * s.head_width, kv = s.kv_heads * s.head_width;
  add_matrix(out, prefix + "embed_tokens.weight", s.vocab, s.width, false);
  for (int64_t i = 0; i < s.layers; ++i) {
    const std::string p = prefix + "layers." + std::to_string(i) + ".", a = p + "self_attn.", m = p + "mlp.";
    add_gain(out, p + "input_layernorm.weight", s.width);
    for (const auto& [name, n] : {std::pair{"q_proj", q}, {"k_proj", kv}, {"v_proj", kv}}) {
      add_matrix(out, a + name + ".weight", n, s.width);
      if (qkv_bias) add_bias(out, a + name + ".bias", n);
    }
    add_matrix(out, a + "o_proj.weight", s.width, q);
    add_gain(out, p + "post_attention_layernorm.weight", s.width);
    add_matrix(out, m + "gate_proj.weight", s.mlp, s.width);
    add_matrix(out, m + "up_proj.weight", s.mlp, s.width);
    add_matrix(out, m + "down_proj.weight", s.width, s.mlp);
  }
  add_gain(out, prefix + "norm.weight", s.width);
}

json::object decoder_keys(const DecoderSizes& s, double eps, int64_t positions) {
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

int64_t layers_of(const SynthesizeOptions& o, int64_t all) { return o.layers > 0 ? o.layers : all; }

}  // namespace slip
