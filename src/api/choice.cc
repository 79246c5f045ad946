// SPDX-License-Identifier: Apache-2.0
// See choice.h; and own_form of slipstream/engine.h.
#include "api/choice.h"

#include <filesystem>

#include "decode/types/method.h"
#include "decode/types/presets.h"
#include "decode/types/usual_preset.h"
#include "models/config/openvla.h"
#include "slipstream/engine.h"
#include "task/prompt.h"

namespace slip::api {

namespace {

// What parts that are named replace the parts of.
std::string_view default_preset(Engine* engine, std::optional<Visibility> visibility, bool form) {
  const bool drafts = !engine || engine->model().lm().info().rule.has_mask;
  if (!visibility && engine) visibility = engine->visibility();
  return usual_preset(form, visibility == Visibility::kGraph, drafts);
}

/// A head that lies in the model's folder under its usual name is the model's own: it drafts where no other is named.
void take_own_head(Method& m, const Engine& engine) {
  auto* head = std::get_if<DFlashSpec>(&m.drafter);
  if (head && head->name.empty()) head->name = own_head_folder(engine);
}

}  // namespace

Result<Method> method_from(const slipstream::DecoderChoice& c, std::optional<Visibility> visibility, Engine* engine, bool form) {
  const bool parts = !(c.schedule.empty() && c.drafter.empty() && c.verifier.empty() && c.width.empty());
  if (c.preset.empty() && !parts) return method_of(kAutomatic);
  SLIP_TRY(Method m, method_of(c.preset.empty() ? default_preset(engine, visibility, form) : c.preset));
  SLIP_TRY(m, with_parts(std::move(m), c.schedule, c.drafter, c.verifier, c.width));
  if (engine) take_own_head(m, *engine);
  return m;
}

Result<slipstream::DecoderChoice> decoder_of(const slipstream::Request& r) {
  slipstream::DecoderChoice out = r.decoder;
  if (r.previous_answer.empty()) return out;
  if (!out.drafter.empty()) return usage_error("previous_answer: expected no other drafter, got {}", out.drafter);
  out.drafter = "previous:earlier answer";
  return out;
}

Status check_words(const slipstream::DecoderChoice& choice) {
  auto m = method_from(choice, {}, nullptr, true);
  if (!m && m.error().kind == ErrorKind::kUsage) return m.error();
  return {};
}

Result<std::optional<Visibility>> visibility_named(std::string_view word) {
  if (word.empty()) return std::optional<Visibility>{};
  if (word == "chain") return std::optional(Visibility::kChain);
  if (word == "graph") return std::optional(Visibility::kGraph);
  return usage_error("visibility: expected chain or graph, got {}", word);
}

std::string_view word_of(Visibility visibility) { return visibility == Visibility::kGraph ? "graph" : "chain"; }

Result<std::optional<Fit>> fit_named(std::string_view word) {
  if (word == "auto") return std::nullopt;
  if (word == "paper") return std::optional(Fit::kJmtPaperCompat);
  if (word == "minjerk") return std::optional(Fit::kMinJerkV0);
  if (word == "rounded") return std::optional(Fit::kRounded);
  if (word == "linear") return std::optional(Fit::kLinear);
  return usage_error("fit: expected auto, paper, minjerk, rounded or linear, got {}", word);
}

std::optional<json::object> config_of(const std::string& folder) {
  auto config = read_json(std::filesystem::path(folder) / "config.json");
  if (!config || !config->is_object()) return std::nullopt;
  return std::move(config->get_object());
}

std::string_view form_of_actions(const ActionConfig& action) {
  return action.prompt == ActionConfig::Prompt::kQwen ? "minivla-action" : "openvla-action";
}

std::optional<Visibility> visibility_of_folder(const std::string& folder) {
  const auto config = config_of(folder);
  if (!config) return std::nullopt;
  const auto task = task_options(*config, "config.json");
  if (!task) return std::nullopt;
  return task->visibility;
}

Result<std::optional<ActionConfig>> action_of(const json::object& config) {
  if (!is_openvla_config(config)) return std::optional<ActionConfig>();
  SLIP_TRY(ModelConfig parsed, parse_openvla_config(config, "config.json"));
  return std::move(parsed.action);
}

slipstream::Request with_form(const slipstream::Request& request, std::string_view own_form) {
  slipstream::Request out = request;
  if (own_form == "none" && out.form == "model" && out.form_schema.empty()) out.form = "none";
  return out;
}

}  // namespace slip::api

namespace slipstream {

std::string own_form(const std::string& folder) {
  namespace api = slip::api;
  const auto config = api::config_of(folder);
  if (!config) return "";
  if (const auto task = slip::task_options(*config, "config.json"); config->contains("slipstream"))
    return task ? std::string(slip::words(task->form)) : "";
  const auto action = api::action_of(*config);
  if (!action) return "";
  return *action ? std::string(api::form_of_actions(**action)) : "none";
}

}  // namespace slipstream
