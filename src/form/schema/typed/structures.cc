// SPDX-License-Identifier: Apache-2.0
// Nodes of objects and arrays.
#include <algorithm>
#include <array>

#include "form/automaton/regex.h"
#include "form/json_text.h"
#include "form/schema/typed/reader.h"

namespace slip {
namespace {

constexpr int64_t kUsualItems = 8;  // of an array without maxItems, or its minItems where that is more
constexpr int64_t kMostArrayItems = 256;

/// A scalar's schema that refers to nothing else: what contradicts itself there is a mistake, not a way that others have closed.
bool says_all(const json::value& schema) {
  const json::object* o = schema.if_object();
  return o != nullptr && std::none_of(o->begin(), o->end(), [](const auto& m) {
           static constexpr std::array kOthers = {"$ref", "allOf",      "anyOf", "oneOf",      "not",
                                                  "if",   "properties", "items", "prefixItems"};
           return std::find(kOthers.begin(), kOthers.end(), std::string_view(m.key())) != kOthers.end();
         });
}

}  // namespace

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

/// What additionalProperties of each schema says of members that other schemas name.
Status TypedReader::add_beyond(Place& place) {
  static const json::value kFalse = false;
  for (const Beyond& b : place.beyond) {
    std::vector<ByteDfa> patterns;
    for (const std::string& p : b.patterns) {
      SLIP_TRY(ByteDfa one, compile_regex(p, false));
      patterns.push_back(std::move(one));
    }
    for (auto& [name, parts] : place.properties) {
      const auto matches = [&member = name](const ByteDfa& p) { return p.matches(member); };
      if (b.names.contains(name) || std::any_of(patterns.begin(), patterns.end(), matches)) continue;
      Part part = b.others;
      if (part.schema == nullptr) part.schema = &kFalse;
      parts.push_back(std::move(part));
    }
  }
  return {};
}

TypedPtr TypedReader::object_node(const Place& place, int depth, std::string* why) {
  TypedNode n{.kind = TypedNode::Kind::kObject};
  n.closed =
      place.closed && std::all_of(place.beyond.begin(), place.beyond.end(), [](const Beyond& b) { return b.patterns.empty(); });
  Place known = place;
  if (place.names) add_named(known);
  if (const Status patterns = add_beyond(known); !patterns)
    return add(patterns.error().kind, place.pointer, patterns.error().message), nullptr;
  for (const std::string& name : place.required) {
    if (std::any_of(known.properties.begin(), known.properties.end(), [&](const auto& p) { return p.first == name; })) continue;
    if (place.closed) return *why = fmt::format("'{}' is required and no member", shown(name)), nullptr;
    return not_done(place.pointer + "/required", fmt::format("expected names of properties, got '{}'", shown(name))), nullptr;
  }
  if (known.properties.empty() && (place.map || !place.pattern_properties.empty() || (place.hinted & kObject) == 0)) {
    not_done(place.pointer, "expected an object with properties, got one with members of any name");
    return nullptr;
  }
  for (const auto& [pattern, part] : place.pattern_properties) {
    const auto language = compile_regex(pattern, false);
    if (!language) return add(language.error().kind, part.pointer, language.error().message), nullptr;
    for (auto& [name, parts] : known.properties)
      if (language->matches(name)) parts.push_back(part);
  }
  int64_t required = 0;
  for (const auto& [name, parts] : known.properties) {
    std::string inside;
    TypedPtr member = node(parts, place.pointer + "/properties" + pointer_part(name), depth + 1, &inside);
    // Without any `required` all members are written, as long as they can be.
    const bool said = place.required.contains(name), needed = said || (!known.has_required && member);
    required += needed;
    if (!member && said) return *why = fmt::format("member '{}': {}", shown(name), inside), nullptr;
    if (!member && !inside.empty() && parts.size() == 1 && parts[0].schema && says_all(*parts[0].schema))
      bad(parts[0].pointer, fmt::format("expected a schema that some value is valid for, got none: {}", inside));
    if (member) n.members.push_back({name, std::move(member), needed, said});
  }
  const auto all = static_cast<int64_t>(n.members.size());
  const auto demanded = std::count_if(n.members.begin(), n.members.end(), [](const auto& m) { return m.demanded; });
  if ((place.min_properties > all && n.closed) || (place.max_properties >= 0 && place.max_properties < demanded))
    return *why = "minProperties and maxProperties exclude its members", nullptr;
  if (place.min_properties > required || (place.max_properties >= 0 && place.max_properties < all)) {
    not_done(place.pointer, "expected minProperties and maxProperties that the members keep by themselves, got others");
    return nullptr;
  }
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

TypedPtr TypedReader::array_node(const Place& place, int depth, std::string* why) {
  TypedNode n{.kind = TypedNode::Kind::kArray};
  n.min_items = place.min_items;
  n.max_items = place.max_items >= 0 ? place.max_items : std::max(n.min_items, kUsualItems);
  if (n.max_items < n.min_items) return *why = fmt::format("minItems {} is above maxItems {}", n.min_items, n.max_items), nullptr;
  if (n.min_items > kMostArrayItems)
    return not_done(place.pointer + "/minItems", fmt::format("expected at most {} items, got {}", kMostArrayItems, n.min_items)),
           nullptr;
  n.max_items = std::min(n.max_items, kMostArrayItems);
  for (size_t i = 0; i < place.prefix.size() && static_cast<int64_t>(i) < n.max_items; ++i) {
    std::vector<Part> parts = place.prefix[i];
    for (const auto& [from, part] : place.items)
      if (from <= i) parts.push_back(part);
    TypedPtr one = node(parts, fmt::format("{}/prefixItems/{}", place.pointer, i), depth + 1, why);
    if (!one) {
      n.max_items = static_cast<int64_t>(i);
      break;
    }
    n.prefix.push_back(std::move(one));
  }
  const auto given = static_cast<int64_t>(place.prefix.size());
  const bool ends = place.no_more_items >= 0;
  if (n.max_items > given && (ends || (given > 0 && place.items.empty()))) n.max_items = std::max(n.min_items, given);
  if (ends) n.max_items = std::min({n.max_items, given, place.no_more_items});
  if (n.max_items > given && place.items.empty()) {
    not_done(place.pointer, "expected items, got none");
    return nullptr;
  }
  n.prefix.resize(std::min(n.prefix.size(), static_cast<size_t>(std::max<int64_t>(0, n.max_items))));
  std::vector<Part> items;
  for (const auto& [from, part] : place.items) items.push_back(part);
  if (n.max_items > given && !(n.item = node(items, place.pointer + "/items", depth + 1, why)))
    n.max_items = std::min(n.max_items, given);
  if (n.max_items < n.min_items) {
    if (why->empty()) *why = fmt::format("minItems {} is above the {} items that may be there", n.min_items, n.max_items);
    return nullptr;
  }
  if (place.unique && n.max_items > 1) return without_repeats(n, place);
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

}  // namespace slip
