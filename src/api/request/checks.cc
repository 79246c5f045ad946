// SPDX-License-Identifier: Apache-2.0
// See checks.h; and check_request and check_decoder of slipstream/engine.h.
#include "api/request/checks.h"

#include <algorithm>
#include <filesystem>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/request/request_options.h"
#include "api/request/requests.h"
#include "decode/decoder.h"
#include "engine/forms.h"
#include "engine/resources.h"
#include "form/builtin/builtin.h"
#include "form/schema/outline.h"
#include "form/schema/schema.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

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

Status check_rollouts(const slipstream::Request& r) {
  const auto& sections = r.sampling.section_temperatures;
  const bool samples = r.sampling.temperature > 0 ||
                       std::any_of(sections.begin(), sections.end(), [](const auto& section) { return section.second > 0; });
  if (r.rollouts <= 1 || samples) return {};
  return usage_error("--rollouts: expected a temperature above 0 (--temperature, --section-temperature) for {} of them, got 0",
                     r.rollouts);
}

Status check_words_of(const slipstream::Request& r) {
  SLIP_TRY(const slipstream::DecoderChoice decoder, decoder_of(r));
  SLIP_TRY_(check_words(decoder));
  SLIP_TRY_(visibility_named(r.visibility));
  SLIP_TRY_(fit_named(r.fit));
  return check_rollouts(r);
}

// Parts without a preset are parts of one that the model's abilities choose: what these leave open is not said here.
Status check_method(const slipstream::Request& r, std::optional<Visibility> trained_for) {
  const bool form = !is_free_text(r);
  SLIP_TRY(const slipstream::DecoderChoice choice, decoder_of(r));
  SLIP_TRY(const std::optional<Visibility> asked, visibility_named(r.visibility));
  const std::optional<Visibility> visibility = asked ? asked : trained_for;
  const auto method = method_from(choice, visibility, nullptr, form);
  if (!method) return choice.preset.empty() ? Status() : Status(method.error());
  if (method->automatic) return {};
  SLIP_TRY_(check_drafter(*method));
  if (visibility) SLIP_TRY_(check_visibility(*method, form, *visibility));
  return check_choice(*method, form, decode_options_of(r));
}

// As far as a schema tells by itself, whatever the tokenizer.
Status check_sound(const json::value& schema, std::string_view name) {
  if (!is_trained_form(schema)) return check_schema(schema, name);
  const std::vector<Error> errors = errors_of_form(schema, name);
  return errors.empty() ? Status() : Status(errors.front());
}

// `own`: the form of the model, whose schema is sound.
Status check_form(const slipstream::Request& r, const std::string& own, bool acts) {
  if (!r.form_schema.empty()) {
    SLIP_TRY(const json::value schema, schema_of_document(r.form_schema));
    return check_sound(schema, title_of(schema));
  }
  const bool of_model = r.form == "model" || r.form == own || (acts && (r.form == "openvla-action" || r.form == "minivla-action"));
  if (of_model || r.form.empty() || is_free_text(r) || builtin_schema(r.form)) return {};
  std::error_code ec;
  if (std::filesystem::exists(r.form, ec) && !std::filesystem::is_regular_file(r.form, ec)) return {};  // a pipe is read once
  SLIP_TRY(const json::value schema, schema_named(r.form));
  return check_sound(schema, r.form);
}

}  // namespace

Status check_asked(const slipstream::Request& r, std::string_view folder, std::optional<Visibility> trained_for,
                   std::optional<bool> actions) {
  SLIP_TRY_(check_use(r, folder, trained_for, actions));
  SLIP_TRY_(check_words_of(r));
  return check_method(r, trained_for);
}

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

Status check_request(const Request& asked, const std::string& folder) {
  return api::bounded([&]() -> Status {
    SLIP_TRY(const slip::json::value config, slip::read_json(std::filesystem::path(folder) / "config.json"));
    const std::string own = own_form(folder);
    const Request request = api::with_form(asked, own);
    std::optional<bool> actions;
    if (config.is_object())
      if (const auto action = api::action_of(config.get_object())) actions = action->has_value();
    SLIP_TRY_(api::check_asked(request, folder, api::visibility_of_folder(folder), actions));
    SLIP_TRY_(api::check_form(request, own, actions.value_or(false)));
    return api::asks_something(request) ? api::check_question(request) : Status();
  });
}

Status check_decoder(const DecoderChoice& decoder, const std::string& folder) {
  return api::bounded([&]() -> Status {
    SLIP_TRY_(api::check_words(decoder));
    const auto visibility = api::visibility_of_folder(folder);
    const auto method = api::method_from(decoder, visibility, nullptr, true);
    if (!method && !api::method_from(decoder, visibility, nullptr, false)) return method.error();
    if (method) SLIP_TRY_(slip::check_drafter(*method));
    if (!method || !visibility) return {};
    const bool graph = *visibility == slip::Visibility::kGraph;
    if (graph ? method->schedule != slip::Schedule::kSections : method->schedule != slip::Schedule::kFields) return {};
    return slip::unsupported("--decoder {}: expected a model that was trained for {} visibility, got {}", method->preset,
                             graph ? "chain" : "graph", folder);
  });
}

}  // namespace slipstream
