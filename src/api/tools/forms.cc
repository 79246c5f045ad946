// SPDX-License-Identifier: Apache-2.0
// slipstream/form.h: forms explained, without a model or for a model's tokenizer.
#include "slipstream/form.h"

#include <fmt/ranges.h>
#include <filesystem>

#include "api/boundary.h"
#include "api/choice.h"
#include "api/folder_tokens.h"
#include "api/tools/reports.h"
#include "base/file.h"
#include "base/json/flaws.h"
#include "engine/engine.h"
#include "form/schema/outline.h"
#include "form/schema/values.h"
#include "models/model.h"
#include "slipstream/engine.h"

namespace slip::api {

namespace {

struct Asked {
  const std::string &form, &model, &unnorm_key;
  /// The document itself: an object, or a list, which is refused as such.
  bool is_text() const {
    const size_t first = form.find_first_not_of(" \t\r\n"), last = form.find_last_not_of(" \t\r\n");
    return first != std::string::npos && (form[first] == '{' || (form[first] == '[' && form[last] == ']'));
  }
  std::string name() const { return is_text() ? "schema" : form; }
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

bool is_file_name(std::string_view form) { return form.find_first_of("/.") != std::string_view::npos; }

Result<std::string> schema_text(const Asked& o) {
  if (o.is_text()) return o.form;
  if (!is_file_name(o.form))
    return bad_input("form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                     o.form);
  return read_file(o.form, size_t{16} << 20);
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
  if (o.form == "model" && slipstream::own_form(o.model) == "none")
    return bad_input("form model: expected a model that was trained for a form, got {}, which answers in free text", o.model);
  if (o.form == "model" || (!o.model.empty() && o.form == slipstream::own_form(o.model))) {
    SLIP_TRY(const json::value config, whole_config(o.model));
    SLIP_TRY(const TaskOptions task, task_options(config.get_object(), (std::filesystem::path(o.model) / "config.json").string()));
    return task_schema(task);
  }
  if (auto builtin = builtin_schema(o.form)) return std::move(*builtin);
  SLIP_TRY(const std::string text, schema_text(o));
  SLIP_TRY(json::value schema, parse_json(text, o.name()));
  SLIP_TRY_(check_json(text, o.name()));
  return schema;
}

// Where the shape depends on values: in bytes, of which a text has more than tokens of most vocabularies.
Result<slipstream::Report> explain_in_bytes(const Asked& o, json::value schema) {
  const Tokenizer bytes = Tokenizer::of_bytes();
  const auto form = compile_schema(schema, o.name(), {&bytes, std::nullopt, bytes.size()});
  const Status told = form ? Status() : check_told_apart(schema, o.name());
  if (!told && told.error().kind != ErrorKind::kUnsupported) return told.error();
  json::object shown = form ? describe_json(form->form, &bytes) : json::object{{"name", o.name()}};
  shown["schema"] = std::move(schema);
  std::string text =
      form ? fmt::format(
                 "form {}: in single bytes; --model MODEL lays it out in that model's tokens, of which there are mostly fewer\n{}",
                 o.name(), describe(form->form, &bytes))
           : fmt::format("form {}: sound; --model MODEL lays it out in that model's tokens, which in single bytes {}\n", o.name(),
                         told ? "is too large" : "fails: " + told.error().message);
  return report_of(shown, std::move(text));
}

// Without a model: what the schema alone says, and the document itself in JSON.
Result<slipstream::Report> explain_schema(const Asked& o, json::value schema) {
  if (!is_trained_form(schema)) {
    const Status sound = check_schema(schema, o.name());
    if (!sound) return sound.error();
    if (!outline(schema, o.name())) return explain_in_bytes(o, std::move(schema));
  }
  SLIP_TRY(std::string text, outline(schema, o.name()));
  SLIP_TRY(json::object shown, outline_json(schema, o.name()));
  shown["schema"] = std::move(schema);
  return report_of(shown, std::move(text));
}

Result<slipstream::Report> explain(const Asked& o) {
  SLIP_TRY(json::value schema, schema_of(o));
  if (o.model.empty()) return explain_schema(o, std::move(schema));
  SLIP_TRY(const FolderTokens of, FolderTokens::load(o.model));
  SLIP_TRY(const CompiledForm form, compile_schema(schema, o.name(), of.of_form()));
  return report_of(describe_json(form.form, &of.tokenizer), describe(form.form, &of.tokenizer));
}

// ---- what is wrong with a schema, one by one

struct Problem {
  std::string pointer, message;
  ErrorKind kind = ErrorKind::kBadInput;
};

// "form f: #/properties/a: expected ..." or "form f: $.properties.a: expected ..." as a place and what is wrong there.
Problem problem_of(const Error& e, const std::string& form) {
  Problem p{.pointer = "#", .message = e.message, .kind = e.kind};
  const std::string name = fmt::format("form {}: ", form);
  if (p.message.starts_with(name)) p.message.erase(0, name.size());
  if (!p.message.starts_with("#") && !p.message.starts_with("$")) return p;
  const size_t expected = p.message.find(": expected ");
  const size_t colon = expected == std::string::npos ? p.message.find(": ") : expected;
  if (colon == std::string::npos) return p;
  p.pointer = p.message.substr(0, colon);
  p.message.erase(0, colon + 2);
  if (!p.pointer.starts_with("$")) return p;
  std::string path = "#";
  for (const char c : p.pointer.substr(1))
    if (c != ']') path += c == '.' || c == '[' ? '/' : c;
  p.pointer = path;
  return p;
}

/// A line without what names in the schema may do to a terminal.
std::string one_line(std::string text) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) c = ' ';
  return text + "\n";
}

struct Found {
  std::vector<Problem> problems;
  std::vector<std::string> notes;  // of a schema without problems: what it says and forms do not hold to
};

/// Where the shape depends on values and no model tells the tokens: what is certain is a problem, the rest a note.
void try_in_bytes(const Asked& o, const json::value& schema, Found& out) {
  if (outline(schema, o.name())) return;
  const Status told = check_told_apart(schema, o.name());
  if (told) return;
  Problem p = problem_of(told.error(), o.name());
  if (p.kind == ErrorKind::kUnsupported)
    out.notes.push_back(
        fmt::format("{}: in single bytes, which tell less apart than a model's tokens may: {}", p.pointer, p.message));
  else
    out.problems.push_back(std::move(p));
}

Result<Found> find(const Asked& o) {
  Found found;
  std::vector<Problem>& out = found.problems;
  json::value schema;
  if (o.is_text() || is_file_name(o.form)) {
    SLIP_TRY(const std::string text, schema_text(o));
    auto parsed = parse_json(text, o.name());
    if (!parsed) {
      out.push_back({.pointer = "#", .message = parsed.error().message});
      return found;
    }
    for (JsonFlaw& flaw : json_flaws(text)) out.push_back({.pointer = std::move(flaw.pointer), .message = std::move(flaw.message)});
    schema = std::move(*parsed);
  } else {
    SLIP_TRY(schema, schema_of(o));
  }
  for (const Error& e : errors_of_form(schema, o.name())) out.push_back(problem_of(e, o.name()));
  if (!out.empty()) return found;
  found.notes = notes_of_form(schema, o.name());
  if (o.model.empty()) {
    try_in_bytes(o, schema, found);
    return found;
  }
  SLIP_TRY(const FolderTokens of, FolderTokens::load(o.model));
  const auto form = compile_schema(schema, o.name(), of.of_form());
  if (!form) {
    out.push_back(problem_of(form.error(), o.name()));
    return found;
  }
  // Fields side by side have a position for every value that may be there.
  const bool graph = visibility_of_folder(o.model) == Visibility::kGraph;
  const int64_t positions = graph ? form->form.length() : form->form.longest();
  if (of.max_positions > 0 && positions >= of.max_positions)
    out.push_back(
        {.pointer = "#",
         .message = fmt::format("expected {}, for which {} was made together with the prompt, got {}: smaller maxItems, "
                                "maxLength and x-budget help",
                                fmt::format(fmt::runtime(graph ? "fewer than {} positions for all values that may be there"
                                                               : "a longest answer of fewer than {} tokens"),
                                            of.max_positions),
                                o.model, positions),
         .kind = ErrorKind::kUnsupported});
  return found;
}

Result<slipstream::Report> check(const Asked& o) {
  SLIP_TRY(const Found found, find(o));
  const auto& [problems, notes] = found;
  json::array errors;
  std::string text;
  bool bad = false;
  for (const Problem& p : problems) {
    bad = bad || p.kind != ErrorKind::kUnsupported;
    errors.push_back({{"pointer", p.pointer},
                      {"message", p.message},
                      {"kind", p.kind == ErrorKind::kUnsupported ? "not_supported" : "bad_input"}});
    text += one_line(fmt::format("{}: {}", p.pointer, p.message));
  }
  if (problems.empty())
    text = o.model.empty()
               ? fmt::format("form {}: supported, as far as it tells by itself; --model MODEL tries it in that model's tokens\n",
                             o.name())
               : fmt::format("form {}: supported, in the tokens of {} too\n", o.name(), o.model);
  for (const std::string& note : notes)
    if (problems.empty()) text += one_line("note: " + note);
  slipstream::Report report =
      report_of(json::object{{"form", o.name()},
                             {"model", o.model.empty() ? json::value() : json::value(o.model)},
                             {"supported", problems.empty()},
                             {"errors", std::move(errors)},
                             {"notes", problems.empty() ? json::array(notes.begin(), notes.end()) : json::array()}},
                std::move(text));
  if (!problems.empty())
    report.outcome = Error{bad ? ErrorKind::kBadInput : ErrorKind::kUnsupported,
                           fmt::format("form {}: expected a schema that is supported, got one with {} error{}", o.name(),
                                       problems.size(), problems.size() == 1 ? "" : "s")};
  return report;
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

Result<Report> check_form(const std::string& form, const std::string& model_folder) {
  return api::bounded([&] { return api::check({form, model_folder, ""}); });
}

Result<std::string> form_schema(const std::string& form, const std::string& model_folder, const std::string& unnorm_key,
                                bool indented) {
  return api::bounded([&]() -> Result<std::string> {
    SLIP_TRY(const slip::json::value schema, api::schema_of({form, model_folder, unnorm_key}));
    return indented ? slip::pretty(schema) : slip::json::serialize(schema);
  });
}

}  // namespace slipstream
