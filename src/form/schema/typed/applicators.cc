// SPDX-License-Identifier: Apache-2.0
// Keywords that bring other schemas to a place: references, allOf, alternatives, conditions, dependent members and `not`.
#include <algorithm>
#include <cstdlib>

#include "form/json_text.h"
#include "form/schema/typed/reader.h"

namespace slip {
namespace {

constexpr int kMostReferences = 3;  // of the same name inside of each other: a recursion goes so deep
constexpr int kMostTrail = 64;      // of any names

}  // namespace

/// What a URI's fragment names: a JSON pointer, or an $anchor.
const json::value* TypedReader::referred(std::string path) {
  for (size_t i = 0; (i = path.find('%', i)) != std::string::npos && i + 2 < path.size(); ++i)
    path.replace(i, 3, 1, static_cast<char>(std::strtol(path.substr(i + 1, 2).c_str(), nullptr, 16)));
  if (path.empty()) return &document_;
  if (path.starts_with('/')) {
    boost::system::error_code ec;
    const json::value* to = document_.find_pointer(path, ec);
    return ec ? nullptr : to;
  }
  const auto at = marks().anchors.find(path);
  return at == marks().anchors.end() ? nullptr : at->second;
}

/// Anchors of the document, and its schemas that stand in one with an $id of its own: those have anchors and references of their own
/// [JSON Schema 2020-12, 8.2.1]. An $id of a fragment alone was an anchor, up to draft 7.
const TypedReader::Marks& TypedReader::marks() {
  if (marks_) return *marks_;
  marks_.emplace();
  std::vector<std::pair<const json::value*, bool>> open{{&document_, false}};
  while (!open.empty()) {
    auto [v, embedded] = open.back();
    open.pop_back();
    if (const json::array* a = v->if_array())
      for (const json::value& x : *a) open.emplace_back(&x, embedded);
    const json::object* o = v->if_object();
    if (o == nullptr) continue;
    const json::value *id = o->if_contains("$id"), *anchor = o->if_contains("$anchor");
    embedded = embedded || (v != &document_ && id && id->is_string() && !id->get_string().starts_with("#"));
    if (embedded)
      marks_->embedded.insert(v);
    else if (anchor && anchor->is_string())
      marks_->anchors.emplace(std::string(view(anchor->get_string())), v);
    for (const auto& m : *o) open.emplace_back(&m.value(), embedded);
  }
  return *marks_;
}

void TypedReader::reference(const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + "/$ref";
  if (!v.is_string()) return bad(pointer, fmt::format("expected a reference, got {}", shown_json(v)));
  std::string name(view(v.get_string()));
  if (const json::value* id = document_.is_object() ? document_.get_object().if_contains("$id") : nullptr; id && id->is_string())
    if (const std::string_view own = view(id->get_string()); !own.empty() && name.starts_with(own))
      name = name.size() == own.size() ? "#" : name[own.size()] == '#' ? name.substr(own.size()) : name;
  if (!name.starts_with("#"))
    return not_done(pointer, fmt::format("expected a reference into this document (#/...), got '{}'", shown(name)));
  if (marks().embedded.contains(at.schema))
    return not_done(
        pointer,
        fmt::format("expected no reference in a schema with an $id of its own, against which it is read, got '{}'", shown(name)));
  int times = 0, length = 0;
  std::set<std::string_view> names{name};
  for (const Trail* t = at.trail.get(); t != nullptr; t = t->before.get(), ++length) {
    times += t->reference == name;
    names.insert(t->reference);
  }
  if (length >= kMostTrail && static_cast<int>(names.size()) > length)  // none leads to itself
    return not_done(pointer, fmt::format("expected at most {} references one behind another, got more", kMostTrail));
  if (times >= kMostReferences || length >= kMostTrail) {
    place.dead = fmt::format("'{}' leads to itself more than {} times", shown(name), kMostReferences);
    ++closed_;
    return;
  }
  const json::value* to = referred(name.substr(1));
  if (to == nullptr) return bad(pointer, fmt::format("expected a reference to a schema of this document, got '{}'", shown(name)));
  // Alone, a reference is what it refers to.
  const bool inner = at.inner || at.schema->get_object().size() > 1;
  gather({.schema = to, .pointer = name, .trail = std::make_shared<const Trail>(Trail{name, at.trail}), .inner = inner}, place);
}

bool TypedReader::group_keyword(std::string_view key, const json::value& v, const json::object& all, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (key == "if") return condition(all, at, place), true;
  if (key == "dependentRequired" || key == "dependentSchemas" || key == "dependencies") return dependent(key, v, at, place), true;
  if (key == "not") return negation(v, at, place), true;
  if (key != "anyOf" && key != "oneOf" && key != "allOf") return false;
  if (!v.is_array() || v.get_array().empty()) return bad(pointer, fmt::format("expected schemas, got {}", shown_json(v))), true;
  if (v.get_array().size() > 256)
    return not_done(pointer, fmt::format("expected at most 256 alternatives, got {}", v.get_array().size())), true;
  if (key != "allOf")
    if (PresenceRulePtr rule = presence_rule(key, v, all); rule && rule->size() > 0)
      return presence(std::move(rule), pointer, place), true;
  Group group{.alternatives = {}, .pointer = pointer, .exclusive = key == "oneOf"};
  for (size_t i = 0; i < v.get_array().size(); ++i) {
    Part part{.schema = &v.get_array()[i], .pointer = fmt::format("{}/{}", pointer, i), .trail = at.trail, .inner = true};
    if (key == "allOf")
      gather(part, place);
    else
      group.alternatives.push_back({std::move(part)});
  }
  if (key != "allOf") place.groups.push_back(std::move(group));
  return true;
}

/// A rule about which members there are. As beside any `required`, members that it leaves open are optional.
void TypedReader::presence(PresenceRulePtr rule, const std::string& pointer, Place& place) {
  work_ += rule->size();
  place.has_required = true;
  place.hinted |= kObject;
  if (!rule->holds_for_others()) place.types &= kObject;
  place.presence.emplace_back(std::move(rule), pointer);
}

const json::array* TypedReader::list_of(const json::value& v) {
  lists_.push_back(std::make_unique<json::array>(json::array{v}));
  return lists_.back().get();
}

/// `not`: of anything, of nothing, of values, of types, of members that are there.
void TypedReader::negation(const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + "/not";
  const json::object* o = v.if_object();
  ++closed_;  // what it leaves out, it leaves out on purpose
  if ((o && o->empty()) || (v.is_bool() && v.get_bool())) return void(place.dead = "nothing is valid here (not of anything)");
  if (v.is_bool()) return;
  if (PresenceRulePtr rule = not_of(presence_rule(v)); rule && rule->size() > 0) return presence(std::move(rule), pointer, place);
  const std::string_view how = o && o->size() == 1 ? std::string_view(o->begin()->key()) : std::string_view();
  if (how == "enum" && o->begin()->value().is_array()) return place.none_of.push_back(&o->begin()->value().get_array());
  if (how == "const") return place.none_of.push_back(list_of(o->begin()->value()));
  if (how == "type") {
    Place other;
    type(o->begin()->value(), {.schema = &v, .pointer = pointer, .trail = at.trail}, other);
    if (!other.typed) return;                                             // an error was added
    if ((other.types & kNumber) != 0 || (other.types & kInteger) == 0) {  // not of integers alone would leave numbers with a point
      place.types &= ~other.types;
      return;
    }
  }
  not_done(pointer, "expected no `not`, or one of an enum, a const, types alone (but integer) or required members, got another");
}

/// A member that asks for others: a rule. One that asks for a schema: two alternatives, with it and what it asks for, or without it.
void TypedReader::dependent(std::string_view key, const json::value& v, const Part& at, Place& place) {
  const std::string pointer = at.pointer + pointer_part(key);
  if (!v.is_object()) return bad(pointer, fmt::format("expected an object, got {}", shown_json(v)));
  const auto made = [&](json::object schema) {
    schemas_.push_back(std::make_unique<json::value>(std::move(schema)));
    return Part{.schema = schemas_.back().get(), .pointer = pointer, .trail = at.trail, .made = true};
  };
  for (const auto& [name, asked] : v.get_object()) {
    const std::string key_of = std::string(std::string_view(name)), of_name = pointer + pointer_part(key_of);
    if (PresenceRulePtr rule = dependent_rule(key_of, asked)) {
      presence(std::move(rule), of_name, place);
      continue;
    }
    if (asked.is_array() || key == "dependentRequired")
      return bad(of_name, fmt::format("expected names, got {}", shown_json(asked)));
    Group group{.alternatives = {}, .pointer = pointer, .exclusive = false};
    Part also = below(at, key, asked);
    also.pointer = of_name;
    also.inner = true;
    group.alternatives.push_back({made({{"required", json::array{json::string(name)}}}), std::move(also)});
    group.alternatives.push_back({made({{"properties", {{name, false}}}, {"required", json::array()}})});
    place.groups.push_back(std::move(group));
  }
}

/// if/then/else on the values of one member, as two alternatives: the member is one of them and `then` holds, or none and `else` does. What
/// is no object has no such member: `if` holds for it, unless it asks for an object.
void TypedReader::condition(const json::object& all, const Part& at, Place& place) {
  const std::string pointer = at.pointer + "/if";
  if (PresenceRulePtr rule = presence_rule("if", all.at("if"), all); rule && rule->size() > 0)
    return presence(std::move(rule), pointer, place);
  const json::object* test = all.at("if").if_object();
  const json::value* properties = test ? test->if_contains("properties") : nullptr;
  const bool one = properties && properties->is_object() && properties->get_object().size() == 1;
  const json::object* member = one ? properties->get_object().begin()->value().if_object() : nullptr;
  const json::value* values = member && member->size() == 1 ? &member->begin()->value() : nullptr;
  const std::string_view how = values ? std::string_view(member->begin()->key()) : std::string_view();
  if (!values || (how != "const" && !(how == "enum" && values->is_array())))
    return not_done(pointer, "expected a condition on one member's const or enum, got another");
  const std::string key(std::string_view(properties->get_object().begin()->key()));
  static const json::value kTrue = true;
  const auto branch = [&](const char* name) {
    const json::value* v = all.if_contains(name);
    Part part = v ? below(at, name, *v) : Part{.schema = &kTrue, .pointer = at.pointer, .trail = at.trail};
    part.inner = true;
    return part;
  };
  const json::array* list = how == "enum" ? &values->get_array() : list_of(*values);
  Group group{.alternatives = {}, .pointer = pointer, .exclusive = false};
  group.alternatives.push_back({below(at, "if", all.at("if")), branch("then")});
  Part negated{.schema = nullptr, .pointer = key, .trail = at.trail};
  negated.none_of = list;
  group.alternatives.push_back({branch("else"), negated});
  const json::value* type = test->if_contains("type");
  if (type == nullptr || *type != "object") {
    schemas_.push_back(std::make_unique<json::value>(json::object{{"type", "object"}}));
    group.alternatives.back().push_back(
        {.schema = schemas_.back().get(), .pointer = pointer, .trail = at.trail, .inner = true, .made = true});
  }
  if (place.required.emplace(key, pointer).second) place.told.insert(key);  // an answer says which way it goes
  place.groups.push_back(std::move(group));
}

}  // namespace slip
