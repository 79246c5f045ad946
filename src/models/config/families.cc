// SPDX-License-Identifier: Apache-2.0
// The table; what its columns mean is in families.h. Defaults: the library's configuration classes
// (docs/notes/checkpoints.md#missing-keys).
#include "models/config/families.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

namespace slip {
namespace {

using enum AttentionBias;
using enum WindowRule;

constexpr ConfigClass kLlama{.name = "LlamaConfig",
                             .model_type = "llama",
                             .vocab = 32000,
                             .width = 4096,
                             .mlp_width = 11008,
                             .layers = 32,
                             .heads = 32,
                             .kv_heads = 0,
                             .head_width = 0,
                             .norm_eps = 1e-6,
                             .theta = 1e4,
                             .max_positions = 2048,
                             .bias = kKey,
                             .mlp_bias = true,
                             .qk_norm = false,
                             .window_rule = kNever,
                             .window = 0,
                             .window_layers = 0,
                             .yarn = false,
                             .bos = 1,
                             .eos = 2};

constexpr ConfigClass mistral() {
  ConfigClass c = kLlama;
  c.name = "MistralConfig";
  c.model_type = "mistral";
  c.mlp_width = 14336;
  c.kv_heads = 8;
  c.max_positions = 131072;
  c.bias = kNone;
  c.mlp_bias = false;
  c.window_rule = kEveryLayer;
  c.window = 4096;
  return c;
}
constexpr ConfigClass kMistral = mistral();

constexpr ConfigClass ministral3() {
  ConfigClass c = kMistral;
  c.name = "Ministral3Config";
  c.model_type = "ministral3";
  c.vocab = 131072;
  c.layers = 34;
  c.head_width = 128;
  c.norm_eps = 1e-5;
  c.theta = 1e6;
  c.max_positions = 262144;
  c.window = 0;
  c.yarn = true;
  return c;
}
constexpr ConfigClass kMinistral3 = ministral3();

constexpr ConfigClass qwen2() {
  ConfigClass c = kLlama;
  c.name = "Qwen2Config";
  c.model_type = "qwen2";
  c.vocab = 151936;
  c.mlp_width = 22016;
  c.kv_heads = 32;
  c.max_positions = 32768;
  c.bias = kQkv;
  c.mlp_bias = false;
  c.window_rule = kFromLayer;
  c.window = 4096;
  c.window_layers = 28;
  c.bos = c.eos = -1;
  return c;
}
constexpr ConfigClass kQwen2 = qwen2();

constexpr ConfigClass qwen3() {
  ConfigClass c = kQwen2;
  c.name = "Qwen3Config";
  c.model_type = "qwen3";
  c.head_width = 128;
  c.bias = kKey;
  c.qk_norm = true;
  return c;
}
constexpr ConfigClass kQwen3 = qwen3();

constexpr ConfigClass qwen25_vl() {
  ConfigClass c = kQwen2;
  c.name = "Qwen2_5_VLTextConfig";
  c.model_type = "qwen2_5_vl_text";
  c.vocab = 152064;
  c.width = 8192;
  c.mlp_width = 29568;
  c.layers = 80;
  c.heads = 64;
  c.kv_heads = 8;
  c.norm_eps = 1e-5;
  c.theta = 1e6;
  c.window_layers = 80;
  return c;
}
constexpr ConfigClass kQwen25Vl = qwen25_vl();

constexpr std::array<const ConfigClass*, 6> kClasses = {&kLlama, &kMistral, &kMinistral3, &kQwen2, &kQwen3, &kQwen25Vl};

// docs/notes/block-diffusion.md#draft-rules
constexpr DraftDefaults kFastV2{.shift = true, .block_causal = true};
constexpr DraftDefaults kFastVl{.shift = true};
constexpr DraftDefaults kSdar{.block_causal = true, .block = 4, .mask = "<MASK>"};
constexpr DraftDefaults kNemotron{.mask_id = 100};

constexpr std::array kFamilies = {
    Family{"LlamaForCausalLM", "llama", "llama", &kLlama},
    Family{"LLaMAForCausalLM", "llama", "llama", &kLlama},  // as the first conversions spelled it
    Family{"MistralForCausalLM", "mistral", "mistral", &kMistral},
    Family{"Mistral3ForConditionalGeneration", "mistral3", "mistral3", &kMistral, Tower::kNotDone},
    Family{"Ministral3ForCausalLM", "ministral3", "ministral3", &kMinistral3},
    Family{"Qwen2ForCausalLM", "qwen2", "qwen2", &kQwen2},
    Family{"Qwen3ForCausalLM", "qwen3", "qwen3", &kQwen3},
    Family{"Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl", "qwen2_5_vl", &kQwen25Vl, Tower::kQwen25Vl},
    Family{"Fast_dLLM_QwenForCausalLM", "Fast_dLLM_Qwen", "fast_dllm_v2", &kQwen2, Tower::kNone, true, kFastV2},
    Family{"Fast_dVLMForConditionalGeneration", "fast_dvlm", "fast_dvlm", &kQwen25Vl, Tower::kQwen25Vl, true, kFastVl},
    Family{"Fast_dDriveForConditionalGeneration", "fast_ddrive", "fast_ddrive", &kQwen25Vl, Tower::kQwen25Vl, true, kFastVl},
    Family{"Fast_dLLM_Qwen2_5_VLForConditionalGeneration", "fast_dllm_qwen2_5_vl", "fast_ddrive", &kQwen25Vl, Tower::kQwen25Vl,
           true, kFastVl},
    Family{"SDARForCausalLM", "sdar", "sdar", &kQwen3, Tower::kNone, true, kSdar},
    Family{"NemotronLabsDiffusionModel", "nemotron_labs_diffusion", "nemotron_labs_diffusion", &kMinistral3, Tower::kNotDone, true,
           kNemotron},
};

// What people will point at, and why it is refused.
constexpr std::string_view kExperts = "a mixture of experts",
                           kQwen3Vl = "multimodal RoPE in interleaved sections and features added in several layers",
                           kQwen2Vl = "another vision tower", kSinks = "a mixture of experts and attention sinks",
                           kSoftcap = "logit softcaps and windows in every other layer",
                           kFull = "attention without any order, from a base without a cache";
constexpr std::array<std::pair<std::string_view, std::string_view>, 19> kNotDone = {{
    {"MixtralForCausalLM", kExperts},
    {"Qwen2MoeForCausalLM", kExperts},
    {"Qwen3MoeForCausalLM", kExperts},
    {"SDARMoeForCausalLM", kExperts},
    {"LLaDA2MoeModelLM", kExperts},
    {"DeepseekV2ForCausalLM", kExperts},
    {"DeepseekV3ForCausalLM", kExperts},
    {"Llama4ForConditionalGeneration", kExperts},
    {"Qwen3VLMoeForConditionalGeneration", kExperts},
    {"GptOssForCausalLM", kSinks},
    {"Gemma2ForCausalLM", kSoftcap},
    {"Gemma3ForCausalLM", "windows in five of six layers and other norms"},
    {"Qwen3VLForConditionalGeneration", kQwen3Vl},
    {"Qwen2VLForConditionalGeneration", kQwen2Vl},
    {"MinistralForCausalLM", "windows in some of the layers of a Mistral"},
    {"LLaDAModelLM", kFull},
    {"DreamModel", kFull},
    {"Phi3ForCausalLM", "fused projections and longrope"},
    {"CohereForCausalLM", "layers whose attention and MLP run side by side"},
}};

bool same_letters(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

}  // namespace

std::span<const Family> families() { return kFamilies; }

const Family* find_family(std::string_view architecture, std::string_view model_type) {
  const auto found = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& f) {
    return architecture.empty() ? same_letters(f.model_type, model_type) : f.architecture == architecture;
  });
  return found == kFamilies.end() ? nullptr : &*found;
}

const ConfigClass* find_config_class(std::string_view model_type) {
  for (const ConfigClass* c : kClasses)
    if (c->model_type == model_type) return c;
  return nullptr;
}

std::string_view why_not_done(std::string_view architecture) {
  for (const auto& [name, why] : kNotDone)
    if (name == architecture) return why;
  return {};
}

std::string supported_architectures() {
  std::string all;
  for (const Family& f : kFamilies) all += (all.empty() ? "" : ", ") + std::string(f.architecture);
  return all;
}

}  // namespace slip
