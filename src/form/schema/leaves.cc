// SPDX-License-Identifier: Apache-2.0
// Values: words, free text, numbers, ids out of a range; enumerations and their instances.
#include <algorithm>
#include <cmath>

#include "form/json_text.h"
#include "form/schema/reader.h"

namespace slip {
namespace {

constexpr int64_t kSpaceRules = 16;     // 90,000 of Qwen's ids have no space in front
constexpr int64_t kMostInstances = 64;  // of one enumeration; the largest in the literature names 4 [FastDriveCoT]

}  // namespace

Status SchemaReader::field(FieldSpec spec, const Inherited& at) {
  const auto index = static_cast<int32_t>(out_.fields.size());
  spec.name = at.name.empty() ? "answer" : at.name;
  spec.path = at.path;
  spec.section = at.section;
  spec.parent_names = at.parents;
  spec.after = at.after;
  spec.field_before = at.before_array.value_or(index - 1);
  spec.on_line = on_line(at);
  const bool own = std::holds_alternative<NumberFormat>(spec.kind) || std::holds_alternative<BinsSpec>(spec.kind);
  spec.space = spec.space || (spec.on_line && !own);
  SLIP_TRY_(instance(at, spec));
  if (std::holds_alternative<TextSpec>(spec.kind)) rules_ += std::max(spec.instances, 1) + (spec.space ? kSpaceRules : 0);
  positions_ += spec.budget > 0 ? spec.budget : longest_value(spec);
  out_.pieces.push_back({.field = index, .section = at.section});
  out_.fields.push_back(std::move(spec));
  last_ = {index};
  return {};
}

/// Is it, or what holds it, an instance of an enumeration that leaves out?
bool SchemaReader::of_optional(const Inherited& at) const {
  return at.instance_of && std::any_of(out_.fields.begin(), out_.fields.end(),
                                       [&](const auto& f) { return f.leaves_out && f.name == *at.instance_of; });
}

/// A line that may be absent takes the text back to the field before it along, so that nothing else may stand there.
Status SchemaReader::optional_instance(const Inherited& at, FieldSpec& spec) const {
  spec.optional = true;
  std::string before;
  for (auto p = out_.pieces.rbegin(); p != out_.pieces.rend() && p->field < 0; ++p) before.insert(0, p->text);
  if (!spec.on_line || before != "\n" + at.label + ":")
    return bad_input(
        "{}: expected an instance that may be absent on a line of its own, directly behind another field's, got it behind {}",
        where(at), shown_json(json::string(before)));
  return {};
}

/// An instance says its enumeration's placeholder where it is unused, so that an enum gets it as a further word.
Status SchemaReader::instance(const Inherited& at, FieldSpec& spec) const {
  if (!at.instance_of && !at.instance) return {};
  if (!at.instance_of || !at.instance)
    return bad_input("{}: expected x-instance-of together with x-instance, got one of them", where(at));
  const auto named = std::find_if(out_.fields.begin(), out_.fields.end(), [&](const auto& f) { return f.name == *at.instance_of; });
  if (named == out_.fields.end() || named->instances == 0)
    return bad_input("{}: expected x-instance-of to name a field with x-instances that stands before it, got '{}'", where(at),
                     shown(*at.instance_of));
  if (*at.instance < 0 || *at.instance >= named->instances)
    return bad_input("{}: expected an x-instance of 0 to {}, got {}", where(at), named->instances - 1, *at.instance);
  if (!std::holds_alternative<TextSpec>(spec.kind) && !std::holds_alternative<ChoiceSpec>(spec.kind))
    return unsupported("{}: expected text or an enum as an instance, since no number says \"{}\", got a number", where(at),
                       shown(named->placeholder));
  if (spec.null_pad) return unsupported("{}: expected an instance without x-null-pad, got one with it", where(at));
  spec.instance_of = Field::InstanceOf{static_cast<int32_t>(named - out_.fields.begin()), static_cast<int32_t>(*at.instance)};
  if (named->leaves_out) return optional_instance(at, spec);
  spec.placeholder = named->placeholder;
  if (auto* choice = std::get_if<ChoiceSpec>(&spec.kind))
    if (std::find(choice->words.begin(), choice->words.end(), spec.placeholder) == choice->words.end())
      choice->words.push_back(spec.placeholder);
  return {};
}

/// x-instances makes a text field an enumeration.
Status SchemaReader::enumeration(const json::object& o, const Inherited& at, FieldSpec& spec) const {
  for (const char* key : {"x-instance-separator", "x-placeholder", "x-unused"})
    if (o.contains(key) && !o.contains("x-instances"))
      return bad_input("{}: expected {} beside x-instances, got it alone", where(at), key);
  if (!o.contains("x-instances")) return {};
  SLIP_TRY(const int64_t n, get_int(o, "x-instances", where(at)));
  if (n < 1 || n > kMostInstances) return bad_input("{}: expected an x-instances of 1 to {}, got {}", where(at), kMostInstances, n);
  SLIP_TRY(const std::string separator, string_or(o, "x-instance-separator", ";", where(at)));
  if (separator.size() != 1 || separator[0] <= ' ' || separator[0] > '~' || (json_text() && needs_escape(separator)))
    return unsupported("{}: expected an x-instance-separator of one visible ASCII character, got '{}'", where(at),
                       shown(separator));
  SLIP_TRY(spec.placeholder, string_or(o, "x-placeholder", "N/A", where(at)));
  const bool bad = spec.placeholder.empty() || (!json_text() ? has_control(spec.placeholder) : needs_escape(spec.placeholder)) ||
                   spec.placeholder.find(separator) != std::string::npos;
  if (bad)
    return bad_input("{}: expected an x-placeholder of text without the separator '{}', got \"{}\"", where(at), separator,
                     shown(spec.placeholder));
  if (spec.null_pad) return unsupported("{}: expected an enumeration without x-null-pad, got one with it", where(at));
  spec.instances = static_cast<int32_t>(n);
  spec.separator = separator[0];
  SLIP_TRY(const std::string unused, string_or(o, "x-unused", "placeholder", where(at)));
  if (unused != "placeholder" && unused != "absent")
    return bad_input("{}: expected an x-unused of 'placeholder' or 'absent', got '{}'", where(at), shown(unused));
  spec.leaves_out = unused == "absent";
  if (spec.leaves_out && out_.layout != Layout::kLines)
    return unsupported(
        "{}: expected x-layout lines beside x-unused 'absent', where an instance is a line that can be left out, got another",
        where(at));
  return {};
}

Status SchemaReader::budget(const json::object& o, const Inherited& at, FieldSpec& spec) const {
  SLIP_TRY(const int64_t n, int_or(o, "x-budget", 0, where(at)));
  if (o.contains("x-budget") && (n < 1 || n > kMostBudget))
    return bad_input("{}: expected an x-budget of 1 to {}, got {}", where(at), kMostBudget, n);
  spec.budget = static_cast<int32_t>(n);
  SLIP_TRY(spec.null_pad, bool_or(o, "x-null-pad", false, where(at)));
  SLIP_TRY(spec.end, bool_or(o, "x-end", false, where(at)));
  SLIP_TRY(spec.space, bool_or(o, "x-space", false, where(at)));
  if (o.contains("x-space") && out_.layout != Layout::kTokens)
    return bad_input("{}: expected x-space in a layout of tokens alone, got it here", where(at));
  return {};
}

Status SchemaReader::constant(const json::object& o, const Inherited& at) {
  SLIP_TRY_(only_keys(o, at, {"const", "type"}));
  if (out_.layout == Layout::kTokens) return unsupported("{}: expected x-before instead of const in a layout of tokens", where(at));
  if (of_optional(at))
    return unsupported("{}: expected text or an enum as an instance that may be absent, got a constant", where(at));
  const json::value& v = o.at("const");
  if (v.is_structured() || (v.is_string() && at.in_text))
    return unsupported("{}: expected a plain constant, got {}", where(at), shown_json(v));
  if (v.is_double() && !std::isfinite(v.get_double()))
    return bad_input("{}: expected a number that a double holds, got {}", where(at), shown_json(v));
  if (!on_line(at)) {
    write(plain_json(v), at);
    return {};
  }
  const std::string text = v.is_string() ? std::string(v.get_string()) : plain_json(v);
  if (text.empty() || has_control(text)) return bad_input("{}: expected a constant of one line, got {}", where(at), shown_json(v));
  open(at, false);
  write(" " + text, at);
  close(at, false);
  return {};
}

Status SchemaReader::choice(const json::object& o, const Inherited& at) {
  SLIP_TRY_(only_keys(o, at, {"enum", "type", "x-budget", "x-null-pad", "x-end", "x-aliases", "x-space"}));
  SLIP_TRY(const std::string type, string_or(o, "type", "string", where(at)));
  if (type != "string" || at.in_text)
    return unsupported("{}: expected an enum of strings outside x-content, got another", where(at));
  SLIP_TRY(const json::array* list, get_array(o, "enum", where(at)));
  if (list->size() > static_cast<size_t>(kMostItems))
    return bad_input("{}: expected at most {} words in enum, got {}", where(at), kMostItems, list->size());
  for (const json::value& word : *list)
    if (word.is_string() && word.get_string().size() > kMostWord)
      return unsupported("{}: expected words of at most {} bytes in enum, got one of {}", where(at), kMostWord,
                         word.get_string().size());
  ChoiceSpec choice;
  for (const json::value& v : *list) {
    if (!v.is_string()) return unsupported("{}: expected strings in enum, got {}", where(at), shown_json(v));
    const std::string word(v.get_string());
    if (word.empty() || (!json_text() ? has_control(word) : needs_escape(word)))
      return unsupported("{}: expected words without {}, got {}", where(at), !json_text() ? "line breaks" : "quotes",
                         shown_json(v));
    if (std::find(choice.words.begin(), choice.words.end(), word) != choice.words.end())
      return bad_input("{}: expected different words in enum, got '{}' twice", where(at), shown(word));
    choice.words.push_back(word);
  }
  if (choice.words.empty()) return bad_input("{}: expected at least one word in enum, got none", where(at));
  SLIP_TRY_(aliases(o, at, choice));
  FieldSpec spec{.kind = std::move(choice)};
  SLIP_TRY_(budget(o, at, spec));
  open(at, true);
  SLIP_TRY_(field(std::move(spec), at));
  close(at, true);
  return {};
}

Status SchemaReader::aliases(const json::object& o, const Inherited& at, ChoiceSpec& choice) const {
  if (!o.contains("x-aliases")) return {};
  SLIP_TRY(const json::object* map, get_object(o, "x-aliases", where(at)));
  for (const auto& member : *map) {
    const std::string alias(member.key());
    const std::string word = member.value().is_string() ? std::string(member.value().get_string()) : std::string();
    if (std::find(choice.words.begin(), choice.words.end(), word) == choice.words.end())
      return bad_input("{}: expected x-aliases to lead to words of enum, got {}", where(at), shown_json(member.value()));
    if (std::find(choice.words.begin(), choice.words.end(), alias) != choice.words.end())
      return bad_input("{}: expected aliases that are no words themselves, got '{}'", where(at), shown(alias));
    choice.aliases[alias] = word;
  }
  return {};
}

Status SchemaReader::boolean(const json::object& o, const Inherited& at) {
  SLIP_TRY_(only_keys(o, at, {"type", "x-budget", "x-null-pad", "x-end"}));
  FieldSpec spec{.kind = ChoiceSpec{{"true", "false"}, {}}};
  SLIP_TRY_(budget(o, at, spec));
  open(at, false);
  SLIP_TRY_(field(std::move(spec), at));
  close(at, false);
  return {};
}

Status SchemaReader::text(const json::object& o, const Inherited& at) {
  SLIP_TRY_(only_keys(
      o, at,
      {"type", "x-budget", "x-null-pad", "x-end", "x-space", "x-instances", "x-instance-separator", "x-placeholder", "x-unused"}));
  if (at.in_text) return unsupported("{}: expected numbers inside x-content, got a string", where(at));
  FieldSpec spec{.kind = TextSpec{}};
  SLIP_TRY_(budget(o, at, spec));
  if (spec.budget == 0) return bad_input("{}: expected x-budget, got none", where(at));
  SLIP_TRY_(enumeration(o, at, spec));
  open(at, true);
  SLIP_TRY_(field(std::move(spec), at));
  close(at, true);
  return {};
}

Status SchemaReader::number(const json::object& o, const Inherited& at) {
  SLIP_TRY_(only_keys(o, at, {"type", "x-format"}));
  if (out_.layout == Layout::kTokens) return unsupported("{}: expected x-bins in a layout of tokens, got a number", where(at));
  if (!o.contains("x-format")) return bad_input("{}: expected x-format, got none", where(at));
  SLIP_TRY(const std::string spelled, get_string(o, "x-format", where(at)));
  SLIP_TRY(NumberFormat format, parse_number_format(spelled, where(at)));
  // JSON has no number +1 and none 012; inside a string (x-content) both are text like any other.
  if (!in_text(at) && format.sign)
    return bad_input("{}: expected an x-format without '+' outside x-content, since +1 is no JSON number, got \"{}\"", where(at),
                     shown(spelled));
  if (!in_text(at) && format.integer_digits > 1)
    return bad_input(
        "{}: expected an x-format with one digit before the point outside x-content, since 012 is no JSON number, got \"{}\"",
        where(at), shown(spelled));
  if (on_line(at) && !std::exchange(format.space, true)) format.spelled = " " + format.spelled;
  open(at, false);
  SLIP_TRY_(field({.kind = std::move(format)}, at));
  close(at, false);
  return {};
}

/// One id out of a range, or with `count` > 0 an array's run of as many, side by side: one field either way.
Status SchemaReader::bins(const json::object& o, const Inherited& at, int64_t count) {
  const json::object& leaf = count > 0 ? o.at("items").get_object() : o;
  SLIP_TRY_(only_keys(leaf, at, {"type", "x-bins"}));
  if (json_text())
    return unsupported("{}: expected x-bins in a layout of tokens or lines, since the ids of bins need not be text, got another",
                       where(at));
  SLIP_TRY(const std::string type, get_string(leaf, "type", where(at)));
  if (type != "integer" && type != "number")
    return bad_input("{}: expected type integer or number beside x-bins, got '{}'", where(at), shown(type));
  SLIP_TRY(const json::object* range, get_object(leaf, "x-bins", where(at)));
  Inherited inside = at;
  inside.path += ".x-bins";
  for (const auto& member : *range)
    if (const std::string_view key = member.key();
        key != "first" && key != "last" && key != "descending" && key != "low" && key != "high" && key != "count")
      return unsupported("{}: expected first, last, count, descending, low or high, got '{}'", where(inside), shown(key));
  BinsSpec spec{.count = static_cast<int32_t>(count), .number = type == "number"};
  SLIP_TRY(spec.first, get_string(*range, "first", where(inside)));
  SLIP_TRY(spec.last, get_string(*range, "last", where(inside)));
  SLIP_TRY(spec.ids, get_int(*range, "count", where(inside)));
  SLIP_TRY(spec.descending, bool_or(*range, "descending", false, where(inside)));
  if (spec.number) {
    SLIP_TRY(spec.low, get_number(*range, "low", where(inside)));
    SLIP_TRY(spec.high, get_number(*range, "high", where(inside)));
    if (!(spec.low < spec.high) || !std::isfinite(spec.high - spec.low))
      return bad_input("{}: expected low below high, got {} and {}", where(inside), spec.low, spec.high);
  }
  open(at, false);
  SLIP_TRY_(field({.kind = std::move(spec)}, at));
  close(at, false);
  return {};
}

}  // namespace slip
