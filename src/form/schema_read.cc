// SPDX-License-Identifier: Apache-2.0
// The schema's tree walked in order into text and fields. Keywords are an allow-list per kind of node: what is not known is
// refused by name and place, since a keyword silently dropped would be a promise broken.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include "form/json_text.h"
#include "form/schema_text.h"

namespace slip {
namespace {

using Keys = std::initializer_list<std::string_view>;

constexpr int64_t kMostItems = 4096;      // array items, words of an enum; a longer one is a mistake in the schema
constexpr int64_t kMostBudget = 1 << 16;  // twice the 32,768 positions that the models which forms are for were trained with
// Arrays in arrays multiply: the whole form is bounded while it is read, before anything of its size is allocated.
constexpr size_t kMostFields = 4096;         // a text field's rules list some 6,000 ids with Qwen's vocabulary: 100 MB
constexpr int64_t kMostPositions = 1 << 16;  // of values; as kMostBudget
constexpr int64_t kMostText = 1 << 18;       // bytes of fixed text: kMostPositions tokens at 4 bytes each

/// What a node hands down to those below it.
struct Inherited {
  std::string name, path;
  int32_t section = 0;
  std::vector<std::string> parents;
  bool has_parents = false, in_array = false, in_text = false;
  int depth = 0;
};

bool needs_escape(std::string_view s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20; });
}

/// What JSON lets stand between two items: a comma, spaces around it.
bool separates(std::string_view s) {
  return std::count(s.begin(), s.end(), ',') == 1 && s.find_first_not_of(" ,") == std::string_view::npos;
}

class Reader {
 public:
  explicit Reader(std::string_view form) : form_(form) {}

  Result<FormText> read(const json::value& schema) {
    Inherited root{.path = "$"};
    if (schema.is_object() && schema.get_object().contains("x-block-size")) {
      SLIP_TRY(const int64_t size, get_int(schema.get_object(), "x-block-size", where(root)));
      if (size < 1 || size > kMostBudget) return bad_input("{}: expected an x-block-size of at least 1, got {}", where(root), size);
      out_.block_size = static_cast<int32_t>(size);
    }
    SLIP_TRY_(node(schema, root));
    SLIP_TRY_(fits(root));
    if (out_.section_names.empty()) out_.section_names = {"answer"};
    if (out_.pieces.empty()) return bad_input("{}: expected something to write, got nothing", where(root));
    return std::move(out_);
  }

 private:
  std::string where(const Inherited& at) const { return fmt::format("form {}: {}", form_, at.path); }

  /// Asked before every node: each writes a character or a field, so that no schema grows past this by more than one text of its own.
  Status fits(const Inherited& at) const {
    if (out_.fields.size() > kMostFields)
      return bad_input("{}: expected at most {} fields in the whole form, got more", where(at), kMostFields);
    if (positions_ > kMostPositions)
      return bad_input("{}: expected at most {} positions of values in the whole form, got more", where(at), kMostPositions);
    if (text_bytes_ > kMostText)
      return bad_input("{}: expected at most {} bytes of fixed text in the whole form, got more", where(at), kMostText);
    return {};
  }

  Status only_keys(const json::object& o, const Inherited& at, Keys known) const {
    static constexpr std::string_view kAnnotations[] = {"title",    "description", "$schema",   "$id",
                                                        "$comment", "x-parents",   "x-section", "x-block-size"};
    for (const auto& member : o) {
      const std::string_view key(member.key().data(), member.key().size());
      if (std::find(known.begin(), known.end(), key) == known.end() &&
          std::find(std::begin(kAnnotations), std::end(kAnnotations), key) == std::end(kAnnotations))
        return unsupported("{}: expected a keyword that forms know here, got '{}'", where(at), shown(key));
      if (key == "x-block-size" && at.path != "$")
        return bad_input("{}: expected x-block-size at the root alone, got it here", where(at));
    }
    return {};
  }

  void write(std::string_view text, const Inherited& at) {
    if (text.empty()) return;
    if (out_.pieces.empty() || out_.pieces.back().field >= 0 || out_.pieces.back().section != at.section)
      out_.pieces.push_back({.section = at.section});
    out_.pieces.back().text += text;
    text_bytes_ += static_cast<int64_t>(text.size());
  }

  void field(FieldSpec spec, const Inherited& at) {
    spec.name = at.name.empty() ? "answer" : at.name;
    spec.path = at.path;
    spec.section = at.section;
    spec.has_parents = at.has_parents;
    spec.parent_names = at.parents;
    spec.in_array = at.in_array;
    spec.first_in_array = at.in_array && std::exchange(array_begins_, false);
    positions_ += spec.budget > 0 ? spec.budget : longest_value(spec);
    out_.pieces.push_back({.field = static_cast<int32_t>(out_.fields.size()), .section = at.section});
    out_.fields.push_back(std::move(spec));
  }

  /// Bytes, of which no tokenizer makes more tokens.
  static int64_t longest_value(const FieldSpec& spec) {
    size_t longest = 1;
    if (const auto* choice = std::get_if<ChoiceSpec>(&spec.kind))
      for (const std::string& word : choice->words) longest = std::max(longest, word.size());
    if (const auto* number = std::get_if<NumberFormat>(&spec.kind)) longest = number->spelled.size();
    return static_cast<int64_t>(longest);
  }

  Status budget(const json::object& o, const Inherited& at, FieldSpec& spec) const {
    SLIP_TRY(const int64_t n, int_or(o, "x-budget", 0, where(at)));
    if (o.contains("x-budget") && (n < 1 || n > kMostBudget))
      return bad_input("{}: expected an x-budget of 1 to {}, got {}", where(at), kMostBudget, n);
    spec.budget = static_cast<int32_t>(n);
    SLIP_TRY(spec.null_pad, bool_or(o, "x-null-pad", false, where(at)));
    SLIP_TRY(spec.end, bool_or(o, "x-end", false, where(at)));
    return {};
  }

  Status parents(const json::object& o, Inherited& at) {
    if (!o.contains("x-parents")) return {};
    SLIP_TRY(const json::array* list, get_array(o, "x-parents", where(at)));
    at.parents.clear();
    for (const json::value& v : *list) {
      if (!v.is_string()) return bad_input("{}: expected names in x-parents, got {}", where(at), shown_json(v));
      at.parents.emplace_back(v.get_string());
    }
    at.has_parents = out_.any_parents = true;
    return {};
  }

  Status node(const json::value& schema, Inherited at) {
    SLIP_TRY_(fits(at));
    if (!schema.is_object()) return bad_input("{}: expected an object, got {}", where(at), shown_json(schema));
    if (at.depth > 64) return bad_input("{}: expected at most 64 levels, got more", where(at));
    const json::object& o = schema.get_object();
    SLIP_TRY_(parents(o, at));
    if (o.contains("const")) return constant(o, at);
    if (o.contains("enum")) return choice(o, at);
    if (!o.contains("type")) return unsupported("{}: expected 'type', 'enum' or 'const', got none of them", where(at));
    SLIP_TRY(const std::string type, get_string(o, "type", where(at)));
    if (type == "object") return object(o, at);
    if (type == "array") return array(o, at);
    if (type == "string") return o.contains("x-content") ? content(o, at) : text(o, at);
    if (type == "number" || type == "integer") return number(o, at);
    if (type == "boolean") return boolean(o, at);
    return unsupported("{}: expected type object, array, string, number, integer or boolean, got '{}'", where(at), shown(type));
  }

  Status constant(const json::object& o, const Inherited& at) {
    SLIP_TRY_(only_keys(o, at, {"const", "type"}));
    const json::value& v = o.at("const");
    if (v.is_structured() || (v.is_string() && at.in_text))
      return unsupported("{}: expected a plain constant, got {}", where(at), shown_json(v));
    if (v.is_double() && !std::isfinite(v.get_double()))
      return bad_input("{}: expected a number that a double holds, got {}", where(at), shown_json(v));
    write(plain_json(v), at);
    return {};
  }

  Status choice(const json::object& o, const Inherited& at) {
    SLIP_TRY_(only_keys(o, at, {"enum", "type", "x-budget", "x-null-pad", "x-end", "x-aliases"}));
    SLIP_TRY(const std::string type, string_or(o, "type", "string", where(at)));
    if (type != "string" || at.in_text)
      return unsupported("{}: expected an enum of strings outside x-content, got another", where(at));
    SLIP_TRY(const json::array* list, get_array(o, "enum", where(at)));
    if (list->size() > static_cast<size_t>(kMostItems))
      return bad_input("{}: expected at most {} words in enum, got {}", where(at), kMostItems, list->size());
    ChoiceSpec choice;
    for (const json::value& v : *list) {
      if (!v.is_string()) return unsupported("{}: expected strings in enum, got {}", where(at), shown_json(v));
      const std::string word(v.get_string());
      if (word.empty() || needs_escape(word))
        return unsupported("{}: expected words without quotes, got {}", where(at), shown_json(v));
      if (std::find(choice.words.begin(), choice.words.end(), word) != choice.words.end())
        return bad_input("{}: expected different words in enum, got '{}' twice", where(at), shown(word));
      choice.words.push_back(word);
    }
    if (choice.words.empty()) return bad_input("{}: expected at least one word in enum, got none", where(at));
    SLIP_TRY_(aliases(o, at, choice));
    FieldSpec spec{.kind = std::move(choice)};
    SLIP_TRY_(budget(o, at, spec));
    write("\"", at);
    field(std::move(spec), at);
    write("\"", at);
    return {};
  }

  Status aliases(const json::object& o, const Inherited& at, ChoiceSpec& choice) const {
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

  Status boolean(const json::object& o, const Inherited& at) {
    SLIP_TRY_(only_keys(o, at, {"type", "x-budget", "x-null-pad", "x-end"}));
    FieldSpec spec{.kind = ChoiceSpec{{"true", "false"}, {}}};
    SLIP_TRY_(budget(o, at, spec));
    field(std::move(spec), at);
    return {};
  }

  Status text(const json::object& o, const Inherited& at) {
    SLIP_TRY_(only_keys(o, at, {"type", "x-budget", "x-null-pad", "x-end"}));
    if (at.in_text) return unsupported("{}: expected numbers inside x-content, got a string", where(at));
    FieldSpec spec{.kind = TextSpec{}};
    SLIP_TRY_(budget(o, at, spec));
    if (spec.budget == 0) return bad_input("{}: expected x-budget, got none", where(at));
    write("\"", at);
    field(std::move(spec), at);
    write("\"", at);
    return {};
  }

  Status content(const json::object& o, Inherited at) {
    SLIP_TRY_(only_keys(o, at, {"type", "x-content"}));
    if (at.in_text) return unsupported("{}: expected x-content once, got it inside another", where(at));
    write("\"", at);
    Inherited below = at;
    below.path += ".x-content";
    below.in_text = true;
    ++below.depth;
    SLIP_TRY_(node(o.at("x-content"), below));
    write("\"", at);
    return {};
  }

  Status number(const json::object& o, const Inherited& at) {
    SLIP_TRY_(only_keys(o, at, {"type", "x-format"}));
    if (!o.contains("x-format")) return bad_input("{}: expected x-format, got none", where(at));
    SLIP_TRY(const std::string spelled, get_string(o, "x-format", where(at)));
    SLIP_TRY(NumberFormat format, parse_number_format(spelled, where(at)));
    // JSON has no number +1 and none 012; inside a string (x-content) both are text like any other.
    if (!at.in_text && format.sign)
      return bad_input("{}: expected an x-format without '+' outside x-content, since +1 is no JSON number, got \"{}\"", where(at),
                       shown(spelled));
    if (!at.in_text && format.integer_digits > 1)
      return bad_input(
          "{}: expected an x-format with one digit before the point outside x-content, since 012 is no JSON number, got \"{}\"",
          where(at), shown(spelled));
    field({.kind = std::move(format)}, at);
    return {};
  }

  Status array(const json::object& o, Inherited at) {
    SLIP_TRY_(only_keys(o, at, {"type", "items", "minItems", "maxItems", "x-separator"}));
    SLIP_TRY(const int64_t least, int_or(o, "minItems", -1, where(at)));
    SLIP_TRY(const int64_t most, int_or(o, "maxItems", -1, where(at)));
    if (least != most || least < 0)
      return unsupported("{}: expected minItems equal to maxItems, got {} and {}", where(at), least, most);
    if (least < 1 || least > kMostItems) return bad_input("{}: expected 1 to {} items, got {}", where(at), kMostItems, least);
    if (!o.contains("items")) return bad_input("{}: expected items, got none", where(at));
    SLIP_TRY(const std::string separator, string_or(o, "x-separator", ", ", where(at)));
    if (needs_escape(separator))
      return bad_input("{}: expected an x-separator without quotes, got '{}'", where(at), shown(separator));
    if (!at.in_text && !separates(separator))
      return bad_input("{}: expected an x-separator of one comma and spaces outside x-content, as JSON has it, got '{}'", where(at),
                       shown(separator));
    if (!at.in_array) array_begins_ = true;
    write("[", at);
    for (int64_t i = 0; i < least; ++i) {
      if (i > 0) write(separator, at);
      Inherited below = at;
      below.name += fmt::format("{}{}", at.name.empty() ? "" : ".", i);
      below.path += ".items";
      below.in_array = true;
      ++below.depth;
      SLIP_TRY_(node(o.at("items"), below));
    }
    write("]", at);
    return {};
  }

  Status object(const json::object& o, Inherited at) {
    SLIP_TRY_(only_keys(o, at, {"type", "properties", "required", "additionalProperties"}));
    if (at.in_text) return unsupported("{}: expected arrays and numbers inside x-content, got an object", where(at));
    SLIP_TRY(const json::object* properties, get_object(o, "properties", where(at)));
    SLIP_TRY_(required_exist(o, *properties, at));
    const bool top = at.path == "$";
    bool first = true;
    std::string before = "{";
    for (const auto& member : *properties) {
      Inherited below = at;
      const std::string key(member.key());
      below.name += fmt::format("{}{}", at.name.empty() ? "" : ".", key);
      below.path += ".properties." + shown(key);
      ++below.depth;
      if (top) {
        SLIP_TRY_(enter_section(member.value(), below));
        at.section = below.section;
      } else if (member.value().is_object() && member.value().get_object().contains("x-section")) {
        return bad_input("{}: expected x-section on members of the root alone, got it here", where(below));
      }
      write(before + json::serialize(json::string_view(key)) + ": ", below);
      SLIP_TRY_(node(member.value(), below));
      before = ", ";
      first = false;
    }
    write(first ? "{}" : "}", at);
    return {};
  }

  Status enter_section(const json::value& member, Inherited& at) {
    if (!member.is_object()) return {};
    const json::object& o = member.get_object();
    if (o.contains("x-section")) {
      SLIP_TRY(const std::string name, get_string(o, "x-section", where(at)));
      if (out_.section_names.empty() || out_.section_names.back() != name) {
        if (std::find(out_.section_names.begin(), out_.section_names.end(), name) != out_.section_names.end())
          return bad_input("{}: expected the members of section '{}' side by side, got others between", where(at), shown(name));
        out_.section_names.push_back(name);
      }
    } else if (out_.section_names.empty()) {
      out_.section_names.push_back("answer");
    }
    at.section = static_cast<int32_t>(out_.section_names.size()) - 1;
    return {};
  }

  Status required_exist(const json::object& o, const json::object& properties, const Inherited& at) const {
    if (o.contains("additionalProperties") && !(o.at("additionalProperties").is_bool() && !o.at("additionalProperties").get_bool()))
      return unsupported("{}: expected additionalProperties false, got {}", where(at), shown_json(o.at("additionalProperties")));
    if (!o.contains("required")) return {};
    SLIP_TRY(const json::array* list, get_array(o, "required", where(at)));
    for (const json::value& v : *list)
      if (!v.is_string() || !properties.contains(v.get_string()))
        return bad_input("{}: expected names of properties in required, got {}", where(at), shown_json(v));
    return {};
  }

  std::string form_;
  FormText out_;
  bool array_begins_ = false;
  int64_t positions_ = 0, text_bytes_ = 0;
};

}  // namespace

Result<FormText> read_schema(const json::value& schema, std::string_view form_name) { return Reader(form_name).read(schema); }

Result<NumberFormat> parse_number_format(std::string_view spelled, std::string_view where) {
  NumberFormat f;
  f.spelled = spelled;
  f.integer_digits = 0;
  size_t i = 0;
  const auto take = [&](char c) { return i < spelled.size() && spelled[i] == c && ++i; };
  f.space = take(' ');
  f.sign = take('+');
  while (take('0')) ++f.integer_digits;
  const bool point = take('.');
  while (point && take('0')) ++f.decimals;
  // 15 digits: every such decimal goes through a double and back unchanged.
  if (i != spelled.size() || f.integer_digits < 1 || (point && f.decimals < 1) || f.integer_digits + f.decimals > 15)
    return bad_input("{}: expected an x-format like \"+000.00\" of at most 15 digits, got \"{}\"", where, shown(spelled));
  return f;
}

std::string NumberFormat::render(double value) const {
  std::string s;
  if (space) s += ' ';
  if (sign) s += std::signbit(value) ? '-' : '+';
  const int width = integer_digits + (decimals > 0 ? decimals + 1 : 0);
  return s + fmt::format("{:0{}.{}f}", std::fabs(value), width, decimals);
}

double NumberFormat::largest() const { return std::pow(10.0, integer_digits) - std::pow(10.0, -decimals); }

}  // namespace slip
