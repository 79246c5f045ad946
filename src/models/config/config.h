// SPDX-License-Identifier: Apache-2.0
// config.json of a Hugging Face folder -> what the decoder and the vision tower are. Missing keys take the defaults of the
// library's configuration class, per family (the table: families.h); both the flat and the nested (`text_config`) form are read,
// and the synonyms that releases differ in. What would change the numbers and is not done is refused by key (config_decoder.cc).
// How the checkpoint drafts (shift, context mask, block size, mask and null ids) is read, never assumed: keys `diffusion_shift`,
// `context_mask`, `bd_size` / `block_size`, `mask_token_id`, `null_token_id`; a family that is known for one rule sets the default.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/config/config_reader.h"
#include "models/config/families.h"
#include "models/config/vit_config.h"
#include "nn/decoder.h"
#include "text/tokenizer.h"

namespace slip {

struct VisionConfig {
  int32_t depth = 32, width = 3584, heads = 16, mlp_width = 3420, out_width = 3584;
  int32_t channels = 3, patch = 14, temporal_patch = 2, merge = 2, window = 112;
  std::vector<int32_t> full_attention_blocks = {7, 15, 23, 31};
  double tokens_per_second = 4;
  int32_t patch_numbers() const { return channels * temporal_patch * patch * patch; }
  int32_t head_width() const { return width / heads; }
};

struct ModelConfig {
  std::string architecture, model_type;  // as stored
  const Family* family = nullptr;        // never null after parsing
  std::string config_class;              // whose defaults missing keys take: "Qwen2Config"
  std::string quantization;              // quant_method of the stored matrices ("fp8"), or empty
  std::string stored_dtype;              // "bfloat16", or empty
  DecoderOptions decoder;
  int32_t max_positions = 0;
  std::optional<VisionConfig> vision;       // Qwen2.5-VL's tower
  std::optional<VitTowerConfig> vit_tower;  // plain ViTs (openvla.h, dino_qwen.h)
  std::optional<ActionConfig> action;       // answers with actions (openvla.h)
  std::optional<HistoryConfig> history;     // takes the ego history as a row (dino_qwen.h)
  std::optional<TokenId> image_token, video_token, vision_start, vision_end, bos;
  std::vector<TokenId> eos;
  std::vector<ConfigOption> options;  // everything above as it is in force, and where each came from
  std::vector<std::string> notes;     // what a person should know: a tower that is not read ...
};

/// `where` (the file) opens every message. kUnsupported names the architecture or option that this version does not do.
Result<ModelConfig> parse_model_config(const json::value& config, std::string_view where);
Result<ModelConfig> read_model_config(const std::filesystem::path& folder);
/// Mask and null ids that the config does not give, by the family's texts (`|<MASK>|` and `<|NULL|>`, SDAR: `<MASK>`), where the
/// tokenizer has them.
void resolve_draft_tokens(ModelConfig& config, const Tokenizer& tokenizer);

}  // namespace slip
