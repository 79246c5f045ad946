// SPDX-License-Identifier: Apache-2.0
// Built-in forms, each a JSON Schema document like any user's (`slipstream form NAME --json` prints it).
//   wod-e2e  the answer that Fast-dDrive is trained on: 12 critical objects, explanation, behaviour, trajectory string
//            [Fast-dDrive, preprocessing and template; reference/driving 3.2].
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "form/schema.h"

namespace slip {

/// Defaults are Fast-dDrive's.
struct WodE2eOptions {
  int32_t explanation_budget = 192;  // 6 blocks of 32, NULL padded
  int32_t behaviour_budget = 3;      // NULL padded
  int32_t waypoints = 5;             // one per second
  int32_t block_size = 32;           // value positions per block
};

json::value wod_e2e_schema(const WodE2eOptions& options = {});

/// Names of all built-ins, and a built-in's document with its default options; nothing for an unknown name.
std::span<const std::string_view> builtin_forms();
std::optional<json::value> builtin_schema(std::string_view name);

/// wod-e2e compiled for a tokenizer.
Result<CompiledForm> wod_e2e_form(const FormTokens& tokens, const WodE2eOptions& options = {});

}  // namespace slip
