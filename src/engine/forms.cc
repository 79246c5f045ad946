// SPDX-License-Identifier: Apache-2.0
// See forms.h.
#include "engine/forms.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <set>

#include "base/file.h"
#include "base/json/flaws.h"
#include "engine/engine.h"
#include "form/automaton/token_automaton.h"
#include "form/builtin/builtin.h"
#include "task/wod.h"

namespace slip {

namespace {

constexpr size_t kMostSchemaBytes = size_t{16} << 20;
/// Documents come from whoever asks: of more of them than this, or of more bytes, the one that was used longest ago is forgotten. Answers hold on
/// to their forms.
constexpr size_t kMostKept = 64;

/// Is it the name of the form that the folder was trained for? Then the model's own is meant, budgets included, not the built-in of that name.
bool is_own(const std::string& name, const TaskOptions& task, const std::filesystem::path& folder) {
  if (name != words(task.form)) return false;
  const auto config = read_json(folder / "config.json");
  return config && config->is_object() && config->get_object().contains("slipstream");
}

size_t bytes_of(const TokenRules& rules) {
  constexpr size_t kState = 512;  // of an automaton over bytes: its row of steps, by classes of bytes
  if (rules.automaton()) return rules.automaton()->language().size() * kState;
  size_t out = rules.size() * sizeof(TokenRules::State);
  for (const TokenRules::State& s : rules.states())
    out += s.edges.size() * sizeof(TokenRules::Edge) + s.denied.size() * sizeof(TokenId);
  return out;
}

size_t bytes_of(const std::string& word, const std::vector<TokenId>& ids) {
  return sizeof(word) + word.size() + sizeof(ids) + ids.size() * sizeof(TokenId);
}

size_t bytes_of(const FieldMeaning& meaning) {
  size_t out = sizeof(meaning);
  if (const auto* choice = std::get_if<ChoiceMeaning>(&meaning))
    for (size_t i = 0; i < choice->words.size() && i < choice->ids.size(); ++i) out += bytes_of(choice->words[i], choice->ids[i]);
  if (const auto* json = std::get_if<JsonMeaning>(&meaning))
    for (const auto& [word, ids] : json->words) out += bytes_of(word, ids);
  return out;
}

}  // namespace

size_t bytes_of(const CompiledForm& form) {
  constexpr size_t kPosition = 24;  // what stands there, its field, section and block
  size_t out = static_cast<size_t>(form.form.length()) * kPosition + form.form.pieces().size() * sizeof(Piece);
  for (const Field& f : form.form.fields()) out += sizeof(Field) + f.name.size() + bytes_of(f.rules);
  for (const FieldMeaning& meaning : form.meanings) out += bytes_of(meaning);
  return out;
}

std::string title_of(const json::value& schema) {
  const json::value* title = schema.is_object() ? schema.get_object().if_contains("title") : nullptr;
  return title && title->is_string() ? std::string(title->get_string()) : "schema";
}

Result<json::value> schema_named(const std::string& name) {
  if (auto builtin = builtin_schema(name)) return std::move(*builtin);
  if (name.find('/') == std::string::npos && name.find('.') == std::string::npos)
    return bad_input("--form: expected a built-in ({}), `model`, or a JSON Schema file, got {}", fmt::join(builtin_forms(), ", "),
                     name);
  SLIP_TRY(const std::string text, read_file(name, kMostSchemaBytes));
  SLIP_TRY(json::value schema, parse_json(text, name));
  SLIP_TRY_(check_json(text, name));
  return schema;
}

Result<json::value> schema_of_document(const std::string& document) {
  if (document.size() > kMostSchemaBytes)
    return bad_input("schema: expected at most {} bytes, got {}", kMostSchemaBytes, document.size());
  SLIP_TRY(json::value schema, parse_json(document, "schema"));
  SLIP_TRY_(check_json(document, "schema"));
  return schema;
}

bool is_action_form(const ModelConfig& config, std::string_view name) {
  return config.action && (name == "model" || name == "openvla-action" || name == "minivla-action");
}

Result<FormTokens> Forms::tokens() const {
  SLIP_TRY(const Tokenizer* const tokenizer, model_->need_tokenizer());
  const LmInfo& info = model_->lm().info();
  return FormTokens{.tokenizer = tokenizer,
                    .null_token = info.rule.has_null ? std::optional<TokenId>(info.rule.null_token) : std::nullopt,
                    .vocab = info.vocab,
                    .positions = model_->config().max_positions,
                    .graph = task_->visibility == Visibility::kGraph};
}

Result<CompiledForm> Forms::compile(const std::string& name, std::string_view unnorm_key) const {
  SLIP_TRY(const FormTokens tokens, this->tokens());
  if (is_action_form(model_->config(), name)) {
    SLIP_TRY(const json::value schema, own_action_schema(*model_->config().action, *tokens.tokenizer, unnorm_key));
    return compile_schema(schema, std::string_view(schema.at("title").as_string()), tokens);
  }
  if (name == "model" || is_own(name, *task_, model_->folder())) return task_form(*task_, tokens, codebook_);
  SLIP_TRY(const json::value schema, schema_named(name));
  return compile_schema(schema, name, tokens);
}

Result<FormPtr> Forms::named(const std::string& asked, std::string_view unnorm_key) {
  const std::string key = is_action_form(model_->config(), asked) ? fmt::format("actions as in {}", unnorm_key) : asked;
  if (const FormPtr known = find(named_, key)) return known;
  SLIP_TRY(CompiledForm form, compile(asked, unnorm_key));
  lend_codebook(form, codebook_, *task_, *model_->tokenizer());
  return keep(named_, key, std::move(form));
}

Result<FormPtr> Forms::of_schema(const std::string& document) {
  if (const FormPtr known = find(documents_, document)) return known;
  SLIP_TRY(const json::value schema, schema_of_document(document));
  SLIP_TRY(const FormTokens tokens, this->tokens());
  SLIP_TRY(CompiledForm form, compile_schema(schema, title_of(schema), tokens));
  lend_codebook(form, codebook_, *task_, *tokens.tokenizer);
  return keep(documents_, document, std::move(form));
}

/// Nobody waits while another's form is compiled; two who ask for the same at once compile it twice.
FormPtr Forms::find(Known& known, const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto at = known.find(key);
  if (at == known.end()) return nullptr;
  at->second.used = ++uses_;
  return at->second.form;
}

size_t Forms::masks_of(const CompiledForm& form) const {
  const size_t mask = static_cast<size_t>(model_->lm().info().vocab) / 8;
  std::set<const ByteDfa*> seen;  // several fields may share a language, and its masks
  size_t out = 0;
  for (const Field& f : form.form.fields())
    if (const TokenAutomaton* automaton = f.rules.automaton(); automaton && seen.insert(&automaton->language()).second)
      out += automaton->masks() * mask;
  return out;
}

std::vector<FormPtr> Forms::forget(Known& known, size_t further) const {
  std::vector<std::pair<Known::iterator, size_t>> by_use;
  size_t all = further;
  for (auto at = known.begin(); at != known.end(); ++at) {
    by_use.emplace_back(at, at->first.size() + at->second.bytes + masks_of(*at->second.form));
    all += by_use.back().second;
  }
  std::ranges::sort(by_use, {}, [](const auto& kept) { return kept.first->second.used; });
  std::vector<FormPtr> out;
  for (const auto& [at, bytes] : by_use) {
    if (known.size() < kMostKept && all <= most_bytes_) break;
    out.push_back(std::move(at->second.form));
    known.erase(at);
    all -= bytes;
  }
  return out;
}

/// One that is larger than all together may be is kept alone.
FormPtr Forms::keep(Known& known, const std::string& key, CompiledForm form) {
  const size_t bytes = bytes_of(form);
  auto made = std::make_shared<const CompiledForm>(std::move(form));
  std::vector<FormPtr> forgotten;  // they go without the lock
  const std::lock_guard lock(mutex_);
  if (!known.contains(key)) forgotten = forget(known, key.size() + bytes);
  return known.try_emplace(key, Kept{std::move(made), ++uses_, bytes}).first->second.form;
}

}  // namespace slip
