// SPDX-License-Identifier: Apache-2.0
// Nodes of objects and arrays.
#include <algorithm>
#include <array>

#include "base/words/near_word.h"
#include "form/automaton/regex.h"
#include "form/json_text.h"
#include "form/schema/typed/reader.h"

namespace slip {
namespace {

constexpr int64_t kMostArrayItems = 256;
constexpr size_t kLeastHeld = 3, kMostHeld = 64;  // bytes of a name that others are held against
constexpr size_t kMostNear = 256;                 // how many of these
constexpr int kMostLookedUp = 16;                 // and of those

}  // namespace

/// An object whose members have any names, or any that one pattern allows. Nothing keeps a name from coming twice: of such members readers
/// keep the last, which is as valid as the first.
TypedPtr TypedReader::map_node(const Place& place, int depth, std::string* why) {
  if (place.pattern_properties.size() > 1)
    return not_done(place.pointer + "/patternProperties", "expected one pattern where no member is named, got several"), nullptr;
  if (place.min_properties > 1)
    return not_done(
               place.pointer + "/minProperties",
               fmt::format("expected at most 1 of members of any name, one of which may come twice, got {}", place.min_properties)),
           nullptr;
  TypedNode n{.kind = TypedNode::Kind::kArray};
  n.min_items = place.min_properties;
  n.max_items = std::min(place.max_properties >= 0 ? place.max_properties : usual_.items, kMostArrayItems);
  std::vector<Part> values;
  const bool by_pattern = !place.pattern_properties.empty();
  if (by_pattern) values.push_back(place.pattern_properties.front().second);
  for (const Beyond& b : place.beyond) {
    if (by_pattern && std::find(b.patterns.begin(), b.patterns.end(), place.pattern_properties.front().first) != b.patterns.end())
      continue;
    if (b.others.schema == nullptr) n.max_items = 0;
    values.push_back(b.others);
  }
  if (values.empty() && place.closed) n.max_items = 0;
  if (values.empty() && !place.closed) values = place.unevaluated;
  static const json::value kTrue = true;
  if (values.empty()) values.push_back({.schema = &kTrue, .pointer = place.pointer, .trail = nullptr});
  if (n.max_items > 0) {
    n.name = name_node(place, depth, why);
    const Looking looking(*this, !n.name);
    n.item = node(values, by_pattern ? values.front().pointer : place.pointer + "/additionalProperties", depth + 1, why);
    if (!n.name || !n.item) n.max_items = 0;
  }
  if (n.max_items < n.min_items) {
    if (why->empty()) *why = "minProperties is above the members that may be there";
    return nullptr;
  }
  if (n.max_items == 0) n = {.kind = TypedNode::Kind::kObject};
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

/// What additionalProperties of each schema says of members that other schemas name. False: an error was added.
bool TypedReader::add_beyond(Place& place) {
  static const json::value kFalse = false;
  bool sound = true;
  for (const Beyond& b : place.beyond) {
    std::vector<ByteDfa> patterns;
    for (const std::string& p : b.patterns) {
      auto one = compile_regex(p, false);
      if (one)
        patterns.push_back(std::move(*one));
      else
        add(one.error().kind, place.pointer + "/patternProperties" + pointer_part(p), one.error().message), sound = false;
    }
    for (auto& [name, parts] : place.properties) {
      const auto matches = [&member = name](const ByteDfa& p) { return p.matches(member); };
      if (b.names.contains(name) || std::any_of(patterns.begin(), patterns.end(), matches)) continue;
      Part part = b.others;
      if (part.schema == nullptr) part.schema = &kFalse;
      parts.push_back(std::move(part));
    }
  }
  return sound;
}

/// additionalProperties of any schema evaluate all members: then nothing is said of those that are not.
void TypedReader::settle_unevaluated(Place& place) {
  if (place.opened || !place.beyond.empty()) place.unevaluated.clear();
  for (const Part& p : place.unevaluated) (p.schema == nullptr ? place.closed : place.map) = true;
}

/// What patternProperties say of members that are known, and unevaluatedProperties of those that `place` neither names nor has a pattern
/// for: one that `required` or propertyNames alone name is not evaluated, nor is the one that an `if` which does not hold speaks of.
/// False: an error was added.
bool TypedReader::add_patterns(const Place& place, Place& known) {
  static const json::value kFalse = false;
  bool sound = true;
  std::set<std::string> evaluated;
  for (const auto& [name, parts] : place.properties)
    if (std::any_of(parts.begin(), parts.end(), [](const Part& p) { return p.none_of == nullptr; })) evaluated.insert(name);
  for (const auto& [pattern, part] : place.pattern_properties) {
    const auto language = compile_regex(pattern, false);
    if (!language) {
      add(language.error().kind, part.pointer, language.error().message);
      sound = false;
      continue;
    }
    for (auto& [name, parts] : known.properties) {
      if (!language->matches(name)) continue;
      parts.push_back(part);
      evaluated.insert(name);
    }
  }
  for (auto& [name, parts] : known.properties)
    for (const Part& p : place.unevaluated) {
      if (evaluated.contains(name)) continue;
      parts.push_back(p);
      if (p.schema == nullptr) parts.back().schema = &kFalse;
    }
  return sound;
}

namespace {

/// Is there a set of these members and of others that the rule allows?
bool met_by_more(const PresenceRule& rule, std::vector<std::string> names) {
  while (const auto name = rule.unknown(names)) names.push_back(*name);
  const int64_t more = std::min(rule.counted(), static_cast<int64_t>(Presence::kMostMembers));
  for (int64_t i = 0; i < more; ++i) names.push_back(fmt::format("{}\n", i));  // which no rule speaks of by its name
  const auto presence = Presence::make(rule, names);
  return !presence || presence->start() != Presence::kNever;
}

}  // namespace

/// Rules about which members there are, and how many. False: no object is valid, or an error was added.
bool TypedReader::add_presence(const Place& place, TypedNode& object, std::string* why) {
  std::vector<std::string> names;
  std::vector<PresenceRulePtr> rules;
  for (const auto& m : object.members) {
    names.push_back(m.key);
    if (m.required) rules.push_back(has_member(m.key));
  }
  const auto all = static_cast<int64_t>(names.size()), written = static_cast<int64_t>(rules.size());
  const bool counted = place.min_properties > written || (place.max_properties >= 0 && place.max_properties < all);
  if (!counted && place.presence.empty()) return true;
  if (place.min_properties > all && !place.closed)
    return not_done(place.pointer + "/minProperties",
                    fmt::format("expected at most the {} members that properties names, got {}", all, place.min_properties)),
           false;
  if (names.size() > Presence::kMostMembers)
    return not_done(place.pointer, fmt::format("expected at most {} members beside rules about which there are, got {}",
                                               Presence::kMostMembers, names.size())),
           false;
  if (counted) rules.push_back(member_count(place.min_properties, place.max_properties));
  for (const auto& [rule, pointer] : place.presence) {
    if (const auto name = rule->unknown(names); name && !place.closed)
      return not_done(pointer, fmt::format("expected names of properties, got '{}'", shown(*name))), false;
    rules.push_back(rule);
  }
  object.presence = Presence::make(*all_of(rules), names);
  if (!object.presence)
    return not_done(place.pointer, "expected rules about which members there are in fewer cases, got more"), false;
  if (object.presence->start() == Presence::kNever) {
    const bool more = !place.names && !(place.closed && place.pattern_properties.empty());
    rules.push_back(member_count(place.min_properties, place.max_properties));
    if (more && !place.presence.empty() && met_by_more(*all_of(std::move(rules)), names))
      return not_done(place.presence.front().second,
                      fmt::format("expected rules that members which properties names meet, got one that takes more than these {}",
                                  all)),
             false;
    *why = place.presence.empty()
               ? "minProperties and maxProperties exclude its members"
               : "no set of members is what required, minProperties, maxProperties and the rules about them allow";
    return false;
  }
  for (size_t i = 0; i < names.size(); ++i) object.members[i].required = object.presence->forces(i);
  return true;
}

/// Members that are required and that no properties name: anything that the other keywords allow, unless one that is named was meant.
TypedReader::Ask TypedReader::add_required(const Place& place, Place& known, const std::function<bool(const std::string&)>& allowed,
                                           std::string* why) {
  static const json::value kTrue = true;
  Ask met = Ask::kMet;
  const auto has = [](const Place& p, const std::string& name) {
    return std::any_of(p.properties.begin(), p.properties.end(), [&](const auto& m) { return m.first == name; });
  };
  std::vector<std::string> names;
  for (const auto& m : place.properties)  // one that is asked for by its own name is not what was meant
    if (names.size() < kMostNear && m.first.size() <= kMostHeld && !place.required.contains(m.first)) names.push_back(m.first);
  int looked_up = 0;
  for (const auto& [name, where] : place.required) {
    work_ += 1 + static_cast<int64_t>((known.properties.size() + place.properties.size()) / 64);
    if (full()) return Ask::kMistaken;
    if (has(known, name)) continue;
    if (place.closed && place.pattern_properties.empty())
      return *why = fmt::format("'{}' is required and no member", shown(name)), Ask::kNone;
    if (has(place, name) || !allowed(name) ||
        (place.names && std::find(place.names->begin(), place.names->end(), name) == place.names->end()))
      return *why = fmt::format("'{}' is required and none of the names of propertyNames", shown(name)), Ask::kNone;
    const bool held = name.size() >= kLeastHeld && name.size() <= kMostHeld && ++looked_up <= kMostLookedUp;
    if (const std::string meant = held ? near_word(name, names) : std::string(); !meant.empty()) {
      not_done(where, fmt::format("expected names of properties, got '{}' (did you mean '{}'?)", shown(name), shown(meant)));
      met = Ask::kMistaken;
    }
    property(known, name).push_back({.schema = &kTrue, .pointer = where, .trail = nullptr});
  }
  return met;
}

/// Is no object valid that has another member than those that are named? Patterns may let some in, and what other alternatives evaluate.
bool TypedReader::is_closed(const Place& place) {
  const bool by_patterns =
      std::any_of(place.beyond.begin(), place.beyond.end(), [](const Beyond& b) { return !b.patterns.empty(); });
  const bool evaluated = !place.pattern_properties.empty() || place.chosen || !place.presence.empty();
  return place.closed && !by_patterns && (place.unevaluated.empty() || !evaluated);
}

TypedPtr TypedReader::object_node(const Place& place, int depth, std::string* why) {
  TypedNode n{.kind = TypedNode::Kind::kObject};
  bool sound = true;  // else the members are looked at for their own errors alone
  n.closed = is_closed(place);
  Place known = place;
  if (place.names) add_named(known);
  std::function<bool(const std::string&)> allowed = [](const std::string&) { return true; };  // by propertyNames
  if (!place.of_names.empty() && !(known.properties.empty() && place.required.empty())) {
    const size_t errors = errors_.size();
    Place named = place;  // patterns are of what the names lead to
    named.pattern_properties.clear();
    const TypedPtr names = name_node(named, depth, why);
    sound = names || errors_.size() == errors;
    if (sound) allowed = [names](const std::string& name) { return names && allows_name(*names, name); };
    std::erase_if(known.properties, [&](const auto& p) { return !allowed(p.first); });
  }
  const Ask asked = add_required(place, known, allowed, why);
  sound = sound && asked == Ask::kMet;
  sound = add_beyond(known) && sound;
  bool dead = asked == Ask::kNone;  // then members are looked at alone
  const bool any_names = known.properties.empty() && !place.names;
  if (any_names && dead) return nullptr;
  if (any_names && !place.presence.empty() && !place.closed)
    return not_done(place.presence.front().second, "expected rules about members that properties names, got none named"), nullptr;
  if (any_names && (place.map || !place.pattern_properties.empty() || !place.of_names.empty() || (place.hinted & kObject) == 0))
    return map_node(known, depth, why);  // without the members that propertyNames leaves none of
  sound = add_patterns(place, known) && sound;
  // Without any `required` all members are written, as long as they can be and may be.
  const auto named = static_cast<int64_t>(known.properties.size());
  const bool all_written = !known.has_required && (place.max_properties < 0 || place.max_properties >= named);
  for (const auto& [name, parts] : known.properties) {
    const Looking looking(*this, dead);
    const size_t errors = errors_.size();
    const int64_t closed = closed_;
    std::string inside;
    TypedPtr member = node(parts, place.pointer + "/properties" + pointer_part(name), depth + 1, &inside);
    const bool said = place.required.contains(name);
    // Its own schema's fault, where nothing closes it on purpose.
    if (!member && !inside.empty() && parts.size() == 1 && parts[0].schema && closed_ == closed)
      bad(parts[0].pointer, fmt::format("expected a schema that some value is valid for, got none: {}", inside));
    else if (!member && said && !inside.empty())
      *why = fmt::format("member '{}': {}", shown(name), inside);
    dead = dead || (!member && said && errors_.size() == errors);
    sound = sound && (member || !said);
    if (member) n.members.push_back({name, std::move(member), said || all_written, said && !place.told.contains(name)});
  }
  if (!sound || dead || !add_presence(place, n, why)) return nullptr;
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

TypedPtr TypedReader::array_node(const Place& place, int depth, std::string* why) {
  TypedNode n{.kind = TypedNode::Kind::kArray};
  n.min_items = place.min_items;
  n.max_items = place.max_items >= 0 ? place.max_items : std::max(n.min_items, usual_.items);
  if (n.max_items < n.min_items) *why = fmt::format("minItems {} is above maxItems {}", n.min_items, n.max_items);
  if (n.min_items > kMostArrayItems)
    return not_done(place.pointer + "/minItems", fmt::format("expected at most {} items, got {}", kMostArrayItems, n.min_items)),
           nullptr;
  n.max_items = std::min(n.max_items, kMostArrayItems);
  int64_t most = n.max_items;  // as many as have a value; those behind are looked at for their own errors alone
  for (size_t i = 0; i < place.prefix.size() && static_cast<int64_t>(i) < n.max_items; ++i) {
    std::vector<Part> parts = place.prefix[i];
    for (const auto& [from, part] : place.items)
      if (from <= i) parts.push_back(part);
    const Looking looking(*this, most < n.max_items);
    TypedPtr one = node(parts, fmt::format("{}/prefixItems/{}", place.pointer, i), depth + 1, why);
    if (!one) most = std::min(most, static_cast<int64_t>(i));
    n.prefix.push_back(std::move(one));
  }
  n.max_items = most;
  const auto given = static_cast<int64_t>(place.prefix.size());
  const bool ends = place.no_more_items >= 0;
  if (n.max_items > given && (ends || (given > 0 && place.items.empty()))) n.max_items = std::max(n.min_items, given);
  if (ends) n.max_items = std::min({n.max_items, given, place.no_more_items});
  n.prefix.resize(std::min(n.prefix.size(), static_cast<size_t>(std::max<int64_t>(0, n.max_items))));
  std::vector<Part> items;
  for (const auto& [from, part] : place.items) items.push_back(part);
  static const json::value kTrue = true;  // of which nothing is said: any scalar, as a member of which nothing is
  if (items.empty()) items.push_back({.schema = &kTrue, .pointer = place.pointer + "/items", .trail = nullptr});
  if (n.max_items > given && !(n.item = node(items, place.pointer + "/items", depth + 1, why)))
    n.max_items = std::min(n.max_items, given);
  if (n.max_items < n.min_items) {
    if (why->empty()) *why = fmt::format("minItems {} is above the {} items that may be there", n.min_items, n.max_items);
    return nullptr;
  }
  const int64_t valid =
      ends && (place.max_items < 0 || place.no_more_items < place.max_items) ? place.no_more_items : place.max_items;
  n.narrowed = valid < 0 || n.max_items < valid;
  if (place.unique && n.max_items > 1) return without_repeats(n, place);
  finish(n, place);
  return std::make_shared<const TypedNode>(std::move(n));
}

}  // namespace slip
