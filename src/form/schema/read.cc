// SPDX-License-Identifier: Apache-2.0
// The tree of a schema: layouts, objects, arrays, what is inherited, and the fixed text between values.
#include <algorithm>

#include "form/json_text.h"
#include "form/schema/reader.h"

namespace slip {
namespace {

// Arrays in arrays multiply: the whole form is bounded while it is read, before anything of its size is allocated.
constexpr size_t kMostFields = 4096;
constexpr int64_t kMostRules = 8192;         // lists of the 6,000 ids that text may not hold in Qwen's vocabulary: 200 MB
constexpr int64_t kMostPositions = 1 << 16;  // of values; as kMostBudget
constexpr int64_t kMostText = 1 << 18;       // bytes of fixed text: kMostPositions tokens at 4 bytes each

/// "object_1" -> "object 1"
std::string spaced(std::string_view key) {
  std::string s(key);
  std::replace_if(
      s.begin(), s.end(), [](char c) { return c == '_' || c == '.'; }, ' ');
  return s;
}

/// What JSON lets stand between two items: a comma, spaces around it.
bool separates(std::string_view s) {
  return std::count(s.begin(), s.end(), ',') == 1 && s.find_first_not_of(" ,") == std::string_view::npos;
}

}  // namespace

Result<FormText> read_schema(const json::value& schema, std::string_view form_name) { return SchemaReader(form_name).read(schema); }

bool has_control(std::string_view s) {
  return std::any_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

bool needs_escape(std::string_view s) { return has_control(s) || s.find_first_of("\"\\") != std::string_view::npos; }

Result<FormText> SchemaReader::read(const json::value& schema) {
  Inherited root{.path = "$"};
  if (schema.is_object() && schema.get_object().contains("x-block-size")) {
    SLIP_TRY(const int64_t size, get_int(schema.get_object(), "x-block-size", where(root)));
    if (size < 1 || size > kMostBudget) return bad_input("{}: expected an x-block-size of at least 1, got {}", where(root), size);
    out_.block_size = static_cast<int32_t>(size);
  }
  SLIP_TRY_(layout(schema, root));
  SLIP_TRY_(node(schema, root));
  SLIP_TRY_(fits(root));
  for (const FieldSpec& f : out_.fields)
    if (f.leaves_out && !out_.any_parents)
      return unsupported("form {}: {}: expected x-parents beside x-unused 'absent', along whose graph fields are decoded, got none",
                         form_, f.path);
  if (out_.section_names.empty()) out_.section_names = {"answer"};
  if (out_.pieces.empty()) return bad_input("{}: expected something to write, got nothing", where(root));
  return std::move(out_);
}

/// Asked before every node: each writes a character or a field, so that no schema grows past this by more than one text of its own.
Status SchemaReader::fits(const Inherited& at) const {
  if (out_.fields.size() > kMostFields)
    return bad_input("{}: expected at most {} fields in the whole form, got more", where(at), kMostFields);
  if (rules_ > kMostRules)
    return bad_input("{}: expected less free text in the whole form (fields, lines and instances count {}), got more", where(at),
                     kMostRules);
  if (positions_ > kMostPositions)
    return bad_input("{}: expected at most {} positions of values in the whole form, got more", where(at), kMostPositions);
  if (text_bytes_ > kMostText)
    return bad_input("{}: expected at most {} bytes of fixed text in the whole form, got more", where(at), kMostText);
  return {};
}

Status SchemaReader::layout(const json::value& schema, const Inherited& root) {
  if (!schema.is_object()) return {};
  SLIP_TRY(const std::string name, string_or(schema.get_object(), "x-layout", "json", where(root)));
  if (name == "lines")
    out_.layout = Layout::kLines;
  else if (name == "tokens")
    out_.layout = Layout::kTokens;
  else if (name != "json")
    return unsupported("{}: expected an x-layout of 'json', 'lines' or 'tokens', got '{}'", where(root), shown(name));
  SLIP_TRY(const std::string type, string_or(schema.get_object(), "type", "object", where(root)));
  if (!json_text() && type != "object")
    return bad_input("{}: expected type object at the root of {}, got '{}'", where(root), name, shown(type));
  return {};
}

Status SchemaReader::only_keys(const json::object& o, const Inherited& at, Keys known) const {
  static constexpr std::string_view kAnnotations[] = {"title",     "description", "$schema",       "$id",       "$comment",
                                                      "x-parents", "x-section",   "x-block-size",  "x-layout",  "x-label",
                                                      "x-before",  "x-after",     "x-instance-of", "x-instance"};
  for (const auto& member : o) {
    const std::string_view key(member.key().data(), member.key().size());
    if (std::find(known.begin(), known.end(), key) == known.end() &&
        std::find(std::begin(kAnnotations), std::end(kAnnotations), key) == std::end(kAnnotations))
      return unsupported("{}: expected a keyword that forms know here, got '{}'", where(at), shown(key));
    if ((key == "x-block-size" || key == "x-layout") && at.path != "$")
      return bad_input("{}: expected {} at the root alone, got it here", where(at), key);
    if (key == "x-label" && (!on_line(at) || at.path == "$"))
      return bad_input("{}: expected x-label on the members of a layout of lines alone, got it here", where(at));
    if ((key == "x-before" || key == "x-after") && out_.layout != Layout::kTokens)
      return bad_input("{}: expected {} in a layout of tokens alone, got it here", where(at), key);
  }
  return {};
}

void SchemaReader::write(std::string_view text, const Inherited& at) {
  if (text.empty()) return;
  if (out_.pieces.empty() || out_.pieces.back().field >= 0 || out_.pieces.back().section != at.section)
    out_.pieces.push_back({.section = at.section});
  out_.pieces.back().text += text;
  text_bytes_ += static_cast<int64_t>(text.size());
}

Status SchemaReader::write_tokens(const json::object& o, const char* key, const Inherited& at) {
  if (!o.contains(key)) return {};
  SLIP_TRY(const json::array* list, get_array(o, key, where(at)));
  for (const json::value& v : *list) {
    if (!v.is_string() || v.get_string().empty())
      return bad_input("{}: expected tokens as the vocabulary spells them in {}, got {}", where(at), key, shown_json(v));
    write(v.get_string(), at);
    out_.pieces.back().tokens.emplace_back(v.get_string());
  }
  return {};
}

Status SchemaReader::inherit_instance(const json::object& o, Inherited& at) const {
  if (o.contains("x-instance-of")) {
    SLIP_TRY(at.instance_of, get_string(o, "x-instance-of", where(at)));
  }
  if (o.contains("x-instance")) {
    SLIP_TRY(at.instance, get_int(o, "x-instance", where(at)));
  }
  return {};
}

Status SchemaReader::parents(const json::object& o, Inherited& at) {
  if (!o.contains("x-parents")) return {};
  SLIP_TRY(const json::array* list, get_array(o, "x-parents", where(at)));
  at.parents.clear();
  for (const json::value& v : *list) {
    if (!v.is_string()) return bad_input("{}: expected names in x-parents, got {}", where(at), shown_json(v));
    at.parents.emplace_back(v.get_string());
  }
  out_.any_parents = true;
  return {};
}

Status SchemaReader::node(const json::value& schema, Inherited at) {
  SLIP_TRY_(fits(at));
  if (!schema.is_object()) return bad_input("{}: expected an object, got {}", where(at), shown_json(schema));
  if (at.depth > 64) return bad_input("{}: expected at most 64 levels, got more", where(at));
  const json::object& o = schema.get_object();
  SLIP_TRY_(parents(o, at));
  SLIP_TRY_(inherit_instance(o, at));
  SLIP_TRY_(write_tokens(o, "x-before", at));
  SLIP_TRY_(value(o, at));
  return write_tokens(o, "x-after", at);
}

Status SchemaReader::value(const json::object& o, const Inherited& at) {
  if (o.contains("const")) return constant(o, at);
  if (o.contains("enum")) return choice(o, at);
  if (!o.contains("type")) return unsupported("{}: expected 'type', 'enum' or 'const', got none of them", where(at));
  SLIP_TRY(const std::string type, get_string(o, "type", where(at)));
  if (type == "object") return object(o, at);
  if (type == "array") return array(o, at);
  if (type == "string") return o.contains("x-content") ? content(o, at) : text(o, at);
  if (type == "number" || type == "integer") return o.contains("x-bins") ? bins(o, at, 0) : number(o, at);
  if (type == "boolean") return boolean(o, at);
  return unsupported("{}: expected type object, array, string, number, integer or boolean, got '{}'", where(at), shown(type));
}

Status SchemaReader::content(const json::object& o, Inherited at) {
  SLIP_TRY_(only_keys(o, at, {"type", "x-content"}));
  if (at.in_text) return unsupported("{}: expected x-content once, got it inside another", where(at));
  Inherited below = at;
  below.path += ".x-content";
  ++below.depth;
  if (!json_text()) return node(o.at("x-content"), below);  // a line is text already
  write("\"", at);
  below.in_text = true;
  SLIP_TRY_(node(o.at("x-content"), below));
  write("\"", at);
  return {};
}

Status SchemaReader::array(const json::object& o, Inherited at) {
  SLIP_TRY_(only_keys(o, at, {"type", "items", "minItems", "maxItems", "x-separator", "x-independent"}));
  SLIP_TRY(const int64_t least, int_or(o, "minItems", -1, where(at)));
  SLIP_TRY(const int64_t most, int_or(o, "maxItems", -1, where(at)));
  if (least != most || least < 0)
    return unsupported("{}: expected minItems equal to maxItems, got {} and {}", where(at), least, most);
  if (least < 1 || least > kMostItems) return bad_input("{}: expected 1 to {} items, got {}", where(at), kMostItems, least);
  if (!o.contains("items")) return bad_input("{}: expected items, got none", where(at));
  const json::object* item = o.at("items").if_object();
  if (item && item->contains("x-bins")) return bins(o, at, least);
  if (out_.layout == Layout::kTokens)
    return unsupported("{}: expected items of x-bins in a layout of tokens, got others", where(at));
  SLIP_TRY(const std::string separator, string_or(o, "x-separator", ", ", where(at)));
  if (!json_text() ? has_control(separator) : needs_escape(separator))
    return bad_input("{}: expected an x-separator without {}, got '{}'", where(at), !json_text() ? "line breaks" : "quotes",
                     shown(separator));
  if (!in_text(at) && !separates(separator))
    return bad_input("{}: expected an x-separator of one comma and spaces outside x-content, as JSON has it, got '{}'", where(at),
                     shown(separator));
  SLIP_TRY(const bool independent, bool_or(o, "x-independent", false, where(at)));
  open(at, false);
  write(on_line(at) ? " [" : "[", at);
  SLIP_TRY_(items(o.at("items"), at, least, separator, independent));
  write("]", at);
  close(at, false);
  return {};
}

/// Items depend on the item before, or, side by side, each on what the array depends on.
Status SchemaReader::items(const json::value& item, const Inherited& at, int64_t count, const std::string& separator,
                           bool independent) {
  Inherited below = at;
  below.path += ".items";
  below.in_array = true;
  below.in_text = in_text(at);
  if (!below.before_array) below.before_array = static_cast<int32_t>(out_.fields.size()) - 1;
  ++below.depth;
  std::vector<int32_t> all;
  for (int64_t i = 0; i < count; ++i) {
    if (i > 0) write(separator, at);
    below.name = fmt::format("{}{}{}", at.name, at.name.empty() ? "" : ".", i);
    last_.clear();
    SLIP_TRY_(node(item, below));
    if (independent)
      all.insert(all.end(), last_.begin(), last_.end());
    else if (!last_.empty())
      below.after = all = last_;
  }
  last_ = std::move(all);
  return {};
}

Status SchemaReader::object(const json::object& o, Inherited at) {
  SLIP_TRY_(only_keys(o, at, {"type", "properties", "required", "additionalProperties"}));
  if (at.in_text) return unsupported("{}: expected arrays and numbers inside x-content, got an object", where(at));
  SLIP_TRY(const json::object* properties, get_object(o, "properties", where(at)));
  SLIP_TRY_(required_exist(o, *properties, at));
  const bool top = at.path == "$";
  bool first = true;
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
    if (on_line(at))
      SLIP_TRY_(enter_line(member.value(), key, below));
    else if (json_text())
      write((first ? "{" : ", ") + json::serialize(json::string_view(key)) + ": ", below);
    last_.clear();
    SLIP_TRY_(node(member.value(), below));
    if (at.in_array && !last_.empty()) at.after = last_;  // members of an item are a chain
    first = false;
  }
  if (json_text()) write(first ? "{}" : "}", at);
  return {};
}

/// A member's label: its own, or its name behind that of the object around it.
Status SchemaReader::enter_line(const json::value& member, const std::string& key, Inherited& at) const {
  const std::string named = (at.label.empty() ? "" : at.label + " ") + spaced(key);
  at.label = named;
  if (member.is_object()) {
    SLIP_TRY(at.label, string_or(member.get_object(), "x-label", named, where(at)));
  }
  if (at.label.empty() || has_control(at.label))
    return bad_input("{}: expected a label of one line, got '{}'", where(at), shown(at.label));
  return {};
}

Status SchemaReader::enter_section(const json::value& member, Inherited& at) {
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

Status SchemaReader::required_exist(const json::object& o, const json::object& properties, const Inherited& at) const {
  if (o.contains("additionalProperties") && !(o.at("additionalProperties").is_bool() && !o.at("additionalProperties").get_bool()))
    return unsupported("{}: expected additionalProperties false, got {}", where(at), shown_json(o.at("additionalProperties")));
  if (!o.contains("required")) return {};
  SLIP_TRY(const json::array* list, get_array(o, "required", where(at)));
  for (const json::value& v : *list)
    if (!v.is_string() || !properties.contains(v.get_string()))
      return bad_input("{}: expected names of properties in required, got {}", where(at), shown_json(v));
  return {};
}

}  // namespace slip
