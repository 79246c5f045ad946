// SPDX-License-Identifier: Apache-2.0
// An answer's text back into its fields. Tokens are not asked for: a text that a model wrote is seldom what the tokenizer makes of it.
#include <charconv>
#include <cmath>

#include "form/json_text.h"
#include "form/schema/values.h"

namespace slip {
namespace {

Result<FieldValue> value_of(const FieldMeaning& meaning, std::string_view text, const std::string& where) {
  if (std::holds_alternative<ChoiceMeaning>(meaning)) {
    const size_t first = text.find_first_not_of(' ');
    return FieldValue(std::string(first == std::string_view::npos ? "" : text.substr(first)));
  }
  if (const auto* own = std::get_if<TextMeaning>(&meaning)) {
    if (own->space && text.starts_with(' ')) text.remove_prefix(1);
    return FieldValue(std::string(text));
  }
  if (!std::holds_alternative<NumberMeaning>(meaning)) {
    const auto* own = std::get_if<JsonMeaning>(&meaning);
    if (own == nullptr) return unsupported("{}: expected words, numbers or text, got bins", where);
    SLIP_TRY(const json::value v, parse_json(own->quoted ? fmt::format("\"{}\"", text) : std::string(text), where));
    if (v.is_string()) return FieldValue(std::string(v.get_string()));
    if (v.is_bool()) return FieldValue(v.get_bool());
    if (v.is_number()) return FieldValue(v.to_number<double>());
    return FieldValue(nullptr);
  }
  while (text.starts_with(' ') || text.starts_with('+')) text.remove_prefix(1);
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    return bad_input("{}: expected a number, got \"{}\"", where, shown(text));
  return FieldValue(number);
}

std::string spelled(const FixedRun& run, const CompiledForm& form, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const TokenId id : run.ids)
    if (!form.null_token || id != *form.null_token) ids.push_back(id);
  return tokenizer.decode(ids);
}

}  // namespace

Result<std::vector<std::vector<TokenId>>> split_text(const CompiledForm& form, std::string_view text, const Tokenizer& tokenizer) {
  const Form& f = form.form;
  std::vector<std::vector<TokenId>> contents(f.fields().size());
  std::optional<size_t> open;  // a field whose value begins at `at`
  size_t at = 0;
  const auto where = [&](size_t field) { return fmt::format("form {}: field {}", f.name(), shown(f.fields()[field].name)); };
  const auto close = [&](size_t end) -> Status {
    std::string_view value = text.substr(at, end - at);
    const Field& field = f.fields()[*open];
    if (const std::string own = field.end && !field.closes ? tokenizer.decode({{*field.end}}) : "";
        !own.empty() && value.ends_with(own))
      value.remove_suffix(own.size());
    SLIP_TRY(const FieldValue said, value_of(form.meanings[*open], value, where(*open)));
    SLIP_TRY(contents[*open], render_field(form, *open, said, tokenizer));
    open.reset();
    at = end;
    return {};
  };
  for (int32_t p = 0; static_cast<size_t>(p) < f.pieces().size(); ++p) {
    const Piece& piece = f.pieces()[static_cast<size_t>(p)];
    if (const auto optional = f.optional_field(p)) {
      // What is before it ends with its line, whether the line behind is this one's or a later one's.
      const auto* run = std::get_if<FixedRun>(&piece);
      if (run && open) SLIP_TRY_(close(std::min(text.size(), text.find(tokenizer.decode({{run->ids.front()}}), at))));
      if (is_absent(f, contents, static_cast<size_t>(*optional))) continue;
    }
    if (const auto* ref = std::get_if<FieldRef>(&piece)) {
      if (open) return unsupported("{}: expected fixed text behind it, got another field", where(*open));
      open = static_cast<size_t>(ref->field);
      if (!f.fields()[*open].exits.empty()) return unsupported("{}: expected a form of one shape, got several", where(*open));
      continue;
    }
    const std::string fixed = spelled(std::get<FixedRun>(piece), form, tokenizer);
    const size_t found = open ? text.find(fixed, at) : text.substr(at).starts_with(fixed) ? at : std::string_view::npos;
    if (found == std::string_view::npos)
      return bad_input("form {}: expected \"{}\" at byte {}, got other text", f.name(), shown(fixed), at);
    if (open) SLIP_TRY_(close(found));
    at += fixed.size();
  }
  if (open) SLIP_TRY_(close(text.size()));
  const bool whole = at == text.size() && answer_text(form, assemble(f, contents), tokenizer) == text;
  if (!whole) return bad_input("form {}: expected an answer as it would be written, got other text", f.name());
  SLIP_TRY_(check_instances(f, contents));
  return contents;
}

}  // namespace slip
