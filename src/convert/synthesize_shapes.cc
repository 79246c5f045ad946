// SPDX-License-Identifier: Apache-2.0
// Which real shapes there are, as configuration files and lists of tensors (docs/notes/checkpoints.md#shapes).
#include "convert/synthesize_parts.h"

#include <fmt/ranges.h>

namespace slip {
namespace {

SyntheticModel nemotron(const SynthesizeOptions& o) {
  const DecoderSizes s = o.tiny ? DecoderSizes{1408, 48, layers_of(o, 2), 4, 2, 16, 144}
                                : DecoderSizes{131072, 3072, layers_of(o, 26), 32, 8, 128, 9216};
  json::object config{{"architectures", {"NemotronLabsDiffusionModel"}},
                      {"model_type", "nemotron_labs_diffusion"},
                      {"attention_bias", false},
                      {"attention_dropout", 0.0},
                      {"block_size", 32},
                      {"bos_token_id", 1},
                      {"eos_token_id", 11},
                      {"mask_token_id", 100},
                      {"dlm_paradigm", "bidirectional"},
                      {"head_dim", s.head_width},
                      {"mlp_bias", false}};
  put(config, decoder_keys(s, 1e-5, 262144));
  put(config, {{"rope_parameters",
                {{"rope_type", "yarn"},
                 {"type", "yarn"},
                 {"rope_theta", 1e6},
                 {"factor", 16.0},
                 {"original_max_position_embeddings", 16384},
                 {"beta_fast", 32.0},
                 {"beta_slow", 1.0},
                 {"mscale", 1.0},
                 {"mscale_all_dim", 1.0},
                 {"llama_4_scaling_beta", 0.1}}},
               {"sliding_window", nullptr},
               {"tie_word_embeddings", true},
               {"use_cache", false}});
  SyntheticModel m;
  m.tokenizer = SyntheticModel::Tokenizer::kTekken;
  m.vocab = static_cast<int32_t>(s.vocab);
  add_decoder(m.tensors, s, "encoder.", false);
  m.files.emplace_back("config.json", std::move(config));
  m.files.emplace_back("generation_config.json", json::object{{"bos_token_id", 1}, {"eos_token_id", 11}});
  return m;
}

struct Named {
  const char* name;
  SyntheticModel (*make)(const SynthesizeOptions&);
};
constexpr Named kShapes[] = {{"qwen2.5-vl-3b", synthetic_qwen_vl},
                             {"qwen2.5-0.5b", synthetic_qwen_text},
                             {"nemotron-3b", nemotron},
                             {"openvla-7b", synthetic_openvla}};

}  // namespace

std::vector<std::string> synthetic_shapes() {
  std::vector<std::string> all;
  for (const Named& s : kShapes) all.emplace_back(s.name);
  return all;
}

Result<SyntheticModel> synthetic_model(const SynthesizeOptions& o) {
  if (o.layers < 0 || o.layers > 1024) return usage_error("--layers: expected 0 (all) to 1024, got {}", o.layers);
  const std::string_view torch = o.dtype == "f32"                        ? "float32"
                                 : o.dtype == "f16"                      ? "float16"
                                 : o.dtype == "bf16" || o.dtype == "fp8" ? "bfloat16"
                                                                         : "";
  if (torch.empty())
    return unsupported("--dtype: expected bf16, f32, f16 or fp8 (`slipstream quantize` packs int8 and int4 from those), got {}",
                       o.dtype);
  for (const Named& s : kShapes) {
    if (o.like != s.name) continue;
    SyntheticModel m = s.make(o);
    json::object& config = m.files.front().second.as_object();
    config["torch_dtype"] = torch;
    if (o.dtype == "fp8")
      config["quantization_config"] = {
          {"quant_method", "fp8"}, {"fmt", "e4m3"}, {"activation_scheme", "dynamic"}, {"weight_block_size", {128, 128}}};
    return m;
  }
  return usage_error("--like: expected {}, got {}", fmt::join(synthetic_shapes(), ", "), o.like);
}

}  // namespace slip
