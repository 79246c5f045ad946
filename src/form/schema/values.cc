// SPDX-License-Identifier: Apache-2.0
// Values to tokens and back. Numbers go through their spelled form, so that the sign of zero and every digit survive.
#include "form/schema/values.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/check.h"
#include "form/json_text.h"

namespace slip {
namespace {

std::string where(const CompiledForm& f, size_t field) {
  return fmt::format("form {}: field {}", f.form.name(), shown(f.form.fields()[field].name));
}

/// The words, as many as fit into a message.
std::string words_of(const ChoiceMeaning& m) {
  constexpr size_t kNamed = 8;
  std::string s;
  for (size_t i = 0; i < std::min(kNamed, m.words.size()); ++i) s += fmt::format("{}\"{}\"", i ? ", " : "", shown(m.words[i]));
  return m.words.size() > kNamed ? fmt::format("{} and {} more", s, m.words.size() - kNamed) : s;
}

Result<std::vector<TokenId>> render_choice(const CompiledForm& f, size_t field, const ChoiceMeaning& m, const std::string& value) {
  const auto alias = m.aliases.find(value);
  const std::string& word = alias == m.aliases.end() ? value : alias->second;
  const auto at = std::find(m.words.begin(), m.words.end(), word);
  if (at == m.words.end()) return bad_input("{}: expected one of {}, got \"{}\"", where(f, field), words_of(m), shown(value));
  return m.ids[static_cast<size_t>(at - m.words.begin())];
}

Result<std::vector<TokenId>> render_text(const CompiledForm& f, size_t field, const TextMeaning& m, const std::string& value,
                                         const Tokenizer& tokenizer) {
  if (!m.placeholder.empty() && value == m.placeholder) return f.form.fields()[field].placeholder;
  if (m.space && value.empty()) return bad_input("{}: expected text, got none", where(f, field));
  const std::string text = m.space ? " " + value : value;
  SLIP_TRY(std::vector<TokenId> ids, tokenizer.encode_inside(text));
  std::string spelled;
  for (const TokenId id : ids) spelled += tokenizer.token_bytes(id);
  if (spelled != text)
    return bad_input("{}: expected text in the tokenizer's normal form, got \"{}\"", where(f, field), shown(value));
  return ids;
}

Result<std::vector<TokenId>> render_number(const CompiledForm& f, size_t field, const NumberMeaning& m, double value) {
  // Half a unit of the last place still rounds down to the largest number.
  if (!(std::fabs(value) < m.format.largest() + 0.5 * std::pow(10.0, -m.format.decimals)) || (!m.format.sign && value < 0))
    return bad_input("{}: expected a number that fits \"{}\", got {}", where(f, field), m.format.spelled, value);
  const std::string s = m.format.render(value);
  std::vector<TokenId> ids;
  // The first token may cover two characters (" +"); ids are keyed by a token's last character.
  const size_t first = s.size() - m.ids.size();
  for (size_t i = 0; i < m.ids.size(); ++i) ids.push_back(m.ids[i].at(s[first + i]));
  return ids;
}

Result<FieldValue> parse_number(const CompiledForm& f, size_t field, const NumberMeaning& m, std::span<const TokenId> content) {
  std::string s;
  for (size_t i = 0; i < content.size() && i < m.ids.size(); ++i) {
    const auto at = std::find_if(m.ids[i].begin(), m.ids[i].end(), [&](const auto& e) { return e.second == content[i]; });
    if (at != m.ids[i].end()) s += at->first;
  }
  if (content.size() != m.ids.size() || s.size() != m.ids.size())
    return bad_input("{}: expected a number like \"{}\", got {} tokens that spell \"{}\"", where(f, field), m.format.spelled,
                     content.size(), shown(s));
  const char* begin = s.data() + (s[0] == '+' ? 1 : 0);
  double value = 0;
  const auto [end, error] = std::from_chars(begin, s.data() + s.size(), value);
  SLIP_CHECK(error == std::errc() && end == s.data() + s.size(), "digits and one point are a number");
  return FieldValue(value);
}

Result<std::vector<TokenId>> render_bins(const CompiledForm& f, size_t field, const BinsMeaning& m, const FieldValue& value) {
  const auto* one = std::get_if<double>(&value);
  const std::span<const double> numbers = one ? std::span(one, 1) : std::span<const double>(std::get<std::vector<double>>(value));
  if (numbers.size() != static_cast<size_t>(f.form.fields()[field].budget))
    return bad_input("{}: expected {} numbers, got {}", where(f, field), f.form.fields()[field].budget, numbers.size());
  std::vector<TokenId> ids;
  for (const double x : numbers) {
    // Integers are bins; numbers outside low .. high are refused here and clipped only where a caller asks bin_holding itself.
    const double low = m.number ? m.low : 0, high = m.number ? m.high : m.size() - 1;
    if (!(x >= low && x <= high) || (!m.number && x != std::floor(x)))
      return bad_input("{}: expected {} of {} to {}, got {}", where(f, field), m.number ? "numbers" : "integers", low, high, x);
    ids.push_back(m.id_of(m.number ? m.bin_holding(x) : static_cast<int32_t>(x)));
  }
  return ids;
}

Result<FieldValue> parse_bins(const CompiledForm& f, size_t field, const BinsMeaning& m, std::span<const TokenId> content) {
  std::vector<double> numbers;
  for (const TokenId id : content) {
    if (id < m.first || m.last < id)
      return bad_input("{}: expected ids of {} to {}, got {}", where(f, field), m.first.value, m.last.value, id.value);
    numbers.push_back(m.number ? m.value_of(m.bin_of(id)) : m.bin_of(id));
  }
  if (numbers.size() != static_cast<size_t>(f.form.fields()[field].budget))
    return bad_input("{}: expected {} ids, got {}", where(f, field), f.form.fields()[field].budget, numbers.size());
  return m.count == 0 ? FieldValue(numbers[0]) : FieldValue(std::move(numbers));
}

/// Which alternative of FieldValue a meaning has, and what messages call it.
size_t kind_of(const FieldMeaning& m) {
  if (const auto* bins = std::get_if<BinsMeaning>(&m)) return bins->count == 0 ? 1 : 2;
  return std::holds_alternative<NumberMeaning>(m) ? 1 : 0;
}
constexpr const char* kKinds[] = {"text", "a number", "a list of numbers", "a boolean", "null", "nothing"};

/// A value's JSON, for fields of any schema.
Result<std::vector<TokenId>> render_json(const CompiledForm& f, size_t field, const JsonMeaning& m, const FieldValue& value,
                                         const Tokenizer& tokenizer) {
  const Field& x = f.form.fields()[field];
  if (m.choice || std::holds_alternative<NoValue>(value))
    return unsupported("{}: expected a form whose shape does not depend on its values, to be written from values", where(f, field));
  const auto* number = std::get_if<double>(&value);
  const bool whole = number && std::fabs(*number) < 1e15 && *number == std::floor(*number);
  std::string text = whole ? fmt::format("{:.0f}", *number) : plain_json(json_of(value));
  if (m.quoted) {
    if (!std::holds_alternative<std::string>(value)) return bad_input("{}: expected text, got {}", where(f, field), text);
    text = text.substr(1, text.size() - 2);
  }
  if (const auto alias = m.aliases.find(text); alias != m.aliases.end()) text = alias->second;
  for (const auto& [word, ids] : m.words)
    if (word == text) return ids;
  if (!m.words.empty()) return bad_input("{}: expected one of its values, got {}", where(f, field), shown(text));
  SLIP_TRY(std::vector<TokenId> ids, tokenizer.encode_inside(m.space ? " " + text : text));
  const auto state = x.rules.state_after(ids);
  if (!state || !x.rules.may_end(*state))
    return bad_input("{}: expected a value that its schema and budget allow, got {}", where(f, field), shown(text));
  return ids;
}

Result<FieldValue> parse_json_field(const CompiledForm& f, size_t field, const JsonMeaning& m, std::span<const TokenId> content,
                                    const Tokenizer& tokenizer) {
  const Field& x = f.form.fields()[field];
  if (!x.exits.empty() && !content.empty()) content = content.first(content.size() - 1);
  if (m.choice || (content.empty() && !x.rules.may_end(0))) return FieldValue(NoValue{});  // something else stood there
  std::string text;
  for (const TokenId id : content) text += tokenizer.token_bytes(id);
  SLIP_TRY(const json::value v, parse_json(m.quoted ? "\"" + text + "\"" : text, where(f, field)));
  if (v.is_string()) return FieldValue(std::string(v.get_string()));
  if (v.is_bool()) return FieldValue(v.get_bool());
  if (v.is_number()) return FieldValue(v.to_number<double>());
  if (v.is_null()) return FieldValue(nullptr);
  return bad_input("{}: expected a plain value, got {}", where(f, field), shown(text));
}

}  // namespace

json::value json_of(const FieldValue& value) {
  const auto number = [](double v) {
    constexpr double kExact = 9007199254740992;  // 2^53: up to there doubles hold every integer
    const bool whole = v == std::trunc(v) && std::abs(v) <= kExact && !(v == 0 && std::signbit(v));
    return whole ? json::value(static_cast<int64_t>(v)) : json::value(v);
  };
  return std::visit(
      [&number](const auto& v) -> json::value {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, NoValue>) {
          return nullptr;
        } else if constexpr (std::is_same_v<T, double>) {
          return number(v);
        } else if constexpr (std::is_same_v<T, std::vector<double>>) {
          json::array out;
          for (const double x : v) out.push_back(number(x));
          return out;
        } else {
          return json::value_from(v);
        }
      },
      value);
}

Result<std::vector<TokenId>> render_field(const CompiledForm& form, size_t field, const FieldValue& value,
                                          const Tokenizer& tokenizer) {
  const FieldMeaning& meaning = form.meanings[field];
  const Field& f = form.form.fields()[field];
  if (const auto* own = std::get_if<JsonMeaning>(&meaning)) return render_json(form, field, *own, value, tokenizer);
  if (value.index() != kind_of(meaning))
    return bad_input("{}: expected {}, got {}", where(form, field), kKinds[kind_of(meaning)], kKinds[value.index()]);
  if (const auto* bins = std::get_if<BinsMeaning>(&meaning)) return render_bins(form, field, *bins, value);
  std::vector<TokenId> ids;
  if (const auto* choice = std::get_if<ChoiceMeaning>(&meaning)) {
    SLIP_TRY(ids, render_choice(form, field, *choice, std::get<std::string>(value)));
  } else if (const auto* number = std::get_if<NumberMeaning>(&meaning)) {
    SLIP_TRY(ids, render_number(form, field, *number, std::get<double>(value)));
  } else {
    SLIP_TRY(ids, render_text(form, field, std::get<TextMeaning>(meaning), std::get<std::string>(value), tokenizer));
  }
  const auto budget = static_cast<size_t>(f.budget);
  if (ids.size() > budget) return bad_input("{}: expected at most {} tokens, got {}", where(form, field), budget, ids.size());
  // NULL written in a text would be taken for padding.
  if (const auto* text = std::get_if<TextMeaning>(&meaning);
      text && (!f.rules.state_after(ids) || (form.null_token && std::find(ids.begin(), ids.end(), *form.null_token) != ids.end())))
    return bad_input("{}: expected text without {}control characters and special tokens{}, got \"{}\"", where(form, field),
                     text->space ? "line breaks, " : "quotes, backslashes, ",
                     f.separators.empty() ? "" : " that names no more than there are instances for",
                     shown(std::get<std::string>(value)));
  if (!f.end && form.null_token) ids.resize(budget, *form.null_token);
  return ids;
}

Result<FieldValue> parse_field(const CompiledForm& form, size_t field, std::span<const TokenId> content,
                               const Tokenizer& tokenizer) {
  const FieldMeaning& meaning = form.meanings[field];
  if (const auto* own = std::get_if<JsonMeaning>(&meaning)) return parse_json_field(form, field, *own, content, tokenizer);
  if (const auto* number = std::get_if<NumberMeaning>(&meaning)) return parse_number(form, field, *number, content);
  if (const auto* bins = std::get_if<BinsMeaning>(&meaning)) return parse_bins(form, field, *bins, content);
  std::vector<TokenId> ids;
  for (const TokenId id : content)
    if (!form.null_token || id != *form.null_token) ids.push_back(id);
  if (const auto* text = std::get_if<TextMeaning>(&meaning)) {
    if (!text->placeholder.empty() && ids == form.form.fields()[field].placeholder) return FieldValue(text->placeholder);
    std::string value = tokenizer.decode(ids, false, ByteRuns::kCharacters);
    if (text->space && value.starts_with(' ')) value.erase(0, 1);
    return FieldValue(std::move(value));
  }
  const auto& choice = std::get<ChoiceMeaning>(meaning);
  const auto at = std::find(choice.ids.begin(), choice.ids.end(), ids);
  if (at == choice.ids.end())
    return bad_input("{}: expected one of {}, got \"{}\"", where(form, field), words_of(choice), shown(tokenizer.decode(ids)));
  return FieldValue(choice.words[static_cast<size_t>(at - choice.ids.begin())]);
}

Status check_instances(const Form& form, std::span<const std::vector<TokenId>> contents) {
  for (size_t i = 0; i < contents.size(); ++i) {
    const Field& f = form.fields()[i];
    const bool absent = is_absent(form, contents, i);
    if (!is_unused(form, contents, i) || (absent ? contents[i].empty() : contents[i] == f.placeholder)) continue;
    const auto of = static_cast<size_t>(f.instance_of->field);
    return bad_input("form {}: field {}: expected {} an unused instance ({} names {}), got another value", form.name(),
                     shown(f.name), absent ? "nothing of" : "the placeholder of", shown(form.fields()[of].name),
                     instances_in(form.fields()[of], contents[of]));
  }
  return {};
}

namespace {

/// Calls visit(piece) along an answer; exit_of_field(field) says which piece a field with exits leads to.
template <class Visit, class ExitOf>
void along(const Form& form, std::span<const std::vector<TokenId>> contents, Visit&& visit, ExitOf&& exit_of_field) {
  for (int32_t at = 0; static_cast<size_t>(at) < form.pieces().size();) {
    const Piece& piece = form.pieces()[static_cast<size_t>(at)];
    const auto optional = form.optional_field(at);
    if (!optional || !is_absent(form, contents, static_cast<size_t>(*optional))) visit(piece);
    const auto* ref = std::get_if<FieldRef>(&piece);
    const bool exits = ref && !form.fields()[static_cast<size_t>(ref->field)].exits.empty();
    at = exits ? exit_of_field(ref->field) : form.next_piece(at);
  }
}

int32_t exit_in(const Form& form, int32_t field, std::span<const TokenId> content) {
  return exit_piece(form.fields()[static_cast<size_t>(field)], content).value_or(static_cast<int32_t>(form.pieces().size()));
}

/// A field's content from answer[at] on; `at` moves behind it.
Status split_field(const Form& form, size_t index, std::span<const TokenId> answer, size_t& at, std::vector<TokenId>& content) {
  const Field& f = form.fields()[index];
  int32_t state = 0;
  const auto most = static_cast<size_t>(f.budget - (f.exits.empty() ? 0 : 1));
  while (at < answer.size() && content.size() < most && !ends(f, state, answer[at]) && !(f.closes && f.rules.complete(state))) {
    const auto next = f.rules.next(state, answer[at]);
    if (!next)
      return bad_input("form {}: field {}: expected an allowed token at index {}, got {}", form.name(), shown(f.name),
                       content.size(), answer[at].value);
    state = *next;
    content.push_back(answer[at++]);
  }
  const bool exit = !f.exits.empty() && at < answer.size() && ends(f, state, answer[at]);
  if ((!f.end && content.size() < most) || !(exit || f.rules.may_end(state)))
    return bad_input("form {}: field {}: expected a complete value, got one cut off after {} tokens", form.name(), shown(f.name),
                     content.size());
  if (f.exits.empty()) return {};
  if (!exit)
    return bad_input("form {}: field {}: expected one of {} tokens behind it, got {}", form.name(), shown(f.name), f.exits.size(),
                     at < answer.size() ? std::to_string(answer[at].value) : "the end");
  content.push_back(answer[at]);  // recorded here, spelled by the piece that it leads to
  return {};
}

}  // namespace

std::vector<uint8_t> fields_present(const Form& form, std::span<const std::vector<TokenId>> contents) {
  std::vector<uint8_t> present(form.fields().size(), 0);
  along(
      form, contents,
      [&](const Piece& piece) {
        if (const auto* ref = std::get_if<FieldRef>(&piece)) present[static_cast<size_t>(ref->field)] = 1;
      },
      [&](int32_t f) { return exit_in(form, f, contents[static_cast<size_t>(f)]); });
  return present;
}

std::vector<TokenId> assemble(const Form& form, std::span<const std::vector<TokenId>> contents) {
  std::vector<TokenId> ids;
  ids.reserve(static_cast<size_t>(form.length()));
  along(
      form, contents,
      [&](const Piece& piece) {
        if (const auto* run = std::get_if<FixedRun>(&piece)) {
          ids.insert(ids.end(), run->ids.begin(), run->ids.end());
          return;
        }
        const auto f = static_cast<size_t>(std::get<FieldRef>(piece).field);
        const auto& part = contents[f];
        ids.insert(ids.end(), part.begin(), part.end() - (form.fields()[f].exits.empty() || part.empty() ? 0 : 1));
      },
      [&](int32_t f) { return exit_in(form, f, contents[static_cast<size_t>(f)]); });
  return ids;
}

int32_t tokens_before(const Form& form, std::span<const std::vector<TokenId>> contents, int32_t position) {
  int32_t n = 0;
  for (int32_t p = 0; static_cast<size_t>(p) < form.pieces().size() && form.begin_of(p) < position;) {
    const Piece& piece = form.pieces()[static_cast<size_t>(p)];
    const auto optional = form.optional_field(p);
    if (optional && is_absent(form, contents, static_cast<size_t>(*optional))) {
      p = form.next_piece(p);
      continue;
    }
    if (const auto* run = std::get_if<FixedRun>(&piece)) {
      n += static_cast<int32_t>(run->ids.size());
      p = form.next_piece(p);
      continue;
    }
    const auto f = static_cast<size_t>(std::get<FieldRef>(piece).field);
    const std::optional<int32_t> exit = exit_piece(form.fields()[f], contents[f]);
    n += static_cast<int32_t>(contents[f].size()) - (exit ? 1 : 0);
    p = exit.value_or(form.next_piece(p));
  }
  return n;
}

Result<std::vector<std::vector<TokenId>>> split_answer(const Form& form, std::span<const TokenId> answer) {
  std::vector<std::vector<TokenId>> contents(form.fields().size());
  size_t at = 0;
  Status status;
  along(
      form, contents,
      [&](const Piece& piece) {
        if (!status) return;
        const auto* run = std::get_if<FixedRun>(&piece);
        if (!run) {
          const auto index = static_cast<size_t>(std::get<FieldRef>(piece).field);
          status = split_field(form, index, answer, at, contents[index]);
          return;
        }
        for (const TokenId id : run->ids) {
          if (at >= answer.size() || answer[at] != id) {
            status = bad_input("form {}: token {}: expected {}, got {}", form.name(), at, id.value,
                               at < answer.size() ? std::to_string(answer[at].value) : "the end");
            return;
          }
          ++at;
        }
      },
      [&](int32_t f) { return exit_in(form, f, contents[static_cast<size_t>(f)]); });
  if (!status) return std::move(status).error();
  if (at != answer.size()) return bad_input("form {}: expected {} tokens, got {}", form.name(), at, answer.size());
  SLIP_TRY_(check_instances(form, contents));
  return contents;
}

Result<std::vector<std::vector<TokenId>>> render_fields(const CompiledForm& form, std::span<const FieldValue> values,
                                                        const Tokenizer& tokenizer) {
  if (values.size() != form.meanings.size())
    return bad_input("form {}: expected {} values, got {}", form.form.name(), form.meanings.size(), values.size());
  std::vector<std::vector<TokenId>> contents;
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::holds_alternative<NoValue>(values[i]) && is_absent(form.form, contents, i)) {
      contents.emplace_back();
      continue;
    }
    SLIP_TRY(std::vector<TokenId> ids, render_field(form, i, values[i], tokenizer));
    contents.push_back(std::move(ids));
  }
  SLIP_TRY_(check_instances(form.form, contents));
  return contents;
}

Result<std::vector<TokenId>> render(const CompiledForm& form, std::span<const FieldValue> values, const Tokenizer& tokenizer) {
  SLIP_TRY(const auto contents, render_fields(form, values, tokenizer));
  return assemble(form.form, contents);
}

Result<std::vector<FieldValue>> parse(const CompiledForm& form, std::span<const TokenId> answer, const Tokenizer& tokenizer) {
  SLIP_TRY(const auto contents, split_answer(form.form, answer));
  const std::vector<uint8_t> present = fields_present(form.form, contents);
  std::vector<FieldValue> values;
  for (size_t i = 0; i < contents.size(); ++i) {
    if (!present[i]) {
      values.emplace_back(NoValue{});
      continue;
    }
    SLIP_TRY(FieldValue value, parse_field(form, i, contents[i], tokenizer));
    values.push_back(std::move(value));
  }
  return values;
}

std::string answer_text(const CompiledForm& form, std::span<const TokenId> answer, const Tokenizer& tokenizer) {
  std::vector<TokenId> ids;
  for (const TokenId id : answer)
    if (!form.null_token || id != *form.null_token) ids.push_back(id);
  return tokenizer.decode(ids, false, ByteRuns::kCharacters);
}

json::object values_to_json(const Form& form, std::span<const FieldValue> values) {
  json::object o;
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::holds_alternative<NoValue>(values[i])) o[form.fields()[i].name] = json_of(values[i]);
  return o;
}

Result<std::vector<FieldValue>> values_from_json(const Form& form, const json::object& values) {
  std::vector<FieldValue> out;
  for (const Field& f : form.fields()) {
    const json::value* v = values.if_contains(f.name);
    if (v == nullptr && form.may_be_absent(static_cast<int32_t>(out.size()))) {
      out.emplace_back(NoValue{});
      continue;
    }
    if (v == nullptr) return bad_input("form {}: field {}: expected a value, got none", form.name(), shown(f.name));
    if (v->is_string())
      out.emplace_back(std::string(v->get_string()));
    else if (v->is_number())
      out.emplace_back(v->to_number<double>());
    else if (v->is_bool())
      out.emplace_back(v->get_bool());
    else if (v->is_null())
      out.emplace_back(nullptr);
    else if (v->is_array() &&
             std::all_of(v->get_array().begin(), v->get_array().end(), [](const auto& x) { return x.is_number(); }))
      out.emplace_back(json::value_to<std::vector<double>>(*v));
    else
      return bad_input("form {}: field {}: expected text, a number or numbers, got {}", form.name(), shown(f.name), shown_json(*v));
  }
  if (values.size() != out.size() || form.leaves_out())
    for (const auto& member : values)
      if (std::none_of(form.fields().begin(), form.fields().end(),
                       [&](const Field& f) { return f.name == std::string_view(member.key()); }))
        return bad_input("form {}: expected names of its fields, got '{}'", form.name(), shown(std::string_view(member.key())));
  return out;
}

}  // namespace slip
