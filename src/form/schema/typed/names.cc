// SPDX-License-Identifier: Apache-2.0
// propertyNames: lists of them, whose names become members, and others, which say what names members of any name have.
#include <algorithm>

#include "form/json_text.h"
#include "form/schema/typed/reader.h"

namespace slip {
namespace {

constexpr size_t kMostNames = 256;
constexpr int32_t kUsualName = 16;  // tokens of a member's name that may be anything

/// An enum or a const that nothing is said beside which could leave out one of its texts.
bool is_list(const json::object& o) {
  const json::value* words = o.if_contains("enum");
  const bool one = o.contains("const") ? words == nullptr : words && words->is_array();
  return one && std::all_of(o.begin(), o.end(), [](const auto& m) {
           const std::string_view key = m.key();
           return key == "enum" || key == "const" || is_annotation(key) || (key == "type" && m.value() == "string");
         });
}

}  // namespace

/// What a schema that is a reference and nothing else refers to.
const json::value& TypedReader::alone_referred(const json::value& v) {
  const json::object* o = v.if_object();
  const json::value* to = o && o->size() == 1 ? o->if_contains("$ref") : nullptr;
  if (!to || !to->is_string() || !to->get_string().starts_with("#") || marks().embedded.contains(&v)) return v;
  const json::value* schema = referred(std::string(view(to->get_string()).substr(1)));
  return schema ? *schema : v;
}

/// Names that are a list: what else an object may have, it may have under these alone.
void TypedReader::property_names(const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + "/propertyNames";
  const json::value& names_are = alone_referred(v);
  const json::object* o = names_are.if_object();
  const json::value* words = o ? o->if_contains("enum") : nullptr;
  const json::value* word = o ? o->if_contains("const") : nullptr;
  std::vector<std::string> names;
  const auto take = [&](const json::value& name) {
    if (name.is_string()) names.emplace_back(view(name.get_string()));
  };
  if (word) take(*word);
  if (words && words->is_array())
    for (const json::value& name : words->get_array()) take(name);
  const bool any =
      names_are.is_bool() ? names_are.get_bool() : o && std::all_of(o->begin(), o->end(), [](const auto& m) {
                                                     return std::string_view(m.key()) == "type" && m.value() == "string";
                                                   });
  if (any) return;
  const bool none = names_are.is_bool();
  if (!none && !(o && is_list(*o))) {
    if (o == nullptr) return bad(pointer, fmt::format("expected a schema, got {}", shown_json(v)));
    place.hinted |= kObject;
    return place.of_names.push_back(below(at, "propertyNames", v));
  }
  if (names.size() > kMostNames)
    return not_done(pointer, fmt::format("expected at most {} names, got {}", kMostNames, names.size()));
  place.hinted |= kObject;
  if (place.names)
    std::erase_if(names,
                  [&](const auto& n) { return std::find(place.names->begin(), place.names->end(), n) == place.names->end(); });
  place.names = std::move(names);
}

/// The members that propertyNames and additionalProperties together allow, which an answer may have; the others fall away.
void TypedReader::add_named(Place& place) {
  static const json::value kTrue = true;
  std::erase_if(place.properties,
                [&](const auto& p) { return std::find(place.names->begin(), place.names->end(), p.first) == place.names->end(); });
  if (place.closed) return;
  const bool only = place.properties.empty();  // a dictionary: which of them there are is the answer's to say
  const Part any{.schema = &kTrue, .pointer = place.pointer + "/propertyNames", .trail = nullptr};
  for (const std::string& name : *place.names) {
    auto& parts = property(place, name);
    if (parts.empty()) parts.push_back(any);
  }
  place.has_required |= only;
}

/// What holds for the names of members, besides a list.
TypedPtr TypedReader::name_node(const Place& place, int depth, std::string* why) {
  Place names;
  names.pointer = place.pointer + (place.of_names.empty() ? "" : "/propertyNames");
  const std::string names_at = names.pointer;
  names.types = kString;
  names.typed = true;
  for (const Part& part : place.of_names) gather(part, names);
  if (names.types == 0) return *why = "propertyNames allows no string", nullptr;
  if (place.properties.empty() && !place.pattern_properties.empty())
    names.patterns.push_back({place.pattern_properties.front().first, place.pattern_properties.front().second.pointer});
  if (names.budget == 0 && names.patterns.empty() && names.min_length == 0) names.budget = kUsualName;
  TypedPtr n = node_of(std::move(names), depth + 1, why);
  if (n && n->kind == TypedNode::Kind::kConstant) n = word_of(*n);
  if (!n || (n->kind == TypedNode::Kind::kScalar && n->quoted)) return n;
  return not_done(names_at, "expected names of one kind, got alternatives"), nullptr;
}

bool TypedReader::allows_name(const TypedNode& names, const std::string& name) {
  const std::string quoted = json::serialize(json::string(name)), text = quoted.substr(1, quoted.size() - 2);
  return names.words.empty() ? names.language->matches(text)
                             : std::find(names.words.begin(), names.words.end(), text) != names.words.end();
}

}  // namespace slip
