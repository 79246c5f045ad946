// SPDX-License-Identifier: Apache-2.0
// OpenVLA and MiniVLA [docs/notes/checkpoints.md#openvla]: config.json of the Hugging Face form (MiniVLA's after `slipstream
// convert`), prompts, and actions: tokens <-> normalised numbers <-> physical units.
//
// A checkpoint names its towers by timm's ids, which imply their sizes; an own key `timm_model_args` (one object per tower, timm's
// constructor arguments) overrides them, for sizes that no id has. Differs from the published decoder: an id that is no action is
// clipped as there, but the caller is told.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "models/config/config.h"

namespace slip {

/// Architectures OpenVLAForActionPrediction and PrismaticForConditionalGeneration (the same without actions), or their model_type.
bool is_openvla_config(const json::object& top);
/// The whole config.json. kUnsupported names a tower or activation that is not done here.
Result<ModelConfig> parse_openvla_config(const json::object& top, std::string_view where);

/// `norm_stats` of config.json, or a dataset_statistics.json, which overrides it (fine-tuned checkpoints).
Result<std::vector<std::pair<std::string, ActionStatistics>>> read_action_statistics(const json::object& o, std::string_view where);
/// The statistics of a data set; with an empty key the only ones. kUsage lists the keys.
Result<const std::pair<std::string, ActionStatistics>*> choose_statistics(const ActionConfig& config, std::string_view key);

/// The prompt of an instruction, as the checkpoint was trained (OpenVLA lowers the letters). Text that already has the prompt's
/// frame ("In: ", "A chat between ", "<|im_start|>") stays as it is. Without the last token that every answer starts behind
/// (action_blank).
std::string openvla_prompt(ActionConfig::Prompt kind, std::string_view instruction);
/// That token as the vocabulary spells it: the blank behind "Out:" that the tokenizer leaves alone, or ChatML's line break; empty:
/// none.
std::string_view action_blank(ActionConfig::Prompt kind);

struct DecodedAction {
  std::string unnorm_key;
  std::vector<TokenId> tokens;
  std::vector<double> normalized, values;  // -1 .. 1; physical units where the mask says so
  std::vector<bool> is_action;             // false: the id is none of the bins and was clipped
};
/// As many tokens as the statistics have dimensions.
Result<DecodedAction> decode_action(const ActionConfig& config, std::span<const TokenId> tokens, std::string_view unnorm_key);

}  // namespace slip
