// SPDX-License-Identifier: Apache-2.0
// Keywords. Those of annotations are passed over; what this engine does not do, and what nobody knows, is refused by its pointer.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "base/words/near_word.h"
#include "form/json_text.h"
#include "form/schema/typed/reader.h"
#include "form/schema/typed/string_formats.h"
#include "form/schema/typed/trained_keywords.h"
#include "form/schema/typed/wrapper.h"

namespace slip {
namespace {

constexpr std::array<std::string_view, 25> kAnnotations = {
    "title",         "description", "default",       "examples",  "example",      "deprecated",      "readOnly",
    "writeOnly",     "$schema",     "$id",           "$comment",  "$defs",        "definitions",     "id",
    "$anchor",       "$vocabulary", "discriminator", "xml",       "externalDocs", "contentEncoding", "contentMediaType",
    "contentSchema", "then",        "else",          "components"};  // components: OpenAPI's $defs

/// Those that say something of a value.
const std::vector<std::string> kAsserting = {"type",
                                             "enum",
                                             "const",
                                             "minimum",
                                             "maximum",
                                             "exclusiveMinimum",
                                             "exclusiveMaximum",
                                             "multipleOf",
                                             "minLength",
                                             "maxLength",
                                             "pattern",
                                             "format",
                                             "properties",
                                             "required",
                                             "minProperties",
                                             "maxProperties",
                                             "patternProperties",
                                             "additionalProperties",
                                             "unevaluatedProperties",
                                             "propertyNames",
                                             "items",
                                             "prefixItems",
                                             "minItems",
                                             "maxItems",
                                             "uniqueItems",
                                             "additionalItems",
                                             "anyOf",
                                             "oneOf",
                                             "allOf",
                                             "not",
                                             "if",
                                             "dependentRequired",
                                             "dependentSchemas",
                                             "dependencies",
                                             "nullable",
                                             "$ref",
                                             "title",
                                             "description",
                                             "default",
                                             "examples",
                                             "deprecated",
                                             "$defs"};

/// OpenAPI's formats of numbers.
bool is_number_format(std::string_view name) {
  static constexpr std::array<std::string_view, 4> kNames = {"int32", "int64", "float", "double"};
  return std::find(kNames.begin(), kNames.end(), name) != kNames.end();
}

/// Schemas by name and nothing that is asked of an answer.
bool is_definitions_alone(const json::object& o) {
  return (o.contains("$defs") || o.contains("definitions") || o.contains("components")) &&
         std::all_of(o.begin(), o.end(), [](const auto& m) { return is_annotation(m.key()); });
}

}  // namespace

bool is_annotation(std::string_view key) { return std::find(kAnnotations.begin(), kAnnotations.end(), key) != kAnnotations.end(); }

std::string pointer_part(std::string_view key) {
  std::string s = "/";
  for (const char c : shown(key))
    if (c == '~')
      s += "~0";
    else if (c == '/')
      s += "~1";
    else
      s += c;
  return s;
}

TypedReader::Part TypedReader::below(const Part& at, std::string_view key, const json::value& v) const {
  return {.schema = &v, .pointer = at.pointer + pointer_part(key), .trail = at.trail};
}

std::optional<int64_t> TypedReader::count(const json::value& v, const std::string& pointer) {
  double d = -1;
  if (v.is_number()) d = v.to_number<double>();
  if (d >= 0 && d == std::floor(d)) return static_cast<int64_t>(std::min(d, 1e9));  // more than any answer has
  bad(pointer, fmt::format("expected a count, got {}", shown_json(v)));
  return std::nullopt;
}

std::optional<double> TypedReader::number(const json::value& v, const std::string& pointer) {
  if (v.is_number() && std::isfinite(v.to_number<double>())) return v.to_number<double>();
  bad(pointer, fmt::format("expected a number, got {}", shown_json(v)));
  return std::nullopt;
}

std::vector<TypedReader::Part>& TypedReader::property(Place& place, const std::string& key) {
  for (auto& [name, parts] : place.properties)
    if (name == key) return parts;
  work_ += static_cast<int64_t>(place.properties.size() / 64);
  return place.properties.emplace_back(key, std::vector<Part>{}).second;
}

void TypedReader::gather(const Part& part, Place& place) {
  ++work_;
  if (full()) return;
  static const json::value kTrue = true;
  if (part.none_of != nullptr && part.schema == nullptr) {  // of the member that the pointer names
    Part inside = part;
    inside.schema = &kTrue;
    property(place, part.pointer).push_back(std::move(inside));
    return;
  }
  if (part.none_of != nullptr) place.none_of.push_back(part.none_of);
  const json::value& v = *part.schema;
  if (v.is_bool()) {
    if (!v.get_bool()) place.dead = "nothing is valid here (false)", ++closed_;
    return;
  }
  if (const json::array* list = v.if_array(); list && !list->empty() && list->front().is_object())
    if (const std::string inside = inside_wrapper(list->front().get_object()); !inside.empty())
      return bad(part.pointer,
                 fmt::format("expected a schema, got tools that hold one each: take what stands at {}/0{}", part.pointer, inside));
  if (!v.is_object()) return bad(part.pointer, fmt::format("expected a schema, got {}", shown_json(v)));
  const json::object& o = v.get_object();
  if (o.contains("openapi") || o.contains("swagger"))
    return bad(part.pointer,
               "expected a schema, got an OpenAPI document: take one of those in it, with the schemas that it refers to");
  if (part.pointer == "#" && is_definitions_alone(o))
    return bad(part.pointer,
               fmt::format("expected a schema, got definitions alone: \"$ref\": \"#/{}/NAME\" beside them asks for one",
                           o.contains("$defs")         ? "$defs"
                           : o.contains("definitions") ? "definitions"
                                                       : "components/schemas"));
  if (const std::string inside = inside_wrapper(o); !inside.empty())
    return bad(part.pointer, fmt::format("expected a schema, got a tool or a format that holds one: take what stands at {}{}",
                                         part.pointer, inside));
  for (const auto& member : o) keyword(std::string_view(member.key()), member.value(), o, part, place);
}

void TypedReader::keyword(std::string_view key, const json::value& v, const json::object& all, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "type") return type(v, at, place);
  if (key == "$ref") return reference(v, at, place);
  if (key == "nullable") {  // OpenAPI 3.0
    if (!v.is_bool()) return bad(pointer, fmt::format("expected true or false, got {}", shown_json(v)));
    return;
  }
  if (key == "const" || key == "enum") {
    std::vector<const json::value*> values;
    if (key == "const") {
      values.push_back(&v);
    } else {
      if (!v.is_array() || v.get_array().empty())
        return bad(pointer, fmt::format("expected values in enum, got {}", shown_json(v)));
      if (v.get_array().size() > static_cast<size_t>(kMostItems))
        return not_done(pointer, fmt::format("expected at most {} values, got {}", kMostItems, v.get_array().size()));
      for (const json::value& x : v.get_array()) values.push_back(&x);
    }
    if (place.values) {
      std::set<std::string> known;
      for (const json::value* y : *place.values) known.insert(canonical(*y));
      std::erase_if(values, [&](const json::value* x) { return !known.contains(canonical(*x)); });
    }
    place.values = std::move(values);
    return;
  }
  if (number_keyword(key, v, at, place) || string_keyword(key, v, at, place) || object_keyword(key, v, at, place) ||
      array_keyword(key, v, at, place) || group_keyword(key, v, all, at, place) || own_keyword(key, v, at, place))
    return;
  if (is_annotation(key)) return;
  const std::string meant = key.size() <= 32 ? near_word(key, kAsserting) : std::string();
  not_done(pointer, fmt::format("expected a keyword that forms know here, got '{}'{}", shown(key),
                                meant.empty() ? "" : fmt::format(" (did you mean '{}'?)", meant)));
}

void TypedReader::type(const json::value& v, const Part& at, Place& place) {
  static constexpr std::array<std::pair<std::string_view, uint32_t>, 7> kNames = {{{"string", kString},
                                                                                   {"number", kNumber | kInteger},
                                                                                   {"integer", kInteger},
                                                                                   {"boolean", kBoolean},
                                                                                   {"null", kNull},
                                                                                   {"object", kObject},
                                                                                   {"array", kArray}}};
  uint32_t types = 0;
  const auto add_name = [&](const json::value& name) {
    for (const auto& [n, bits] : kNames)
      if (name.is_string() && view(name.get_string()) == n) {
        types |= bits;
        return;
      }
    bad(at.pointer + "/type",
        fmt::format("expected string, number, integer, boolean, null, object or array, got {}", shown_json(name)));
  };
  if (v.is_array() && v.get_array().empty()) return bad(at.pointer + "/type", "expected at least one type, got none");
  if (v.is_array())
    for (const json::value& name : v.get_array()) add_name(name);
  else
    add_name(v);
  if (types == 0) return;
  const json::value* nullable = at.schema->get_object().if_contains("nullable");
  if (nullable && nullable->is_bool() && nullable->get_bool()) types |= kNull;
  place.typed = true;
  place.types &= types;
}

bool TypedReader::number_keyword(std::string_view key, const json::value& v, const Part& at, Place& place) {
  if (key != "minimum" && key != "maximum" && key != "exclusiveMinimum" && key != "exclusiveMaximum" && key != "multipleOf")
    return false;
  place.hinted |= kNumber | kInteger;
  const std::string pointer = at.pointer + pointer_part(key);
  NumberLimits& n = place.number;
  const json::object& own = at.schema->get_object();
  if (v.is_bool() && key.starts_with("exclusive")) {  // draft 4: a word about the bound beside it
    const std::string_view bound = key == "exclusiveMinimum" ? "minimum" : "maximum";
    if (!own.contains(bound)) bad(pointer, fmt::format("expected a number, or {} beside true or false, got neither", bound));
    return true;
  }
  const auto x = number(v, pointer);
  if (!x) return true;
  if (key == "multipleOf") {
    if (*x <= 0)
      bad(pointer, fmt::format("expected a number above 0, got {}", *x));
    else if (std::find(n.multiples.begin(), n.multiples.end(), *x) == n.multiples.end())
      n.multiples.push_back(*x);
    return true;
  }
  const json::value* word = own.if_contains(key == "minimum" ? "exclusiveMinimum" : "exclusiveMaximum");
  const bool exclusive = key.starts_with("exclusive") || (word && word->is_bool() && word->get_bool());
  if (key == "minimum" || key == "exclusiveMinimum") {
    if (*x > n.least || (*x == n.least && exclusive)) n.above_least = exclusive || (n.above_least && *x == n.least), n.least = *x;
  } else if (*x < n.most || (*x == n.most && exclusive)) {
    n.below_most = exclusive || (n.below_most && *x == n.most), n.most = *x;
  }
  return true;
}

bool TypedReader::string_keyword(std::string_view key, const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "minLength" || key == "maxLength") {
    place.hinted |= kString;
    const auto n = count(v, pointer);
    if (n && key == "minLength") place.min_length = std::max(place.min_length, *n);
    if (n && key == "maxLength") place.max_length = place.max_length < 0 ? *n : std::min(place.max_length, *n);
    return true;
  }
  if (key != "pattern" && key != "format") return false;
  if (!v.is_string()) return bad(pointer, fmt::format("expected a string, got {}", shown_json(v))), true;
  const std::string text(view(v.get_string()));
  if (key == "format") {
    if (const auto pattern = pattern_of_format(text)) {
      place.patterns.push_back({*pattern, pointer, true});
      place.hinted |= kString;
    } else if (!is_number_format(text) && said_.insert(pointer + " note").second && out_.notes.size() < kMostErrors) {
      out_.notes.push_back(fmt::format("{}: '{}' is a remark, to which no text is held", pointer, shown(text)));
    }
    return true;
  }
  place.hinted |= kString;
  place.patterns.push_back({text, pointer});
  return true;
}

/// `properties` and `patternProperties`.
void TypedReader::properties(std::string_view key, const json::value& v, const Part& at, Place& place) {
  place.hinted |= kObject;
  if (!v.is_object()) return bad(at.pointer + pointer_part(key), fmt::format("expected an object, got {}", shown_json(v)));
  for (const auto& member : v.get_object()) {
    if (full()) return;
    Part part = below(at, key, v);
    part.pointer += pointer_part(std::string_view(member.key()));
    part.schema = &member.value();
    if (const json::object* o = member.value().if_object(); o && key == "properties")
      if (const json::value* r = o->if_contains("required"); r && r->is_bool()) {  // draft 3
        place.has_required = true;
        if (r->get_bool()) require(std::string(std::string_view(member.key())), part.pointer + "/required", place);
      }
    if (key == "properties")
      property(place, std::string(std::string_view(member.key()))).push_back(std::move(part));
    else
      place.pattern_properties.emplace_back(std::string(std::string_view(member.key())), std::move(part));
  }
}

void TypedReader::require(const std::string& name, const std::string& pointer, Place& place) {
  place.required.emplace(name, pointer);
  place.told.erase(name);
}

bool TypedReader::object_keyword(std::string_view key, const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "properties" || key == "patternProperties") return properties(key, v, at, place), true;
  if (key == "required") {
    if (v.is_bool() && at.pointer != "#") return true;  // draft 3: of the object that this is a member of
    place.hinted |= kObject;
    if (!v.is_array()) return bad(pointer, fmt::format("expected names, got {}", shown_json(v))), true;
    place.has_required = true;
    for (const json::value& name : v.get_array())
      if (name.is_string())
        require(std::string(view(name.get_string())), at.made ? at.pointer : pointer, place);
      else
        bad(pointer, fmt::format("expected names, got {}", shown_json(name)));
    return true;
  }
  if (key == "additionalProperties" || key == "unevaluatedProperties") {
    if (!v.is_bool() && !v.is_object()) return bad(pointer, fmt::format("expected a schema, got {}", shown_json(v))), true;
    const bool none = v.is_bool() && !v.get_bool(), some = v.is_object() && !v.get_object().empty();
    if (key == "unevaluatedProperties" && (none || some) && at.inner)
      return not_done(pointer, "expected unevaluatedProperties of a whole schema, got it of one beside others"), true;
    if (none || some) place.hinted |= kObject;
    if (key == "unevaluatedProperties") {
      if (none || some) place.unevaluated.push_back(none ? Part{} : below(at, key, v));
      return true;
    }
    place.closed |= none;
    place.map |= some;
    place.opened |= !none && !some;
    if (none || some) {
      Beyond beyond{.names = {}, .patterns = {}, .others = none ? Part{} : below(at, key, v)};
      const json::object& own = at.schema->get_object();
      if (const json::value* p = own.if_contains("properties"); p && p->is_object())
        for (const auto& m : p->get_object()) beyond.names.insert(std::string(std::string_view(m.key())));
      if (const json::value* p = own.if_contains("patternProperties"); p && p->is_object())
        for (const auto& m : p->get_object()) beyond.patterns.emplace_back(std::string_view(m.key()));
      place.beyond.push_back(std::move(beyond));
    }
    return true;
  }
  if (key == "propertyNames") return property_names(v, at, place), true;
  if (key == "minProperties" || key == "maxProperties") {
    const auto n = count(v, pointer);
    if (n && key == "minProperties") place.min_properties = std::max(place.min_properties, *n);
    if (n && key == "maxProperties") place.max_properties = place.max_properties < 0 ? *n : std::min(place.max_properties, *n);
    return true;
  }
  return false;
}

void TypedReader::no_more_behind(size_t count, Place& place) {
  const auto n = static_cast<int64_t>(count);
  place.no_more_items = place.no_more_items < 0 ? n : std::min(place.no_more_items, n);
}

bool TypedReader::array_keyword(std::string_view key, const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "minItems" || key == "maxItems") {
    place.hinted |= kArray;
    const auto n = count(v, pointer);
    if (n && key == "minItems") place.min_items = std::max(place.min_items, *n);
    if (n && key == "maxItems") place.max_items = place.max_items < 0 ? *n : std::min(place.max_items, *n);
    return true;
  }
  if (key == "uniqueItems") {
    if (!v.is_bool()) return bad(pointer, fmt::format("expected true or false, got {}", shown_json(v))), true;
    place.unique = place.unique || v.get_bool();
    return true;
  }
  if (key == "additionalItems") {
    if (!v.is_bool() && !v.is_object()) bad(pointer, fmt::format("expected a schema, got {}", shown_json(v)));
    if (v.is_bool() && !v.get_bool() && at.schema->get_object().contains("items") && at.schema->at("items").is_array())
      no_more_behind(at.schema->at("items").get_array().size(), place);
    const json::value* before = at.schema->get_object().if_contains("items");
    if (v.is_object() && before && before->is_array()) place.items.emplace_back(before->get_array().size(), below(at, key, v));
    return true;
  }
  if (key != "items" && key != "prefixItems") return false;
  place.hinted |= kArray;
  if (key == "prefixItems" && !v.is_array()) return bad(pointer, fmt::format("expected schemas, got {}", shown_json(v))), true;
  if (v.is_array()) {
    for (size_t i = 0; i < v.get_array().size(); ++i) {
      Part part = below(at, key, v);
      part.pointer += "/" + std::to_string(i);
      part.schema = &v.get_array()[i];
      if (place.prefix.size() <= i) place.prefix.emplace_back();
      place.prefix[i].push_back(std::move(part));
    }
    return true;
  }
  const json::value* prefix = at.schema->get_object().if_contains("prefixItems");
  const size_t own = prefix && prefix->is_array() ? prefix->get_array().size() : 0;
  if (v.is_bool() && !v.get_bool())
    no_more_behind(own, place);
  else
    place.items.emplace_back(own, below(at, key, v));
  return true;
}

namespace {

/// "x-budget" -> "budget".
std::vector<std::string> without_prefix(std::vector<std::string> words) {
  for (std::string& w : words) w.erase(0, 2);
  return words;
}

}  // namespace

bool TypedReader::own_keyword(std::string_view key, const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "x-budget") {
    const auto n = count(v, pointer);
    if (n && (*n < 1 || *n > kMostBudget))
      bad(pointer, fmt::format("expected a budget of 1 to {}, got {}", kMostBudget, shown_json(v)));
    else if (n)
      place.budget = static_cast<int32_t>(*n);
    return true;
  }
  if (key == "x-section" || key == "x-format") {
    if (!v.is_string()) return bad(pointer, fmt::format("expected a string, got {}", shown_json(v))), true;
    if (key == "x-section")
      place.section = std::string(view(v.get_string()));
    else
      place.number_format = std::string(view(v.get_string()));
    return true;
  }
  if (key == "x-parents") {
    if (!v.is_array()) return bad(pointer, fmt::format("expected names, got {}", shown_json(v))), true;
    place.parents.emplace();
    for (const json::value& name : v.get_array())
      if (name.is_string())
        place.parents->emplace_back(view(name.get_string()));
      else
        bad(pointer, fmt::format("expected names, got {}", shown_json(name)));
    out_.any_parents = true;
    return true;
  }
  if (key == "x-block-size") {
    const auto n = count(v, pointer);
    if (n && at.pointer != "#")
      bad(pointer, "expected it at the root alone, got it of a part");
    else if (n && (*n < 1 || *n > kMostBudget))
      bad(pointer, fmt::format("expected a block size of 1 to {}, got {}", kMostBudget, shown_json(v)));
    else if (n)
      out_.block_size = static_cast<int32_t>(*n);
    return true;
  }
  if (key == "x-aliases") {
    if (v.is_object())
      place.aliases = &v.get_object();
    else
      bad(pointer, fmt::format("expected an object, got {}", shown_json(v)));
    return true;
  }
  if (std::ranges::find(kTrainedKeywords, key) != std::end(kTrainedKeywords)) {
    not_done(at.pointer, fmt::format("expected {} in a form of enums, budgeted text and fixed numbers alone, got it here", key));
    return true;
  }
  if (!key.starts_with("x-")) return false;
  // Somebody else's, as OpenAPI's documents have them; unless one of ours is meant.
  std::vector<std::string> ours{"x-budget", "x-section", "x-format", "x-parents", "x-block-size", "x-aliases"};
  ours.insert(ours.end(), std::begin(kTrainedKeywords), std::end(kTrainedKeywords));
  const std::string meant = near_word(key.substr(2), without_prefix(ours));
  if (!meant.empty())
    not_done(at.pointer, fmt::format("expected a keyword that forms know here, got '{}' (did you mean x-{}?)", key, meant));
  return true;
}

}  // namespace slip
