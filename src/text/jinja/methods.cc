// SPDX-License-Identifier: Apache-2.0
// Methods of strings and dictionaries in templates, after Python's documentation of each. Letter case is ASCII's: templates fold roles
// and literals, and other letters are refused rather than folded wrongly.
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>

#include "text/jinja/syntax.h"
#include "text/unicode/unicode.h"

namespace slip::jinja {
namespace {

struct Method {
  std::string_view name;
  size_t most = 0;  // arguments
  std::string_view names = {};
};
constexpr std::array<Method, 25> kMethods = {{{"strip", 1, "chars"},
                                              {"lstrip", 1, "chars"},
                                              {"rstrip", 1, "chars"},
                                              {"split", 2, "sep maxsplit"},
                                              {"rsplit", 2, "sep maxsplit"},
                                              {"splitlines", 1, "keepends"},
                                              {"startswith", 3},
                                              {"endswith", 3},
                                              {"replace", 3, "old new count"},
                                              {"upper"},
                                              {"lower"},
                                              {"title"},
                                              {"capitalize"},
                                              {"find", 3},
                                              {"rfind", 3},
                                              {"count", 3},
                                              {"join", 1},
                                              {"removeprefix", 1},
                                              {"removesuffix", 1},
                                              {"isdigit"},
                                              {"get", 2},
                                              {"items"},
                                              {"keys"},
                                              {"values"},
                                              {"index", 3}}};
const Method* method_of(std::string_view name) {
  const auto* found = std::find_if(kMethods.begin(), kMethods.end(), [&](const Method& m) { return m.name == name; });
  return found == kMethods.end() ? nullptr : found;
}

/// Python's str.isspace: White_Space and the four ASCII separators.
bool is_blank(char32_t c) { return is_space(c) || (c >= 0x1c && c <= 0x1f); }
/// Where Python's str.splitlines ends a line.
bool ends_line(char32_t c) {
  return (c >= '\n' && c <= '\r') || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

Result<std::string> need_string(std::string_view method, const Value& v) {
  if (!v.string()) return bad_input("{}: expected a string as argument, got {}", method, v.type_name());
  return *v.string();
}

std::string_view stripped(std::string_view s, std::string_view chars, bool left, bool right) {
  while (left && !s.empty() && chars.find(s.front()) != std::string_view::npos) s.remove_prefix(1);
  while (right && !s.empty() && chars.find(s.back()) != std::string_view::npos) s.remove_suffix(1);
  return s;
}

Result<Value> strip(std::string_view name, const std::string& s, const Arguments& a) {
  const bool left = name != "rstrip", right = name != "lstrip";
  const Value& given = a.at(0, "chars");
  if (given.undefined() || given.none()) return Value(std::string(without_blanks(s, left, right)));
  SLIP_TRY(const std::string chars, need_string(name, given));
  if (std::any_of(chars.begin(), chars.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return unsupported("{}: expected ASCII characters to take off, got others", name);
  return Value(std::string(stripped(s, chars, left, right)));
}

// How many times at most; without end where nothing is given or less than 0.
Result<int64_t> most_of(std::string_view method, const Value& given) {
  int64_t most = -1;
  if (!given.undefined() && !given.integer(most)) return bad_input("{}: expected an integer, got {}", method, given.type_name());
  return std::max<int64_t>(most, -1);
}

Result<Value> words_of(std::string_view s, Budget& budget) {
  List out;
  size_t from = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t here = at;
    if (!is_blank(next_character(s, at))) continue;
    if (here > from) SLIP_TRY_(append(out, std::string(s.substr(from, here - from)), budget));
    from = at;
  }
  if (from < s.size()) SLIP_TRY_(append(out, std::string(s.substr(from)), budget));
  return Value(std::move(out));
}

Result<Value> split(std::string_view name, const std::string& s, const Arguments& a, Budget& budget) {
  SLIP_TRY(int64_t most, most_of(name, a.at(1, "maxsplit")));
  const Value& separator = a.at(0, "sep");
  SLIP_TRY_(budget.take(static_cast<int64_t>(s.size()) / 8, 0));
  if (separator.undefined() || separator.none()) {
    if (most >= 0) return unsupported("{}: expected a separator beside a number of splits, got none", name);
    return words_of(s, budget);
  }
  SLIP_TRY(const std::string by, need_string(name, separator));
  if (by.empty()) return bad_input("{}: expected a separator, got an empty one", name);
  SLIP_TRY_(budget.look_for(by, s));
  List out;
  std::string_view rest = s;
  const bool right = name == "rsplit";
  for (; most != 0; --most) {
    const size_t at = right ? rest.rfind(by) : rest.find(by);
    if (at == std::string_view::npos) break;
    SLIP_TRY_(append(out, std::string(right ? rest.substr(at + by.size()) : rest.substr(0, at)), budget));
    rest = right ? rest.substr(0, at) : rest.substr(at + by.size());
  }
  SLIP_TRY_(append(out, std::string(rest), budget));
  if (right) std::reverse(out.begin(), out.end());
  return Value(std::move(out));
}

Result<Value> splitlines(const std::string& s, bool keep_ends, Budget& budget) {
  SLIP_TRY_(budget.take(static_cast<int64_t>(s.size()) / 8, 0));
  List out;
  size_t from = 0;
  for (size_t at = 0; at < s.size();) {
    const size_t here = at;
    if (!ends_line(next_character(s, at))) continue;
    if (s.compare(here, 2, "\r\n") == 0) ++at;
    SLIP_TRY_(append(out, s.substr(from, (keep_ends ? at : here) - from), budget));
    from = at;
  }
  if (from < s.size()) SLIP_TRY_(append(out, s.substr(from), budget));
  return Value(std::move(out));
}

Result<Value> fold(std::string_view name, std::string s) {
  if (std::any_of(s.begin(), s.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x80; }))
    return unsupported("{}: expected ASCII letters, got others", name);
  bool inside = false;  // a word, of which title() and capitalize() leave the first letter large
  for (char& c : s) {
    const bool small = c >= 'a' && c <= 'z', large = c >= 'A' && c <= 'Z';
    const bool up = name == "upper" || (name != "lower" && !inside);
    if (small && up) c = static_cast<char>(c - 'a' + 'A');
    if (large && !up) c = static_cast<char>(c - 'A' + 'a');
    inside = name == "capitalize" || small || large;
  }
  return Value(std::move(s));
}

Result<Value> replace(const std::string& s, const Arguments& a, Budget& budget) {
  SLIP_TRY(const std::string from, need_string("replace", a.at(0, "old")));
  SLIP_TRY(const std::string to, need_string("replace", a.at(1, "new")));
  if (from.empty()) return unsupported("replace: expected something to replace, got an empty string");
  SLIP_TRY(int64_t most, most_of("replace", a.at(2, "count")));
  SLIP_TRY_(budget.look_for(from, s));
  std::string out;
  size_t i = 0;
  for (; most != 0; --most) {
    const size_t at = s.find(from, i);
    if (at == std::string::npos) break;
    SLIP_TRY_(budget.take(1, static_cast<int64_t>(at - i + to.size())));
    out.append(s, i, at - i).append(to);
    i = at + from.size();
  }
  return Value(out.append(s, i));
}

// Where a search looks: the characters from the second argument up to the third, as Python clamps them. None where the first is
// behind the last: not even an empty text is found there.
struct Window {
  std::string_view text;
  int64_t begin = 0;
  bool none = false;
};
Result<Window> window(std::string_view name, const std::string& s, const Arguments& a) {
  if (a.values.size() < 2) return Window{s};
  const int64_t length = characters(s);
  int64_t ends[2] = {0, length};
  for (size_t i = 0; i < 2; ++i) {
    const Value& given = a.at(1 + i, "");
    if (i + 1 >= a.values.size() || given.none()) continue;
    if (!given.integer(ends[i])) return bad_input("{}: expected an integer, got {}", name, given.type_name());
    if (ends[i] < 0) ends[i] = std::max<int64_t>(0, ends[i] + length);
  }
  ends[1] = std::min(ends[1], length);
  return Window{characters_of(s, ends[0], ends[1]), ends[0], ends[0] > ends[1]};
}

// One of several, where a list is given.
Result<Value> begins_or_ends(std::string_view name, const std::string& s, const Arguments& a, Budget& budget) {
  const Value& with = a.at(0, "");
  SLIP_TRY(const Window inside, window(name, s, a));
  List parts{with};
  if (with.list()) {
    SLIP_TRY(parts, elements(with, budget));
  }
  for (const Value& part : parts) {
    SLIP_TRY(const std::string text, need_string(name, part));
    if (!inside.none && (name == "startswith" ? inside.text.starts_with(text) : inside.text.ends_with(text))) return Value(true);
  }
  return Value(false);
}

int64_t count_in(std::string_view s, std::string_view part) {
  if (part.empty()) return characters(s) + 1;
  int64_t n = 0;
  for (size_t at = s.find(part); at != std::string::npos; at = s.find(part, at + part.size())) ++n;
  return n;
}

Result<Value> look_for(std::string_view name, const std::string& s, const Arguments& a, Budget& budget) {
  SLIP_TRY(const std::string part, need_string(name, a.at(0, "")));
  SLIP_TRY(const Window inside, window(name, s, a));
  SLIP_TRY_(budget.look_for(part, inside.text));
  if (name == "count") return Value(inside.none ? 0 : count_in(inside.text, part));
  const size_t at = inside.none ? std::string::npos : name == "rfind" ? inside.text.rfind(part) : inside.text.find(part);
  if (at == std::string::npos && name == "index") return bad_input("index: expected a string that is there, got one that is not");
  return Value(at == std::string::npos ? int64_t{-1} : inside.begin + characters(inside.text.substr(0, at)));
}

// Python has digits beyond ASCII's.
Result<Value> is_digits(const std::string& s) {
  const auto ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (s.empty() || std::any_of(s.begin(), s.end(), [&](char c) { return ascii(c) && (c < '0' || c > '9'); })) return Value(false);
  if (!std::all_of(s.begin(), s.end(), ascii)) return unsupported("isdigit: expected ASCII characters, got others");
  return Value(true);
}

Result<Value> join(const std::string& between, const Value& list, Budget& budget) {
  SLIP_TRY(const List items, elements(list, budget));
  std::string out;
  for (size_t i = 0; i < items.size(); ++i) {
    SLIP_TRY(const std::string text, need_string("join", items[i]));
    SLIP_TRY_(budget.take(1, static_cast<int64_t>(text.size() + between.size())));
    if (i > 0) out += between;
    out += text;
  }
  return Value(std::move(out));
}

Result<Value> of_string(std::string_view name, const std::string& s, const Arguments& a, Budget& budget) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") return strip(name, s, a);
  if (name == "split" || name == "rsplit") return split(name, s, a, budget);
  if (name == "splitlines") return splitlines(s, a.at(0, "keepends").truthy(), budget);
  if (name == "startswith" || name == "endswith") return begins_or_ends(name, s, a, budget);
  if (name == "replace") return replace(s, a, budget);
  if (name == "upper" || name == "lower" || name == "title" || name == "capitalize") return fold(name, s);
  if (name == "join") return join(s, a.at(0, ""), budget);
  if (name == "isdigit") return is_digits(s);
  if (name == "find" || name == "rfind" || name == "count" || name == "index") return look_for(name, s, a, budget);
  if (name == "removeprefix" || name == "removesuffix") {
    SLIP_TRY(const std::string part, need_string(name, a.at(0, "")));
    if (name == "removeprefix") return Value(s.starts_with(part) ? s.substr(part.size()) : s);
    return Value(s.ends_with(part) ? s.substr(0, s.size() - part.size()) : s);
  }
  return bad_input("expected a method of strings, got {}", name);
}

Result<Value> of_dict(std::string_view name, const Dict& d, const Arguments& a, Budget& budget) {
  if (name == "get") {
    const Value& key = a.at(0, "key");
    if (key.string()) SLIP_TRY_(budget.look_in(d.entries.size(), *key.string()));
    const Value* found = key.string() ? d.find(*key.string()) : nullptr;
    if (found) return *found;
    const Value& other = a.at(1, "default");
    return other.undefined() ? Value(None{}) : other;
  }
  List out;
  for (const auto& [key, value] : d.entries) {
    if (name == "keys") {
      SLIP_TRY_(append(out, key, budget));
    } else if (name == "values") {
      SLIP_TRY_(append(out, value, budget));
    } else if (name == "items") {
      List pair;
      SLIP_TRY_(append(pair, key, budget));
      SLIP_TRY_(append(pair, value, budget));
      SLIP_TRY_(append(out, std::make_shared<const Listing>(std::move(pair), true), budget));
    } else {
      return bad_input("expected a method of dictionaries, got {}", name);
    }
  }
  return Value(std::move(out));
}

}  // namespace

std::string_view without_blanks(std::string_view s, bool left, bool right) {
  for (size_t at = 0; left && at < s.size() && is_blank(next_character(s, at)); at = 0) s.remove_prefix(at);
  for (size_t at = s.size(); right && at > 0 && is_blank(previous_character(s, at)); at = s.size()) s = s.substr(0, at);
  return s;
}

Result<std::string> format_date(const std::string& day, const std::string& format) {
  std::tm when{};
  const std::time_t now = std::time(nullptr);
  if (day.empty()) {
    localtime_r(&now, &when);
  } else {
    int used = 0;
    if (std::sscanf(day.c_str(), "%4d-%2d-%2d%n", &when.tm_year, &when.tm_mon, &when.tm_mday, &used) != 3 ||
        static_cast<size_t>(used) != day.size() || when.tm_mon < 1 || when.tm_mon > 12 || when.tm_mday < 1 || when.tm_mday > 31)
      return bad_input("date: expected a day such as 2026-11-20, got {}", day);
    when.tm_year -= 1900;
    when.tm_mon -= 1;
    when.tm_hour = 12;
    timegm(&when);  // fills in the day of the week and of the year
  }
  for (size_t i = 0; i < format.size(); ++i)
    if (format[i] == '%' && (++i == format.size() || std::string_view("aAbBdjmyY%").find(format[i]) == std::string_view::npos))
      return unsupported("strftime_now: expected a format of days, months and years, got {}", format);
  char text[256];
  const size_t n = std::strftime(text, sizeof text, format.c_str(), &when);
  if (n == 0 && !format.empty())
    return unsupported("strftime_now: expected a format shorter than 256 characters, got {}", format.size());
  return std::string(text, n);
}

bool is_method(std::string_view name) { return method_of(name) != nullptr; }

Result<const Value*> own_attribute(const Value& object, std::string_view name) {
  static const Value kMethod{Macro{}}, kHidden;
  const auto among = [&](std::string_view names) {
    return names.find(fmt::format(" {} ", name)) != std::string_view::npos && name.find(' ') == std::string_view::npos;
  };
  std::string_view shown, hidden;
  if (object.string()) {
    shown =
        " capitalize casefold center count encode endswith expandtabs find format format_map index isalnum isalpha isascii "
        "isdecimal "
        "isdigit isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
        "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip swapcase "
        "title translate upper zfill ";
  } else if (object.list() && !object.is_lazy()) {
    shown = object.is_tuple() ? " count index " : " copy count index ";
    hidden = object.is_tuple() ? "" : " append clear extend insert pop remove reverse sort ";
  } else if (object.mapping()) {
    shown = " copy fromkeys get items keys values ";
    hidden = " clear pop popitem setdefault update ";
  } else if (object.is_number() && among(" as_integer_ratio bit_count bit_length conjugate denominator from_bytes fromhex hex imag "
                                         "is_integer numerator real to_bytes ")) {
    return unsupported("expected no parts of numbers, got .{}", name);
  } else if (const auto* macro = std::get_if<Macro>(&object.v);
             macro && macro->node && among(" arguments caller catch_kwargs catch_varargs explicit_caller name ")) {
    return unsupported("expected no parts of macros, got .{}", name);
  }
  return among(shown) ? &kMethod : among(hidden) ? &kHidden : nullptr;
}

Result<Value> call_method(std::string_view name, const Value& object, const Arguments& arguments, Budget& budget) {
  SLIP_TRY_(budget.take(1, 0));
  if (const Method* method = method_of(name)) SLIP_TRY_(only(name, arguments, method->most, method->names));
  if (const std::string* s = object.string()) return of_string(name, *s, arguments, budget);
  if (const Dict* d = object.mapping()) return of_dict(name, *d, arguments, budget);
  return bad_input("expected a string or a dictionary to have .{}(), got {}", name, object.type_name());
}

}  // namespace slip::jinja
