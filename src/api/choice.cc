// SPDX-License-Identifier: Apache-2.0
// See choice.h; and check_request of slipstream/engine.h.
#include "api/choice.h"

#include <algorithm>
#include <filesystem>

#include "api/boundary.h"
#include "api/request_options.h"
#include "api/requests.h"
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

Status check_use(const slipstream::Request& r, std::string_view folder, std::optional<Visibility> trained_for,
                 std::optional<bool> actions) {
  SLIP_TRY_(check_settings(r));
  const bool text = is_free_text(r);
  if (!r.stop.empty() && !text)
    return usage_error("--stop: expected free text (--form none), got form {}", r.form_schema.empty() ? r.form : "of a schema");
  if (r.log_forced && text) return usage_error("--log-forced: expected a form, got free text");
  if (r.max_rows > 0 || !r.activation) {
    const std::string_view flag = !r.activation ? "--no-activation" : "--max-rows";
    if (text) return usage_error("{}: expected a form under graph visibility, got free text", flag);
    SLIP_TRY(const auto asked, visibility_named(r.visibility));
    if ((asked ? asked : trained_for) == Visibility::kChain)
      return usage_error("{}: expected graph visibility, got chain visibility", flag);
  }
  if (!r.trajectory_head.empty() && text) return usage_error("--trajectory-head: expected a form with a plan, got free text");
  if (r.fast_plan && r.trajectory_head.empty()) return usage_error("--fast-plan: expected --trajectory-head beside it, got none");
  if (!r.unnorm_key.empty() && actions && !*actions)
    return usage_error("--unnorm-key: expected a model of actions with statistics, got {}", folder);
  return {};
}

namespace {

Status check_rollouts(const slipstream::Request& r) {
  const auto& sections = r.sampling.section_temperatures;
  const bool samples = r.sampling.temperature > 0 ||
                       std::any_of(sections.begin(), sections.end(), [](const auto& section) { return section.second > 0; });
  if (r.rollouts <= 1 || samples) return {};
  return usage_error("--rollouts: expected a temperature above 0 (--temperature, --section-temperature) for {} of them, got 0",
                     r.rollouts);
}

}  // namespace

Status check_words(const slipstream::Request& r) {
  SLIP_TRY(const slipstream::DecoderChoice decoder, decoder_of(r));
  SLIP_TRY_(check_words(decoder));
  SLIP_TRY_(visibility_named(r.visibility));
  SLIP_TRY_(fit_named(r.fit));
  return check_rollouts(r);
}

slipstream::Request with_form(const slipstream::Request& request, std::string_view own_form) {
  slipstream::Request out = request;
  if (own_form == "none" && out.form == "model" && out.form_schema.empty()) out.form = "none";
  return out;
}

}  // namespace slip::api

namespace slipstream {

namespace {

/// Whether a model acts and how, by its config.json; an error where loading will say the same. Prismatic's is OpenVLA's without actions.
slip::Result<std::optional<slip::ActionConfig>> action_of(const slip::json::object& config) {
  if (!slip::is_openvla_config(config)) return std::optional<slip::ActionConfig>();
  SLIP_TRY(slip::ModelConfig parsed, slip::parse_openvla_config(config, "config.json"));
  return std::move(parsed.action);
}

}  // namespace

std::string own_form(const std::string& folder) {
  namespace api = slip::api;
  const auto config = api::config_of(folder);
  if (!config) return "";
  if (const auto task = slip::task_options(*config, "config.json"); config->contains("slipstream"))
    return task ? std::string(slip::words(task->form)) : "";
  const auto action = action_of(*config);
  if (!action) return "";
  return *action ? std::string(api::form_of_actions(**action)) : "none";
}

Status check_request(const Request& asked, const std::string& folder) {
  namespace api = slip::api;
  return api::bounded([&]() -> Status {
    const Request request = api::with_form(asked, own_form(folder));
    const auto config = api::config_of(folder);
    std::optional<bool> actions;
    if (config)
      if (const auto action = action_of(*config)) actions = action->has_value();
    SLIP_TRY_(api::check_use(request, folder, api::visibility_of_folder(folder), actions));
    return api::check_words(request);
  });
}

Status check_decoder(const DecoderChoice& decoder, const std::string& folder) {
  namespace api = slip::api;
  return api::bounded([&]() -> Status {
    Request request;
    request.decoder = decoder;
    SLIP_TRY_(check_request(request, folder));
    const auto visibility = api::visibility_of_folder(folder);
    const auto method = api::method_from(decoder, visibility, nullptr, true);
    if (!method && !api::method_from(decoder, visibility, nullptr, false)) return slip::usage_error("{}", method.error().message);
    if (!method || !visibility) return {};
    const bool graph = *visibility == slip::Visibility::kGraph;
    if (graph ? method->schedule != slip::Schedule::kSections : method->schedule != slip::Schedule::kFields) return {};
    return slip::usage_error("--decoder {}: expected a model that was trained for {} visibility, got {}", method->preset,
                             graph ? "chain" : "graph", folder);
  });
}

}  // namespace slipstream
