// SPDX-License-Identifier: Apache-2.0
// Filters of the template language, after Jinja's documentation of each; methods are in methods.cc, tests in operators.cc.
#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <map>

#include "text/jinja/syntax.h"
#include "text/unicode/unicode.h"

namespace slip::jinja {
namespace {

Result<std::string> need_text(std::string_view name, const Value& value) {
  if (value.undefined() || value.none() || value.list() || value.dict())
    return bad_input("{}: expected a string, got {}", name, value.type_name());
  return to_text(value);
}

constexpr size_t kByName = SIZE_MAX;  // the place of an argument that has none

// a.b.0 of an element, or what stands for it, as a copy that is paid for.
Result<Value> attribute_of(const Value& value, std::string_view path, Budget& budget, const Value& other = Value()) {
  constexpr size_t kMostDigits = 18;  // which 63 bits hold
  const Value* at = &value;
  Value held;
  while (!path.empty()) {
    const size_t dot = std::min(path.find('.'), path.size());
    const std::string_view name = path.substr(0, dot);
    path.remove_prefix(std::min(dot + 1, path.size()));
    if (at->undefined()) return bad_input("expected something to have .{}, got an undefined value", name);
    const Dict* d = at->dict();
    const bool number = name.find_first_not_of("0123456789") == std::string_view::npos && !name.empty();
    if (number && name.size() <= kMostDigits) {
      SLIP_TRY(held, element(*at, Value(int64_t{std::stoll(std::string(name))})));
      at = held.undefined() ? &other : &held;
      continue;
    }
    if (d) SLIP_TRY_(budget.look_in(d->entries.size(), name));
    const Value* v = d && !number ? d->find(name) : nullptr;
    if (!v && !number) {
      SLIP_TRY(v, own_attribute(*at, name));
    }
    at = v && !v->undefined() ? v : &other;
  }
  SLIP_TRY_(budget.take(0, copied_bytes(*at)));
  return *at;
}
// One name: Jinja also takes numbers, and several with commas between.
Status one_attribute(std::string_view filter, const Value& attribute) {
  const bool absent = attribute.undefined() || attribute.none();
  if (!absent && (!attribute.string() || attribute.string()->find(',') != std::string::npos))
    return unsupported("{}: expected an attribute's name, got {}", filter, attribute.string() ? "several" : attribute.type_name());
  return {};
}

Result<Value> filter_trim(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(std::string text, need_text("trim", v));
  return call_method("strip", text, a, budget);
}
template <const char* kMethod>
Result<Value> by_method(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(std::string text, need_text(kMethod, v));
  return call_method(kMethod, text, a, budget);
}
constexpr char kUpper[] = "upper", kLower[] = "lower", kCapitalize[] = "capitalize", kReplace[] = "replace";

Result<Value> filter_length(const Value& v, const Arguments&, Budget&) {
  if (v.list() && !v.is_lazy()) return Value(static_cast<int64_t>(v.list()->size()));
  if (v.string()) return Value(characters(*v.string()));
  if (v.mapping()) return Value(static_cast<int64_t>(v.mapping()->entries.size()));
  if (v.undefined()) return Value(0);
  return bad_input("length: expected a list, a string or a dictionary, got {}", v.type_name());
}
Result<Value> filter_string(const Value& v, const Arguments&, Budget&) {
  SLIP_TRY(std::string text, to_text(v));
  return Value(std::move(text));
}
// Jinja's own: words begin behind blanks, dashes and opening brackets, and nowhere else (Python's str.title: behind any sign).
Result<Value> filter_title(const Value& v, const Arguments&, Budget& budget) {
  SLIP_TRY(std::string text, need_text("title", v));
  SLIP_TRY(const Value small, call_method("lower", text, {}, budget));  // which refuses all letters but ASCII's
  text = *small.string();
  bool begins = true;
  for (char& c : text) {
    if (begins && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    begins = std::string_view("-({[< \t\n\r\f\v\x1c\x1d\x1e\x1f").find(c) != std::string_view::npos;
  }
  return Value(std::move(text));
}

// What Python's int() and float() pass over: blanks around a number, and single underscores between digits. Nothing where one stands
// elsewhere.
std::string number_text(const std::string& s) {
  std::string out;
  const auto digit = [&](size_t i) { return i < s.size() && s[i] >= '0' && s[i] <= '9'; };
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '_') out += s[i];
    if (s[i] == '_' && (i == 0 || !digit(i - 1) || !digit(i + 1))) return {};
  }
  return out;
}
Result<Value> whole(double d) {
  if (!(std::fabs(d) < 0x1p63)) return bad_input("int: expected a number of at most 63 bits, got {}", d);
  return Value(static_cast<int64_t>(d));
}
// int(), or else int(float()), or else the default.
Result<Value> filter_int(const Value& v, const Arguments& a, Budget& budget) {
  const Value other = a.at(0, "default").undefined() ? Value(0) : a.at(0, "default");
  int64_t base = 10, i = 0;
  if (const Value& given = a.at(1, "base"); !given.undefined() && (!given.integer(base) || base != 10))
    return unsupported("int: expected numbers of base 10, got another base");
  if (v.undefined()) return bad_input("int: expected a number or a string, got an undefined value");
  if (v.integer(i)) return Value(i);
  if (v.is_number()) return std::isnan(v.number()) ? Result<Value>(other) : whole(v.number());
  if (!v.string()) return other;
  SLIP_TRY(const Value bare, call_method("strip", v, {}, budget));
  if (std::any_of(bare.string()->begin(), bare.string()->end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return unsupported("int: expected a number in ASCII, got other characters");
  std::string text = number_text(*bare.string());
  if (text.starts_with('+') && !text.starts_with("+-")) text.erase(0, 1);
  const char* end = text.data() + text.size();
  const auto exact = std::from_chars(text.data(), end, i);
  if (exact.ec == std::errc::result_out_of_range && exact.ptr == end)
    return bad_input("int: expected a number of at most 63 bits, got {} digits", text.size());
  if (exact.ec == std::errc() && exact.ptr == end) return Value(i);
  double d = 0;
  const auto close = std::from_chars(text.data(), end, d);
  return close.ec == std::errc() && close.ptr == end && std::isfinite(d) ? whole(d) : Result<Value>(other);
}
Result<Value> filter_default(const Value& v, const Arguments& a, Budget&) {
  const bool instead = v.undefined() || (a.at(1, "boolean").truthy() && !v.truthy());
  const Value& other = a.at(0, "default_value");
  return instead ? (other.undefined() ? Value("") : other) : v;
}
Result<Value> filter_list(const Value& v, const Arguments&, Budget& budget) {
  SLIP_TRY(List items, elements(v, budget));
  return Value(std::move(items));
}
Result<Value> filter_first(const Value& v, const Arguments&, Budget& budget) {
  SLIP_TRY(List items, elements(v, budget));
  return items.empty() ? Value() : items.front();
}
Result<Value> filter_last(const Value& v, const Arguments&, Budget& budget) {
  if (v.is_lazy()) return bad_input("last: expected a list, got {}", v.type_name());
  SLIP_TRY(List items, elements(v, budget));
  return items.empty() ? Value() : items.back();
}
Result<Value> filter_reverse(const Value& v, const Arguments&, Budget& budget) {
  SLIP_TRY(List items, elements(v, budget));
  std::reverse(items.begin(), items.end());
  if (v.is_lazy()) return Value(std::move(items));
  if (!v.string()) return lazily(std::move(items));
  std::string text;
  for (const Value& c : items) text += *c.string();
  return Value(std::move(text));
}
Result<Value> filter_join(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(const List items, elements(v, budget));
  SLIP_TRY(const std::string between, to_text(a.at(0, "d")));
  const Value& attribute = a.at(1, "attribute");
  SLIP_TRY_(one_attribute("join", attribute));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    Value item = items[i];
    if (attribute.string()) {
      SLIP_TRY(item, attribute_of(item, *attribute.string(), budget));
    }
    SLIP_TRY(const std::string text, to_text(item));
    SLIP_TRY_(budget.take(1, static_cast<int64_t>(text.size() + between.size())));
    if (i > 0) out += between;
    out += text;
  }
  return Value(std::move(out));
}
// All but printable ASCII as json.dumps escapes it: in UTF-16.
std::string in_ascii(std::string_view json) {
  std::string out;
  for (size_t at = 0; at < json.size();) {
    const char32_t c = next_character(json, at);
    if (c < 0x7f)
      out += static_cast<char>(c);
    else if (c < 0x10000)
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(c));
    else
      out += fmt::format("\\u{:04x}\\u{:04x}", 0xd800 + ((static_cast<uint32_t>(c) - 0x10000) >> 10), 0xdc00 + (c & 0x3ff));
  }
  return out;
}
// That of transformers: tojson(ensure_ascii=False, indent=None, separators=None, sort_keys=False).
Result<Value> filter_tojson(const Value& v, const Arguments& a, Budget& budget) {
  int64_t indent = -1;
  const Value& given = a.at(1, "indent");
  if (!given.undefined() && !given.none() && (!given.integer(indent) || indent < 0 || indent > 16))
    return bad_input("tojson: expected an indent of 0 to 16, got {}",
                     given.integer(indent) ? std::to_string(indent) : given.type_name());
  std::string out;
  SLIP_TRY_(to_json(v, static_cast<int>(indent), budget, out));
  if (a.at(0, "ensure_ascii").truthy()) {
    SLIP_TRY_(budget.take(0, static_cast<int64_t>(out.size()) * 6));
    out = in_ascii(out);
  }
  return Value(std::move(out));
}
// An element among others that are sorted: it is compared some 16 times.
Status pay_for_place(const Value& key, Budget& budget) {
  constexpr int64_t kComparisons = 16;  // the binary logarithm of 65,536 elements
  return budget.take(kComparisons * (1 + copied_bytes(key) / kBytesPerStep), 0);
}
Result<Value> filter_items(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(const Value pairs, call_method("items", v, a, budget));
  return lazily(*pairs.list());
}
Result<Value> filter_dictsort(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(const Value items, call_method("items", v, a, budget));
  List sorted = *items.list();
  for (const Value& pair : sorted) SLIP_TRY_(pay_for_place((*pair.list())[0], budget));
  const auto key = [](const Value& pair) {
    std::string k = *(*pair.list())[0].string();
    std::transform(k.begin(), k.end(), k.begin(),
                   [](unsigned char c) { return c < 0x80 ? static_cast<char>(std::tolower(c)) : static_cast<char>(c); });
    return k;
  };
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Value& x, const Value& y) { return key(x) < key(y); });
  return Value(std::move(sorted));
}
// Without letter case, as Jinja sorts unless told otherwise.
Result<Value> filter_sort(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(List items, elements(v, budget));
  const Value& attribute = a.at(2, "attribute");
  SLIP_TRY_(one_attribute("sort", attribute));
  const bool cased = a.at(1, "case_sensitive").truthy();
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value key = item;
    if (attribute.string()) {
      SLIP_TRY(key, attribute_of(key, *attribute.string(), budget));
    }
    if (key.string() && !cased) {
      SLIP_TRY(key, call_method("lower", key, {}, budget));
    }
    if (!keyed.empty()) SLIP_TRY_(order(key, keyed[0].first));  // all of one kind, or refused here
    SLIP_TRY_(pay_for_place(key, budget));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  const bool reverse = a.at(0, "reverse").truthy();
  std::stable_sort(keyed.begin(), keyed.end(), [&](const auto& x, const auto& y) {
    return *(reverse ? order(y.first, x.first) : order(x.first, y.first)) < 0;
  });
  List sorted;
  for (auto& [key, item] : keyed) sorted.push_back(std::move(item));
  return Value(std::move(sorted));
}
// Without letter case, as Jinja compares unless told otherwise. Python's set takes no lists and dictionaries.
Result<Value> filter_unique(const Value& v, const Arguments& a, Budget& budget) {
  const Value& attribute = a.at(1, "attribute");
  SLIP_TRY_(one_attribute("unique", attribute));
  const bool cased = a.at(0, "case_sensitive").truthy();
  SLIP_TRY(const List items, elements(v, budget));
  List out, known;
  for (const Value& item : items) {
    Value key = item;
    if (attribute.string()) {
      SLIP_TRY(key, attribute_of(key, *attribute.string(), budget));
    }
    if (key.depth() > 0) return bad_input("unique: expected plain values, got {}", key.type_name());
    if (key.string() && !cased) {
      SLIP_TRY(key, call_method("lower", key, {}, budget));
    }
    bool seen = false;
    for (size_t i = 0; i < known.size() && !seen; ++i) {
      SLIP_TRY(seen, equal(known[i], key, budget));
    }
    if (seen) continue;
    out.push_back(item);
    known.push_back(std::move(key));
  }
  return lazily(std::move(out));
}
Result<Value> filter_map(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(const List items, elements(v, budget));
  List out;
  if (const Value& attribute = a.at(kByName, "attribute"); a.values.empty() && attribute.string()) {
    SLIP_TRY_(only("map", a, 0, "attribute default"));
    const Value& given = a.at(kByName, "default");
    const Value other = given.none() ? Value() : given;
    for (const Value& item : items) {
      SLIP_TRY(Value found, attribute_of(item, *attribute.string(), budget, other));
      out.push_back(std::move(found));
    }
    return lazily(std::move(out));
  }
  const Value& filter = a.at(0, "");
  if (!filter.string() || !is_filter(*filter.string()))
    return unsupported("map: expected an attribute or a filter that is done, got {}",
                       filter.string() ? *filter.string() : "neither");
  const Arguments rest{List(a.values.begin() + (a.values.empty() ? 0 : 1), a.values.end()), a.named};
  for (const Value& item : items) {
    SLIP_TRY(Value mapped, apply_filter(*filter.string(), item, rest, budget));
    SLIP_TRY_(append(out, std::move(mapped), budget));
  }
  return lazily(std::move(out));
}
// select, reject, selectattr, rejectattr: elements (or their attributes) that pass a test, or are true.
Result<Value> filter_select(const Value& v, const Arguments& a, Budget& budget, bool by_attribute, bool keep) {
  SLIP_TRY(const List items, elements(v, budget));
  const size_t first = by_attribute ? 1 : 0;
  const Value &attribute = a.at(0, ""), &test = a.at(first, "");
  if (by_attribute && !attribute.string()) return bad_input("selectattr: expected an attribute, got {}", attribute.type_name());
  if (!test.undefined() && (!test.string() || !is_test(*test.string())))
    return unsupported("select: expected a test that is done, got another");
  const Arguments rest{
      a.values.size() > first + 1 ? List(a.values.begin() + static_cast<std::ptrdiff_t>(first) + 1, a.values.end()) : List{}, {}};
  List out;
  for (const Value& item : items) {
    Value value = item;
    if (by_attribute) {
      SLIP_TRY(value, attribute_of(value, *attribute.string(), budget));
    }
    bool holds = value.truthy();
    if (test.string()) {
      SLIP_TRY(holds, apply_test(*test.string(), value, rest, budget));
    }
    if (holds == keep) out.push_back(item);
  }
  return lazily(std::move(out));
}
// A width that is a string stands in front of the lines itself. All ends of lines become \n.
Result<Value> filter_indent(const Value& v, const Arguments& a, Budget& budget) {
  SLIP_TRY(const std::string text, need_text("indent", v));
  int64_t width = 4;
  const Value& given = a.at(0, "width");
  if (!given.undefined() && !given.string() && !given.integer(width))
    return bad_input("indent: expected a width or a string, got {}", given.type_name());
  if (width < 0 || width > 64) return bad_input("indent: expected a width of 0 to 64, got {}", width);
  const std::string front = given.string() ? *given.string() : std::string(static_cast<size_t>(width), ' ');
  const bool first = a.at(1, "first").truthy(), blank = a.at(2, "blank").truthy();
  SLIP_TRY(const Value lines, call_method("splitlines", text + "\n", {}, budget));
  std::string out = first ? front : "";
  for (size_t i = 0; i < lines.list()->size(); ++i) {
    const std::string& line = *(*lines.list())[i].string();
    const bool indented = i > 0 && (blank || !line.empty());
    SLIP_TRY_(budget.take(1, static_cast<int64_t>(1 + line.size() + (indented ? front.size() : 0))));
    if (i > 0) out += '\n';
    if (indented) out += front;
    out += line;
  }
  return Value(std::move(out));
}
Result<Value> filter_abs(const Value& v, const Arguments&, Budget& budget) {
  int64_t i = 0;
  if (v.integer(i)) return i < 0 ? operate("-", Value(0), v, budget) : Result<Value>(Value(i));
  if (!v.is_number()) return bad_input("abs: expected a number, got {}", v.type_name());
  return Value(std::abs(v.number()));
}
Result<Value> filter_same(const Value& v, const Arguments&, Budget&) { return v; }

constexpr size_t kAnyNumber = SIZE_MAX;
template <bool kByAttribute, bool kKeep>
Result<Value> select(const Value& v, const Arguments& a, Budget& budget) {
  return filter_select(v, a, budget, kByAttribute, kKeep);
}
struct Filter {
  Result<Value> (*apply)(const Value&, const Arguments&, Budget&);
  size_t most = 0;  // arguments
  std::string_view names = {};
};
const std::map<std::string_view, Filter>& filters() {
  static const std::map<std::string_view, Filter> kFilters = {
      {"abs", {filter_abs}},
      {"capitalize", {by_method<kCapitalize>}},
      {"count", {filter_length}},
      {"d", {filter_default, 2, "default_value boolean"}},
      {"default", {filter_default, 2, "default_value boolean"}},
      {"dictsort", {filter_dictsort}},
      {"first", {filter_first}},
      {"indent", {filter_indent, 3, "width first blank"}},
      {"int", {filter_int, 2, "default base"}},
      {"items", {filter_items}},
      {"join", {filter_join, 2, "d attribute"}},
      {"last", {filter_last}},
      {"length", {filter_length}},
      {"list", {filter_list}},
      {"lower", {by_method<kLower>}},
      {"map", {filter_map, kAnyNumber, "*"}},  // those of another filter
      {"reject", {select<false, false>, kAnyNumber}},
      {"rejectattr", {select<true, false>, kAnyNumber}},
      {"replace", {by_method<kReplace>, 3, "old new count"}},
      {"reverse", {filter_reverse}},
      {"safe", {filter_same}},  // nothing is escaped here
      {"select", {select<false, true>, kAnyNumber}},
      {"selectattr", {select<true, true>, kAnyNumber}},
      {"sort", {filter_sort, 3, "reverse case_sensitive attribute"}},
      {"string", {filter_string}},
      {"title", {filter_title}},
      {"tojson", {filter_tojson, 2, "ensure_ascii indent"}},
      {"trim", {filter_trim, 1, "chars"}},
      {"unique", {filter_unique, 2, "case_sensitive attribute"}},
      {"upper", {by_method<kUpper>}},
  };
  return kFilters;
}

}  // namespace

const Value& Arguments::at(size_t place, std::string_view name) const {
  static const Value kAbsent;
  if (place < values.size()) return values[place];
  for (const auto& [key, value] : named)
    if (key == name) return value;
  return kAbsent;
}

bool Arguments::has(size_t place, std::string_view name) const {
  return place < values.size() || std::any_of(named.begin(), named.end(), [&](const auto& one) { return one.first == name; });
}

Status only(std::string_view what, const Arguments& a, size_t most, std::string_view names) {
  if (a.values.size() > most) return unsupported("{}: expected at most {} arguments, got {}", what, most, a.values.size());
  for (const auto& [name, value] : a.named)
    if (names != "*" && fmt::format(" {} ", names).find(fmt::format(" {} ", name)) == std::string::npos)
      return unsupported("{}: expected arguments that are done, got {}", what, name);
  return {};
}

bool is_filter(std::string_view name) { return filters().contains(name); }
bool is_function(std::string_view name) {
  return name == "namespace" || name == "range" || name == "raise_exception" || name == "strftime_now" || name == "dict";
}

bool is_global(std::string_view name) {
  constexpr std::array<std::string_view, 3> kNotDone = {"cycler", "joiner", "lipsum"};
  return (is_function(name) && name != "strftime_now") || std::find(kNotDone.begin(), kNotDone.end(), name) != kNotDone.end();
}

Result<Value> apply_filter(std::string_view name, const Value& value, const Arguments& arguments, Budget& budget) {
  SLIP_TRY_(budget.take(1, 0));
  const Filter& filter = filters().find(name)->second;
  SLIP_TRY_(only(name, arguments, filter.most, filter.names));
  return filter.apply(value, arguments, budget);
}

Result<List> elements(const Value& value, Budget& budget) {
  List out;
  if (const List* l = value.list()) {
    SLIP_TRY_(value.walk());
    SLIP_TRY_(budget.take(0, value.list_bytes()));
    out = *l;
  } else if (const Dict* d = value.mapping()) {
    for (const auto& [key, v] : d->entries) SLIP_TRY_(append(out, key, budget));
  } else if (const std::string* s = value.string()) {
    for (size_t i = 0; i < s->size();) {
      size_t n = 1;
      while (i + n < s->size() && (static_cast<unsigned char>((*s)[i + n]) & 0xC0) == 0x80) ++n;
      SLIP_TRY_(append(out, s->substr(i, n), budget));
      i += n;
    }
  } else if (!value.undefined()) {
    return bad_input("expected a list, a dictionary or a string to walk over, got {}", value.type_name());
  }
  SLIP_TRY_(budget.take(static_cast<int64_t>(out.size()), 0));
  return out;
}

}  // namespace slip::jinja
