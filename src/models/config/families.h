// SPDX-License-Identifier: Apache-2.0
// Which architecture takes which options: the table that config.cc reads by, `inspect` prints from and docs/families.md shows.
// A family is a configuration class of transformers (what missing keys mean, which biases and norms the layers have,
// whether a window can be in use) and, for checkpoints that draft, how they were trained to draft
// (docs/notes/block-diffusion.md#draft-rules).
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace slip {

/// Biases of the attention projections.
enum class AttentionBias : uint8_t {
  kQkv,  // q, k and v always, o never (Qwen2)
  kKey,  // q, k, v and o where `attention_bias` says so (Llama, Qwen3)
  kNone
};
/// Which layers a sliding window is in use in.
enum class WindowRule : uint8_t {
  kNever,
  kEveryLayer,  // where `sliding_window` is a number (Mistral)
  kFromLayer    // where `use_sliding_window`, in layers from `max_window_layers` on (Qwen)
};

/// A configuration class: sizes and options of a config.json that does not name them.
struct ConfigClass {
  std::string_view name;        // as the library calls it
  std::string_view model_type;  // of a text_config
  int32_t vocab, width, mlp_width, layers, heads;
  int32_t kv_heads;    // 0: heads
  int32_t head_width;  // 0: width / heads
  double norm_eps, theta;
  int32_t max_positions;
  AttentionBias bias;
  bool mlp_bias;  // the key `mlp_bias` is read
  bool qk_norm;
  WindowRule window_rule;
  int32_t window;         // of a config without the key `sliding_window`; 0: none
  int32_t window_layers;  // max_window_layers of a config without it
  bool yarn;              // without rope keys: YaRN x 16 over 16,384 positions, queries scaled by position (Ministral 3)
  int32_t bos, eos;       // of a config without these keys; -1: none
};

/// How a family drafts when its config does not say.
struct DraftDefaults {
  bool shift = false, block_causal = false;
  int32_t block = 32;
  std::string_view mask = "|<MASK>|", null_token = "<|NULL|>";  // the tokens' texts
  int32_t mask_id = -1;                                         // where the class has one; else found by text
};

enum class Tower : uint8_t {
  kNone,
  kQwen25Vl,
  kNotDone  // the folder has one that is not read: the text decoder alone works, images are refused
};

struct Family {
  std::string_view architecture;  // in `architectures`
  std::string_view model_type;
  std::string_view name;  // ours, for messages
  const ConfigClass* text;
  Tower tower = Tower::kNone;
  bool drafts = false;  // trained to; false: the defaults below are only a start for keys that a config may add
  DraftDefaults draft = {};
};

std::span<const Family> families();
/// By architecture where there is one, else by model type (letter case does not count there); null: none.
const Family* find_family(std::string_view architecture, std::string_view model_type);
/// The class of a nested text_config's model type; null: none of its own.
const ConfigClass* find_config_class(std::string_view model_type);
/// Why an architecture that is known is not done ("a mixture of experts"); empty: it is not known.
std::string_view why_not_done(std::string_view architecture);
/// The architectures that are done, in a line for messages.
std::string supported_architectures();

}  // namespace slip
