// SPDX-License-Identifier: Apache-2.0
// Words of a request as the parts that the engine works with: which decoder, under which visibility, with which fit.
#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "models/config/vit_config.h"
#include "plan/fit.h"
#include "slipstream/request.h"

namespace slip::api {

/// The preset with the parts that are named in place of its own; `auto` without either. Parts without a preset are parts of that for
/// visibility and the model's abilities: fields-spec, scaffold-spec, self-spec, or without a mask token fields, scaffold-ar, ar.
/// Words are checked with or without an engine. `visibility`: what is decoded by; none: the model's own.
Result<Method> method_from(const slipstream::DecoderChoice& choice, std::optional<Visibility> visibility, Engine* engine,
                           bool form);
/// The request's decoder; its drafter is the earlier answer that the request brings, if it brings one. kUsage where it names another too.
Result<slipstream::DecoderChoice> decoder_of(const slipstream::Request& request);
/// Are the words some decoder's? What they mean for a model is seen when there is one.
Status check_words(const slipstream::DecoderChoice& choice);

/// "chain", "graph"; nothing for an empty word.
Result<std::optional<Visibility>> visibility_named(std::string_view word);
std::string_view word_of(Visibility visibility);
Result<std::optional<Fit>> fit_named(std::string_view word);

/// config.json of a model folder; nothing where that cannot be read: loading says why.
std::optional<json::object> config_of(const std::string& folder);
/// Whether a model acts and how, by its config.json; an error where loading will say the same. Prismatic's is OpenVLA's without actions.
Result<std::optional<ActionConfig>> action_of(const json::object& config);
/// The form that a model of actions answers in: "minivla-action" with the prompt of Qwen's, else "openvla-action".
std::string_view form_of_actions(const ActionConfig& action);
/// What the folder was trained for, by its config.json alone; nothing where that cannot be read.
std::optional<Visibility> visibility_of_folder(const std::string& folder);

/// The request, with free text for a form "model" where the folder has none of its own (own_form).
slipstream::Request with_form(const slipstream::Request& request, std::string_view own_form);

}  // namespace slip::api
