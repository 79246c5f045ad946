// SPDX-License-Identifier: Apache-2.0
// Comparison, printing and JSON of template values, as Python does them.
#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

namespace slip::jinja {

Listing::Listing(List list, bool is_a_tuple, bool is_lazy) : items(std::move(list)), tuple(is_a_tuple), lazy(is_lazy) {
  for (const Value& x : items) {
    depth = std::max(depth, 1 + x.depth());
    bytes += copied_bytes(x);
  }
}

int64_t copied_bytes(const Value& value) {
  return static_cast<int64_t>(sizeof(Value) + (value.string() ? value.string()->size() : 0));
}

Status append(List& list, Value value, Budget& budget) {
  SLIP_TRY_(budget.take(0, copied_bytes(value)));
  list.push_back(std::move(value));
  return {};
}

Result<bool> holds_namespace(const Value& value, Budget& budget) {
  SLIP_TRY_(budget.take(1, 0));
  if (const List* l = value.list()) {
    for (const Value& x : *l) {
      SLIP_TRY(const bool inside, holds_namespace(x, budget));
      if (inside) return true;
    }
  } else if (const Dict* d = value.dict()) {
    if (d->is_namespace) return true;
    for (const auto& [key, x] : d->entries) {
      SLIP_TRY(const bool inside, holds_namespace(x, budget));
      if (inside) return true;
    }
  }
  return false;
}

bool Value::is_tuple() const {
  const auto* p = std::get_if<std::shared_ptr<const Listing>>(&v);
  return p && (*p)->tuple;
}

bool Value::is_lazy() const {
  const auto* p = std::get_if<std::shared_ptr<const Listing>>(&v);
  return p && (*p)->lazy;
}

Status Value::walk() const {
  if (!is_lazy()) return {};
  if (!std::exchange(std::get<std::shared_ptr<const Listing>>(v)->walked, true)) return {};
  return bad_input("expected a list, got a filter's elements once more, of which nothing is left (| list keeps them)");
}

Value lazily(List list) { return Value(std::make_shared<const Listing>(std::move(list), false, true)); }

int64_t Value::list_bytes() const {
  const auto* p = std::get_if<std::shared_ptr<const Listing>>(&v);
  return p ? (*p)->bytes : 0;
}

Value::Value(Dict x) {
  x.depth = 1;
  for (const auto& [key, value] : x.entries) x.depth = std::max(x.depth, 1 + value.depth());
  v = std::make_shared<Dict>(std::move(x));
}

int Value::depth() const {
  if (const auto* p = std::get_if<std::shared_ptr<const Listing>>(&v)) return (*p)->depth;
  return dict() ? dict()->depth : 0;
}

const Value* Dict::find(std::string_view key) const {
  for (const auto& [name, value] : entries)
    if (name == key) return &value;
  return nullptr;
}

void Dict::set(std::string_view key, Value value) {
  for (auto& [name, old] : entries) {
    if (name != key) continue;
    old = std::move(value);
    return;
  }
  entries.emplace_back(std::string(key), std::move(value));
}

double Value::number() const {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  int64_t i = 0;
  integer(i);
  return static_cast<double>(i);
}

bool Value::integer(int64_t& out) const {
  if (const auto* i = std::get_if<int64_t>(&v)) return out = *i, true;
  if (const bool* b = boolean()) return out = *b, true;
  return false;
}

bool Value::truthy() const {
  if (undefined() || none()) return false;
  if (const std::string* s = string()) return !s->empty();
  if (const List* l = list()) return is_lazy() || !l->empty();
  if (const Dict* d = dict()) return d->is_namespace || !d->entries.empty();
  return !is_number() || number() != 0;
}

const char* Value::type_name() const {
  static constexpr const char* kNames[] = {"an undefined value", "none",   "a boolean",    "an integer", "a number",
                                           "a string",           "a list", "a dictionary", "a macro"};
  if (const auto* macro = std::get_if<Macro>(&v); macro && !macro->node) return "a function that is not called";
  if (dict() && !mapping()) return "a namespace";
  if (is_lazy()) return "a filter's elements (| list makes a list of them)";
  return kNames[v.index()];
}

namespace {

// Exact, where a double does not have the digits of an integer.
std::partial_ordering order_of_numbers(const Value& a, const Value& b) {
  int64_t x = 0, y = 0;
  const bool whole_a = a.integer(x), whole_b = b.integer(y);
  if (whole_a && whole_b) return x <=> y;
  if (!whole_a && !whole_b) return a.number() <=> b.number();
  if (whole_b) return 0 <=> order_of_numbers(b, a);
  const double d = b.number();
  if (!(std::fabs(d) < 0x1p63)) return 0.0 <=> d;
  const auto below = static_cast<int64_t>(d);  // cut off towards 0
  return x != below ? x <=> below : static_cast<double>(below) <=> d;
}

}  // namespace

Result<bool> equal(const Value& a, const Value& b, Budget& budget) {
  SLIP_TRY_(budget.take(1, 0));
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b) == 0;
  if (a.v.index() != b.v.index()) return false;
  if (a.undefined() || a.none()) return true;
  if (a.string()) {
    if (a.string()->size() != b.string()->size()) return false;
    SLIP_TRY_(budget.compare(*a.string(), *b.string()));
    return *a.string() == *b.string();
  }
  if (a.list()) {
    if (a.is_lazy() || b.is_lazy()) return a.v == b.v;
    if (a.is_tuple() != b.is_tuple() || a.list()->size() != b.list()->size()) return false;
    for (size_t i = 0; i < a.list()->size(); ++i) {
      SLIP_TRY(const bool same, equal((*a.list())[i], (*b.list())[i], budget));
      if (!same) return false;
    }
    return true;
  }
  if (a.dict()) {
    if (a.dict() == b.dict()) return true;
    if (a.dict()->is_namespace || a.dict()->entries.size() != b.dict()->entries.size()) return false;
    for (const auto& [key, value] : a.dict()->entries) {
      SLIP_TRY_(budget.look_in(b.dict()->entries.size(), key));
      const Value* other = b.dict()->find(key);
      if (!other) return false;
      SLIP_TRY(const bool same, equal(value, *other, budget));
      if (!same) return false;
    }
    return true;
  }
  return std::get<Macro>(a.v) == std::get<Macro>(b.v);
}

Result<std::partial_ordering> order(const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) return order_of_numbers(a, b);
  if (a.string() && b.string()) return std::partial_ordering(*a.string() <=> *b.string());  // UTF-8 orders as its characters do
  return bad_input("expected two numbers or two strings to compare, got {} and {}", a.type_name(), b.type_name());
}

Result<bool> contains(const Value& inside, const Value& value, Budget& budget) {
  if (const std::string* s = inside.string()) {
    if (!value.string()) return bad_input("expected a string to look for in a string, got {}", value.type_name());
    SLIP_TRY_(budget.look_for(*value.string(), *s));
    return s->find(*value.string()) != std::string::npos;
  }
  if (const List* l = inside.list()) {
    SLIP_TRY_(inside.walk());
    for (const Value& x : *l) {
      SLIP_TRY(const bool same, equal(x, value, budget));
      if (same) return true;
    }
    return false;
  }
  if (const Dict* d = inside.mapping()) {
    if (!value.string()) return false;
    SLIP_TRY_(budget.look_in(d->entries.size(), *value.string()));
    return d->find(*value.string()) != nullptr;
  }
  if (inside.undefined()) return false;
  return bad_input("expected a string, a list or a dictionary to look in, got {}", inside.type_name());
}

namespace {

// Python's repr of a float: the shortest digits that come back, never without a point or an exponent.
std::string float_text(double d) {
  std::string s = fmt::format("{}", d);
  if (s.find_first_not_of("-0123456789") == std::string::npos) s += ".0";
  return s;
}

void escape(std::string_view s, std::string& out) {
  out += '"';
  for (const char c : s) {
    const auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\b') {
      out += "\\b";
    } else if (c == '\f') {
      out += "\\f";
    } else if (u < 0x20) {
      out += fmt::format("\\u{:04x}", u);
    } else {
      out += c;
    }
  }
  out += '"';
}

}  // namespace

Result<std::string> to_text(const Value& value) {
  if (value.undefined()) return std::string();
  if (value.none()) return std::string("None");
  if (const std::string* s = value.string()) return *s;
  if (const bool* b = value.boolean()) return std::string(*b ? "True" : "False");
  if (const auto* i = std::get_if<int64_t>(&value.v)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value.v)) return float_text(*d);
  return bad_input("expected text or a number to print, got {}", value.type_name());
}

namespace {

// What a signed number of 64 bits, or punctuation and a word such as false, may take.
constexpr int64_t kPlainBytes = 24;

struct JsonWriter {
  int indent;
  Budget& budget;
  std::string& out;

  Status line(int level) {
    if (indent < 0) return {};
    const size_t blanks = static_cast<size_t>(indent) * static_cast<size_t>(level);
    SLIP_TRY_(budget.take(0, static_cast<int64_t>(1 + blanks)));
    out.append(1, '\n').append(blanks, ' ');
    return {};
  }
  // Escapes are paid for when they are known: six bytes for one at most.
  Status quoted(std::string_view text) {
    SLIP_TRY_(budget.take(0, static_cast<int64_t>(text.size())));
    const size_t before = out.size();
    escape(text, out);
    return budget.take(0, static_cast<int64_t>(out.size() - before - text.size()));
  }
  Status comma(size_t place, int depth) {
    if (place > 0) out += indent >= 0 ? "," : ", ";
    return line(depth + 1);
  }
  Status list(const List& l, int depth) {
    out += '[';
    for (size_t i = 0; i < l.size(); ++i) {
      SLIP_TRY_(comma(i, depth));
      SLIP_TRY_(value(l[i], depth + 1));
    }
    if (!l.empty()) SLIP_TRY_(line(depth));
    out += ']';
    return {};
  }
  Status dict(const Dict& d, int depth) {
    out += '{';
    for (size_t i = 0; i < d.entries.size(); ++i) {
      SLIP_TRY_(comma(i, depth));
      SLIP_TRY_(quoted(d.entries[i].first));
      out += ": ";
      SLIP_TRY_(value(d.entries[i].second, depth + 1));
    }
    if (!d.entries.empty()) SLIP_TRY_(line(depth));
    out += '}';
    return {};
  }
  Status value(const Value& v, int depth) {
    SLIP_TRY_(budget.take(1, kPlainBytes));
    if (depth > kMostLevels) return bad_input("tojson: expected at most {} levels, got more", kMostLevels);
    if (const std::string* s = v.string()) return quoted(*s);
    if (const List* l = v.list(); l && !v.is_lazy()) return list(*l, depth);
    if (const Dict* d = v.mapping()) return dict(*d, depth);
    if (v.none()) {
      out += "null";
    } else if (const bool* b = v.boolean()) {
      out += *b ? "true" : "false";
    } else if (v.is_number()) {
      SLIP_TRY(const std::string text, to_text(v));
      out += text;
    } else {
      return bad_input("tojson: expected a value that JSON has, got {}", v.type_name());
    }
    return {};
  }
};

}  // namespace

Status to_json(const Value& value, int indent, Budget& budget, std::string& out) {
  return JsonWriter{indent, budget, out}.value(value, 0);
}

int64_t characters(std::string_view s) {
  return std::count_if(s.begin(), s.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; });
}

std::string_view characters_of(std::string_view s, int64_t begin, int64_t end) {
  int64_t at = -1;
  size_t first = s.size(), last = s.size();
  for (size_t i = 0; i < s.size(); ++i) {
    if ((static_cast<unsigned char>(s[i]) & 0xC0) == 0x80) continue;
    ++at;
    if (at == begin) first = i;
    if (at == end) {
      last = i;
      break;
    }
  }
  return first < last ? s.substr(first, last - first) : std::string_view{};
}

}  // namespace slip::jinja
