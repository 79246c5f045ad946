// SPDX-License-Identifier: Apache-2.0
// Which nodes exclude each other, and what a reader of schemas has to say at its end.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>

#include "form/schema/typed/reader.h"

namespace slip {

Result<ByteDfa> json_language(const TypedNode& n) {
  if (n.kind == TypedNode::Kind::kConstant) return ByteDfa::literal(n.text);
  std::vector<ByteDfa> parts;
  if (!n.words.empty()) {
    for (const std::string& w : n.words) {
      SLIP_TRY(ByteDfa one, ByteDfa::literal(n.quoted ? "\"" + w + "\"" : w));
      parts.push_back(std::move(one));
    }
    return ByteDfa::either(parts);
  }
  if (!n.quoted) return *n.language;
  SLIP_TRY(const ByteDfa quote, ByteDfa::literal("\""));
  parts = {quote, *n.language, quote};
  return ByteDfa::concat(parts);
}

namespace {

/// What is made for `a` has its required members; what `b` takes has only those that its schema demands, and may have any other.
bool objects_exclude(const TypedNode& a, const TypedNode& b) {
  const auto find = [](const TypedNode& n, const std::string& key) {
    const auto at = std::find_if(n.members.begin(), n.members.end(), [&](const auto& m) { return m.key == key; });
    return at == n.members.end() ? nullptr : &*at;
  };
  for (const auto& m : b.members)
    if (m.demanded && find(a, m.key) == nullptr) return true;  // a's answers have no such member
  for (const auto& m : a.members) {
    const auto* other = find(b, m.key);
    if (m.required && other == nullptr && b.closed) return true;
    // A value that is made for `a` and valid for `b` would have the member, and it would have to fit both.
    if (other != nullptr && (m.required || other->demanded) && excludes(*m.node, *other->node)) return true;
  }
  return false;
}

bool arrays_exclude(const TypedNode& a, const TypedNode& b) {
  if (a.max_items < b.min_items || (!b.narrowed && b.max_items < a.min_items)) return true;
  const auto first = [](const TypedNode& n) { return n.prefix.empty() ? n.item : n.prefix.front(); };
  return a.min_items > 0 && first(a) && first(b) && excludes(*first(a), *first(b));
}

}  // namespace

std::string canonical(const json::value& v) {
  if (v.is_double()) {
    const double d = v.get_double();
    const bool whole = d == std::floor(d) && std::fabs(d) < 9.2e18;
    return whole ? fmt::format("{}", static_cast<int64_t>(d)) : fmt::format("{}", d);
  }
  std::string out;
  if (const json::array* a = v.if_array()) {
    for (const json::value& x : *a) out += canonical(x) + ",";
    return "[" + out + "]";
  }
  if (const json::object* o = v.if_object()) {
    std::map<std::string, std::string> sorted;
    for (const auto& m : *o) sorted[json::serialize(json::string(m.key()))] = canonical(m.value());
    for (const auto& [key, value] : sorted) out += key + ":" + value + ",";
    return "{" + out + "}";
  }
  return json::serialize(v);
}

namespace {

/// Of the values that are made for it, as bits of TypedNode::Type.
uint32_t types_made(const TypedNode& n) {
  const auto of_text = [](const std::string& text) -> uint32_t {
    switch (text.empty() ? '\0' : text[0]) {
      case '"':
        return TypedNode::kString;
      case 't':
      case 'f':
        return TypedNode::kBoolean;
      case 'n':
        return TypedNode::kNull;
      case '{':
        return TypedNode::kObject;
      case '[':
        return TypedNode::kArray;
      default:
        return TypedNode::kNumber | TypedNode::kInteger;
    }
  };
  if (n.kind == TypedNode::Kind::kConstant) return of_text(n.text);
  if (n.kind == TypedNode::Kind::kArray && !n.name) return TypedNode::kArray;
  if (n.kind != TypedNode::Kind::kScalar) return TypedNode::kObject;
  if (n.quoted) return TypedNode::kString;
  if (n.numeric) return TypedNode::kNumber | TypedNode::kInteger;
  uint32_t types = n.words.empty() ? TypedNode::kAll & ~(TypedNode::kObject | TypedNode::kArray) : 0;
  for (const std::string& w : n.words) types |= of_text(w);
  return types;
}

}  // namespace

bool excludes(const TypedNode& a, const TypedNode& b) {
  using Kind = TypedNode::Kind;
  if (a.kind == Kind::kChoice)
    return std::all_of(a.alternatives.begin(), a.alternatives.end(), [&](const TypedPtr& x) { return excludes(*x, b); });
  if ((types_made(a) & b.also_valid) != 0) return false;
  if (b.kind == Kind::kChoice)
    return std::all_of(b.alternatives.begin(), b.alternatives.end(), [&](const TypedPtr& x) { return excludes(a, *x); });
  const auto kind = [](const TypedNode& n) {  // a constant object or array counts as one
    if (n.kind == Kind::kConstant) return n.text[0] == '{' ? Kind::kObject : n.text[0] == '[' ? Kind::kArray : Kind::kScalar;
    return n.name ? Kind::kObject : n.kind;
  };
  if (kind(a) != kind(b)) return true;
  if (kind(a) != Kind::kScalar) {
    if (a.name || b.name) return false;
    if (a.kind == Kind::kConstant || b.kind == Kind::kConstant) {
      if (a.kind != b.kind || b.narrowed) return false;
      const auto x = parse_json(a.text, "constant"), y = parse_json(b.text, "constant");
      return x && y && !same_value(*x, *y);
    }
    return a.kind == Kind::kObject ? objects_exclude(a, b) : arrays_exclude(a, b);
  }
  if (a.kind == Kind::kConstant && b.kind == Kind::kConstant) {  // numbers are equal by value, not by text: 1 and 1.0
    const auto number = [](const std::string& text) { return text[0] == '-' || (text[0] >= '0' && text[0] <= '9'); };
    if (!number(a.text) || !number(b.text)) return a.text != b.text;
    return std::strtod(a.text.c_str(), nullptr) != std::strtod(b.text.c_str(), nullptr);
  }
  if (a.numeric && b.numeric) return a.most < b.least || b.most < a.least;
  if (b.narrowed && (types_made(a) & TypedNode::kString) != 0) return false;
  const auto x = json_language(a), y = json_language(b);
  if (!x || !y) return false;
  // The same number may have two texts.
  const auto digits = [](const ByteDfa& d) {
    for (const char c : std::string_view("-0123456789"))
      if (d.next(0, static_cast<uint8_t>(c)) >= 0) return true;
    return false;
  };
  if (digits(*x) && digits(*y)) return false;
  const auto both = ByteDfa::both(*x, *y);
  return both && both->empty();
}

bool same_text(const TypedNode& a, const TypedNode& b, int64_t& work) {
  const bool compared = a.language && b.language && a.language != b.language;  // not one and the same
  work -= 1 + (compared ? static_cast<int64_t>(a.language->size() * a.language->classes()) : 0);
  if (work < 0) return false;
  const auto all = [](const auto& x, const auto& y, const auto& same) {
    return std::equal(x.begin(), x.end(), y.begin(), y.end(), same);
  };
  const auto same = [&](const TypedPtr& x, const TypedPtr& y) { return x == y || (x && y && same_text(*x, *y, work)); };
  const auto members = [&](const TypedNode::Member& x, const TypedNode::Member& y) {
    return x.key == y.key && x.required == y.required && x.demanded == y.demanded && same(x.node, y.node);
  };
  return a.kind == b.kind && a.text == b.text && a.quoted == b.quoted && a.words == b.words && a.aliases == b.aliases &&
         (!compared || *a.language == *b.language) && !a.language == !b.language && a.budget == b.budget &&
         a.min_items == b.min_items && a.max_items == b.max_items && a.section == b.section && a.parents == b.parents &&
         (a.presence == b.presence || (a.presence && b.presence && *a.presence == *b.presence)) && same(a.item, b.item) &&
         same(a.name, b.name) && all(a.prefix, b.prefix, same) && all(a.alternatives, b.alternatives, same) &&
         all(a.members, b.members, members);
}

bool has_values(const TypedNode& n) {
  const auto some = [](const TypedPtr& x) { return has_values(*x); };
  return n.kind == TypedNode::Kind::kScalar || (n.item && n.max_items > 0 && has_values(*n.item)) ||
         std::any_of(n.prefix.begin(), n.prefix.end(), some) || std::any_of(n.alternatives.begin(), n.alternatives.end(), some) ||
         std::any_of(n.members.begin(), n.members.end(), [](const auto& m) { return has_values(*m.node); });
}

std::vector<Error> errors_of_schema(const json::value& schema, std::string_view form_name) {
  TypedReader reader(schema, std::string(form_name));
  reader.read();
  return reader.errors();
}

Result<TypedSchema> read_typed(const json::value& schema, std::string_view form_name, const UsualSizes& usual) {
  TypedReader reader(schema, std::string(form_name), usual);
  TypedSchema typed = reader.read();
  const auto& errors = reader.errors();
  if (errors.empty()) return typed;
  ErrorKind kind = ErrorKind::kUnsupported;
  std::string all;
  for (size_t i = 0; i < errors.size(); ++i) {
    if (errors[i].kind == ErrorKind::kBadInput) kind = ErrorKind::kBadInput;
    all += (i > 0 ? "; " : "") + errors[i].message;
  }
  if (errors.size() == 1) return Error{kind, fmt::format("form {}: {}", form_name, all)};
  return Error{kind, fmt::format("form {}: {} errors: {}", form_name, errors.size(), all)};
}

bool write_tag(TypedPtr& a, const TypedNode& b) {
  if (a->kind != TypedNode::Kind::kObject || b.kind != TypedNode::Kind::kObject || a->presence) return false;
  for (size_t i = 0; i < a->members.size(); ++i) {
    const auto& tag = a->members[i];
    const auto other = std::find_if(b.members.begin(), b.members.end(), [&](const auto& m) { return m.key == tag.key; });
    if (tag.required || other == b.members.end() || !excludes(*tag.node, *other->node)) continue;
    TypedNode n = *a;
    n.members[i].required = true;
    a = std::make_shared<const TypedNode>(std::move(n));
    return true;
  }
  return false;
}

/// Where objects begin alike, a member that tells them all apart is written first, and always: readers go by the tag of a union, also
/// where something else would tell.
void tell_apart_first(std::vector<TypedPtr>& objects) {
  const auto member = [](const TypedNode& n, const std::string& key) {
    const auto at = std::find_if(n.members.begin(), n.members.end(), [&](const auto& m) { return m.key == key; });
    return at == n.members.end() ? nullptr : &*at;
  };
  std::vector<TypedPtr*> all;
  for (TypedPtr& o : objects)
    if (o->kind == TypedNode::Kind::kObject && !o->members.empty()) all.push_back(&o);
  if (all.size() < 2 || std::any_of(all.begin(), all.end(), [](const TypedPtr* o) { return (*o)->presence != nullptr; })) return;
  const auto tells = [&](const std::string& key) {
    for (const TypedPtr* a : all)
      for (const TypedPtr* b : all)
        if (a != b && !excludes(*member(**a, key)->node, *member(**b, key)->node)) return false;
    return true;
  };
  const auto spelled = [&](const std::string& key, bool required) {
    return std::all_of(all.begin(), all.end(), [&](const TypedPtr* a) {
      const auto* m = member(**a, key);
      return m && (m->required || !required) &&
             (m->node->kind == TypedNode::Kind::kConstant || m->node->kind == TypedNode::Kind::kChoice);
    });
  };
  for (const bool required : {true, false})
    for (const auto& m : (*all.front())->members) {
      const std::string key = m.key;
      if (!spelled(key, required) || !tells(key)) continue;
      for (TypedPtr* o : all) {
        TypedNode n = **o;
        const auto at = std::find_if(n.members.begin(), n.members.end(), [&](const auto& x) { return x.key == key; });
        at->required = true;
        std::rotate(n.members.begin(), at, at + 1);
        *o = std::make_shared<const TypedNode>(std::move(n));
      }
      return;
    }
}

}  // namespace slip
