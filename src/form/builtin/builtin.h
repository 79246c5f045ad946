// SPDX-License-Identifier: Apache-2.0
// Built-in forms, each a JSON Schema document like any user's (`slipstream form NAME --schema` prints it).
//   wod-e2e  the answer that Fast-dDrive is trained on: 12 critical objects, explanation, behaviour, trajectory string
//            [Fast-dDrive, preprocessing and template; docs/notes/driving.md#fast-ddrive].
//   drive-cot  FastDriveCoT's reasoning as lines with a graph, meta-actions, five waypoints [docs/notes/driving.md#fastdrivecot].
//   openvla-action, minivla-action  seven action bins [docs/notes/checkpoints.md#openvla].
//   alpamayo-coc                    chain of causation, decisions, 128 trajectory ids [docs/notes/driving.md#alpamayo].
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "form/schema/schema.h"

namespace slip {

/// Defaults are Fast-dDrive's.
struct WodE2eOptions {
  int32_t explanation_budget = 192;  // 6 blocks of 32, NULL padded
  int32_t behaviour_budget = 3;      // NULL padded
  int32_t waypoints = 5;             // one per second
  int32_t block_size = 32;           // value positions per block
};

json::value wod_e2e_schema(const WodE2eOptions& options = {});

/// Budgets in tokens: a full answer is some 300 tokens, as the paper's are 300 to 500.
struct DriveCotOptions {
  int32_t condition_budget = 8;  // lighting, road condition, weather, junction, road type
  int32_t lanes_budget = 20;     // the enumeration of time ranges
  int32_t lane_budget = 12;      // one range
  int32_t objects_budget = 32;   // the enumeration of objects
  int32_t position_budget = 10;  // one object's
  int32_t type_budget = 6;
  int32_t justification_budget = 20;
  int32_t regulation_budget = 12;  // traffic light, traffic sign, additional regulation
  int32_t summary_budget = 32;     // traffic regulation, non-interactive, interactive
  int32_t ego_behavior_budget = 32;
  int32_t lanes = 3, objects = 4;  // instances of each enumeration
  bool absent = false;             // those that it does not name take no place at all; otherwise they say "N/A"
  int32_t waypoints = 5;           // one per second
  int32_t block_size = 32;         // value positions per block
  bool reasoning = true;           // false: the paper's baseline, meta-actions and trajectory alone
  int32_t codes = 0;               // above 0: in place of waypoints so many codes, each one of ...
  int32_t code_values = 0;         // ... so many tokens: <|code_0|>, <|code_1|>, ..
  std::string code_tokens = "code";
};
/// The token that stands for a code, as the vocabulary spells it.
std::string code_token(const DriveCotOptions& options, int32_t code);

/// Lines `label: content`: fields lighting .. ego_behavior, meta_action.longitudinal and .lateral, trajectory.0.0 .. trajectory.4.1
/// (or one field `trajectory` of codes).
json::value drive_cot_schema(const DriveCotOptions& options = {});
Result<CompiledForm> drive_cot_form(const FormTokens& tokens, const DriveCotOptions& options = {});

struct OpenVlaOptions {
  bool extra_tokens = false;  // MiniVLA: <|extra_0|> .. <|extra_255|>, instead of the last 256 ids of Llama 2's vocabulary
  int32_t dimensions = 7;     // x, y, z, roll, pitch, yaw, gripper
};

/// One field `action` of so many tokens; its value is as many normalised numbers, the middles of bins as OpenVLA decodes them.
/// The form's first token is the last one of the published prompts.
json::value openvla_action_schema(const OpenVlaOptions& options = {});
Result<CompiledForm> openvla_action_form(const FormTokens& tokens, const OpenVlaOptions& options = {});

struct AlpamayoOptions {
  int32_t cot_budget = 96;
  int32_t trajectory_ids = 128;    // 64 steps of (acceleration, curvature) at 10 Hz
  int32_t trajectory_vocab = 768;  // <i0> .. <i767>
  int32_t block_size = 32;
};

/// Fields cot, meta_action.longitudinal, meta_action.lateral (side by side), and `trajectory`: one field of 128 integers. The order
/// and the comma of the two decisions are ours: only their sets are published.
json::value alpamayo_coc_schema(const AlpamayoOptions& options = {});
Result<CompiledForm> alpamayo_coc_form(const FormTokens& tokens, const AlpamayoOptions& options = {});

/// Names of all built-ins, and a built-in's document with its default options; nothing for an unknown name.
std::span<const std::string_view> builtin_forms();
std::optional<json::value> builtin_schema(std::string_view name);

/// wod-e2e compiled for a tokenizer.
Result<CompiledForm> wod_e2e_form(const FormTokens& tokens, const WodE2eOptions& options = {});

}  // namespace slip
