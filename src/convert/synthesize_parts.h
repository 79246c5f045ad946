// SPDX-License-Identifier: Apache-2.0
// Inside of convert/: what synthetic folders of all families are made of.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "convert/synthesize.h"

namespace slip {

using SyntheticTensors = std::vector<SyntheticTensor>;

constexpr float kSyntheticBias = 0.02F;  // the released models' initialiser
/// Deviation of a matrix of k columns.
float fan_in(int64_t k);

void add_matrix(SyntheticTensors& out, const std::string& name, int64_t n, int64_t k, bool decoder = true);
void add_gain(SyntheticTensors& out, const std::string& name, int64_t n);
void add_bias(SyntheticTensors& out, const std::string& name, int64_t n);
/// <name>.weight and <name>.bias.
void add_linear(SyntheticTensors& out, const std::string& name, int64_t n, int64_t k);

/// The decoder's sizes; tiny ones keep every ratio that code may depend on (grouped heads, tied head, several layers).
struct DecoderSizes {
  int64_t vocab, width, layers, heads, kv_heads, head_width, mlp;
};
void add_decoder(SyntheticTensors& out, const DecoderSizes& s, const std::string& prefix, bool qkv_bias);
json::object decoder_keys(const DecoderSizes& s, double eps, int64_t positions);

/// All keys of `from`, in its order, behind or over those of `into`.
void put(json::object& into, const json::object& from);

/// Decoder layers asked for, or all.
int64_t layers_of(const SynthesizeOptions& o, int64_t all);
/// The depth of a tower beside as many layers of `decoder_layers` as asked for.
int64_t thinned(int64_t depth, const SynthesizeOptions& o, int64_t decoder_layers);

SyntheticModel synthetic_qwen_vl(const SynthesizeOptions& o);
SyntheticModel synthetic_qwen_text(const SynthesizeOptions& o);
SyntheticModel synthetic_openvla(const SynthesizeOptions& o);

}  // namespace slip
