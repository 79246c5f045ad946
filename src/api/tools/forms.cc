// SPDX-License-Identifier: Apache-2.0
// slipstream/form.h: forms explained, without a model or for a model's tokenizer.
#include "slipstream/form.h"

#include <filesystem>

#include "api/boundary.h"
#include "api/tools/reports.h"
#include "engine/engine.h"
#include "form/schema/outline.h"
#include "form/schema/values.h"
#include "models/model.h"

namespace slip::api {

namespace {

struct Asked {
  const std::string &form, &model, &unnorm_key;
};

bool is_action_name(std::string_view form) { return form == "openvla-action" || form == "minivla-action"; }

Result<json::value> whole_config(const std::string& model) {
  const std::string where = (std::filesystem::path(model) / "config.json").string();
  SLIP_TRY(json::value config, read_json(where));
  if (!config.is_object()) return bad_input("{}: expected an object, got another type", where);
  return config;
}

// The form of actions with a model's own bins and as many numbers as its statistics have; nothing for another model.
Result<std::optional<json::value>> action_schema_of(const Asked& o) {
  if (o.model.empty()) return std::optional<json::value>{};
  SLIP_TRY(const json::value config, whole_config(o.model));
  if (!is_openvla_config(config.get_object())) return std::optional<json::value>{};
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(o.model));
  SLIP_TRY(const ModelConfig parsed, load_config(o.model, tokenizer ? &*tokenizer : nullptr));
  if (!tokenizer) return bad_input("{}: a form: expected a tokenizer in the folder, got none", o.model);
  if (!parsed.action) return std::optional<json::value>{};
  SLIP_TRY(json::value schema, own_action_schema(*parsed.action, *tokenizer, o.unnorm_key));
  return std::optional(std::move(schema));
}

// The schema document of a built-in, a file, or the one that a model folder was trained for.
Result<json::value> schema_of(const Asked& o) {
  if (o.form == "model" && o.model.empty()) return usage_error("form model: expected --model, got none");
  if (o.form == "model" || is_action_name(o.form)) {
    SLIP_TRY(std::optional<json::value> own, action_schema_of(o));
    if (own) return std::move(*own);
  }
  if (!o.unnorm_key.empty())
    return usage_error("--unnorm-key: expected the form of actions of a model with statistics, got form {}", o.form);
  if (o.form == "model") {
    SLIP_TRY(const json::value config, whole_config(o.model));
    SLIP_TRY(const TaskOptions task, task_options(config.get_object(), (std::filesystem::path(o.model) / "config.json").string()));
    return task_schema(task);
  }
  if (auto builtin = builtin_schema(o.form)) return std::move(*builtin);
  if (o.form.find('/') == std::string::npos && o.form.find('.') == std::string::npos)
    return bad_input("form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                     o.form);
  return read_json(o.form, size_t{16} << 20);
}

// Without a model: what the schema alone says, and the document itself in JSON. Where the shape depends on values only a tokenizer tells more.
Result<slipstream::Report> explain_schema(const Asked& o, json::value schema) {
  if (!is_trained_form(schema)) {
    const Status sound = check_schema(schema, o.form);
    if (!sound) return sound.error();
    if (!outline(schema, o.form)) {
      std::string text = fmt::format("form {}: sound; --model MODEL lays it out in that model's tokens\n", o.form);
      return report_of(json::object{{"name", o.form}, {"schema", std::move(schema)}}, std::move(text));
    }
  }
  SLIP_TRY(std::string text, outline(schema, o.form));
  SLIP_TRY(json::object shown, outline_json(schema, o.form));
  shown["schema"] = std::move(schema);
  return report_of(shown, std::move(text));
}

Result<slipstream::Report> explain(const Asked& o) {
  SLIP_TRY(json::value schema, schema_of(o));
  if (o.model.empty()) return explain_schema(o, std::move(schema));
  SLIP_TRY(const std::optional<Tokenizer> tokenizer, load_tokenizer(o.model));
  if (!tokenizer) return bad_input("{}: expected a tokenizer, got none", o.model);
  SLIP_TRY(const ModelConfig config, load_config(o.model, &*tokenizer));
  const DraftRule& rule = config.decoder.rule;
  SLIP_TRY(
      const CompiledForm form,
      compile_schema(schema, o.form,
                     {&*tokenizer, rule.has_null ? std::optional<TokenId>(rule.null_token) : std::nullopt, config.decoder.vocab}));
  return report_of(describe_json(form.form, &*tokenizer), describe(form.form, &*tokenizer));
}

}  // namespace

}  // namespace slip::api

namespace slipstream {

namespace api = slip::api;

std::vector<std::string> builtin_forms() {
  const auto names = slip::builtin_forms();
  return {names.begin(), names.end()};
}

Result<Report> explain_form(const std::string& form, const std::string& model_folder, const std::string& unnorm_key) {
  return api::bounded([&] { return api::explain({form, model_folder, unnorm_key}); });
}

Result<std::string> form_schema(const std::string& form, const std::string& model_folder, const std::string& unnorm_key,
                                bool indented) {
  return api::bounded([&]() -> Result<std::string> {
    SLIP_TRY(const slip::json::value schema, api::schema_of({form, model_folder, unnorm_key}));
    return indented ? slip::pretty(schema) : slip::json::serialize(schema);
  });
}

}  // namespace slipstream
