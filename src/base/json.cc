// SPDX-License-Identifier: Apache-2.0
// The one translation unit that compiles Boost.JSON, and the helpers of json.h.
#include "base/json.h"

#include <boost/json/basic_parser_impl.hpp>
#include <boost/json/src.hpp>
#include <charconv>
#include <cmath>
#include <optional>

#include "base/file.h"

namespace slip {

namespace {

// 1-based line and column of a byte offset: what an editor shows.
std::pair<size_t, size_t> line_and_column(std::string_view text, size_t offset) {
  size_t line = 1, start = 0;
  for (size_t i = 0; i < offset && i < text.size(); ++i) {
    if (text[i] == '\n') {
      ++line;
      start = i + 1;
    }
  }
  return {line, offset - start + 1};
}

std::string_view kind_name(const json::value& v) {
  switch (v.kind()) {
    case json::kind::null:
      return "null";
    case json::kind::bool_:
      return "a boolean";
    case json::kind::int64:
    case json::kind::uint64:
      return "an integer";
    case json::kind::double_:
      return "a number";
    case json::kind::string:
      return "a string";
    case json::kind::array:
      return "an array";
    case json::kind::object:
      return "an object";
  }
  return "?";
}

Error missing(std::string_view where, std::string_view key, std::string_view wanted) {
  return bad_input("{}: key \"{}\": expected {}, got nothing", where, key, wanted);
}
Error mistyped(std::string_view where, std::string_view key, std::string_view wanted, const json::value& v) {
  return bad_input("{}: key \"{}\": expected {}, got {}", where, key, wanted, kind_name(v));
}

// Numbers in JSON come as int64, uint64 or double; an integral double (1e6) counts as an integer.
Result<int64_t> as_int(const json::value& v, std::string_view key, std::string_view where) {
  if (v.is_int64()) return v.get_int64();
  if (v.is_uint64() && v.get_uint64() <= uint64_t{INT64_MAX}) return static_cast<int64_t>(v.get_uint64());
  if (v.is_double()) {
    const double d = v.get_double();
    if (d >= -9e15 && d <= 9e15 && d == static_cast<double>(static_cast<int64_t>(d))) return static_cast<int64_t>(d);
  }
  if (v.is_uint64()) return bad_input("{}: key \"{}\": expected an integer below 2^63, got {}", where, key, v.get_uint64());
  return mistyped(where, key, "an integer", v);
}

void write_pretty(std::string& out, const json::value& v, int depth) {
  const auto indent = [&](int d) { out.append(static_cast<size_t>(d) * 2, ' '); };
  if (const auto* o = v.if_object(); o && !o->empty()) {
    out += "{\n";
    for (size_t i = 0; const auto& [key, value] : *o) {
      indent(depth + 1);
      out += json::serialize(json::string_view(key)) + ": ";
      write_pretty(out, value, depth + 1);
      out += ++i < o->size() ? ",\n" : "\n";
    }
    indent(depth);
    out += '}';
  } else if (const auto* a = v.if_array(); a && !a->empty() && (a->front().is_object() || a->front().is_array())) {
    out += "[\n";
    for (size_t i = 0; const auto& value : *a) {
      indent(depth + 1);
      write_pretty(out, value, depth + 1);
      out += ++i < a->size() ? ",\n" : "\n";
    }
    indent(depth);
    out += ']';
  } else {
    out += json::serialize(v);
  }
}

/// Where a number beyond the doubles lies (".a[3]"), which the parser reads as infinity and which could not be written again.
std::optional<std::string> infinite_at(const json::value& v) {
  if (const double* d = v.if_double()) return std::isfinite(*d) ? std::nullopt : std::optional<std::string>("");
  if (const auto* o = v.if_object()) {
    for (const auto& [key, value] : *o)
      if (auto rest = infinite_at(value)) return "." + std::string(key) + *rest;
  } else if (const auto* a = v.if_array()) {
    for (size_t i = 0; i < a->size(); ++i)
      if (auto rest = infinite_at((*a)[i])) return "[" + std::to_string(i) + "]" + *rest;
  }
  return std::nullopt;
}

/// Builds a value as json::parse does, but with the double nearest to what is written: the parser's own sum of digits is up to 5 units in
/// the last place away, and a constant of a schema would be answered with another number than was asked for.
struct ExactHandler {
  static constexpr std::size_t max_array_size = json::array::max_size(), max_object_size = json::object::max_size();
  static constexpr std::size_t max_string_size = json::string::max_size(), max_key_size = json::string::max_size();
  using Code = boost::system::error_code;
  using View = json::string_view;

  json::value_stack stack;
  std::string number;  // parts of one so far

  bool on_document_begin(Code&) {
    stack.reset();
    return true;
  }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return true; }
  bool on_object_end(std::size_t n, Code&) {
    stack.push_object(n);
    return true;
  }
  bool on_array_begin(Code&) { return true; }
  bool on_array_end(std::size_t n, Code&) {
    stack.push_array(n);
    return true;
  }
  bool on_key_part(View s, std::size_t, Code&) {
    stack.push_chars(s);
    return true;
  }
  bool on_key(View s, std::size_t, Code&) {
    stack.push_key(s);
    return true;
  }
  bool on_string_part(View s, std::size_t, Code&) {
    stack.push_chars(s);
    return true;
  }
  bool on_string(View s, std::size_t, Code&) {
    stack.push_string(s);
    return true;
  }
  bool on_number_part(View s, Code&) {
    number.append(s.data(), s.size());
    return true;
  }
  bool on_int64(int64_t i, View, Code&) {
    number.clear();
    stack.push_int64(i);
    return true;
  }
  bool on_uint64(uint64_t u, View, Code&) {
    number.clear();
    stack.push_uint64(u);
    return true;
  }
  bool on_double(double rough, View s, Code&) {
    number.append(s.data(), s.size());
    double exact = rough;
    const auto read = std::from_chars(number.data(), number.data() + number.size(), exact);
    // Out of range is infinite or next to nothing, and the parser's own number says which.
    if (read.ec != std::errc() || read.ptr != number.data() + number.size()) exact = rough;
    number.clear();
    stack.push_double(exact);
    return true;
  }
  bool on_bool(bool b, Code&) {
    stack.push_bool(b);
    return true;
  }
  bool on_null(Code&) {
    stack.push_null();
    return true;
  }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }
};

}  // namespace

Result<json::value> parse_json(std::string_view text, std::string_view name) {
  if (text.starts_with("\xEF\xBB\xBF")) return bad_input("{}: expected JSON without a byte order mark, got one", name);
  boost::system::error_code ec;
  json::parse_options options;
  options.max_depth = 64;
  json::basic_parser<ExactHandler> parser(options);
  const size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && used < text.size() && text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) ec = json::error::extra_data;
  if (!ec) {
    json::value value = parser.handler().stack.release();
    if (const auto where = infinite_at(value))
      return bad_input("{}: ${}: expected a number below 1.8e308, got a larger one", name, *where);
    return value;
  }
  const auto [line, column] = line_and_column(text, used);
  return bad_input("{}: expected JSON, got {} at line {}, column {}", name, ec.message(), line, column);
}

Result<json::value> read_json(const std::filesystem::path& file, size_t max_bytes) {
  SLIP_TRY(const std::string text, read_file(file, max_bytes));
  return parse_json(text, file.string());
}

std::string pretty(const json::value& v) {
  std::string out;
  write_pretty(out, v, 0);
  return out + "\n";
}

Result<int64_t> get_int(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "an integer");
  return as_int(*v, key, where);
}
Result<double> get_number(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "a number");
  if (!v->is_number()) return mistyped(where, key, "a number", *v);
  return v->to_number<double>();
}
Result<std::string> get_string(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "a string");
  if (!v->is_string()) return mistyped(where, key, "a string", *v);
  return std::string(v->get_string());
}
Result<bool> get_bool(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "a boolean");
  if (!v->is_bool()) return mistyped(where, key, "a boolean", *v);
  return v->get_bool();
}
// A null counts as absent: Hugging Face configs write null for "use the default".
namespace {
bool absent(const json::object& o, std::string_view key) {
  const json::value* v = o.if_contains(key);
  return !v || v->is_null();
}
}  // namespace
Result<int64_t> int_or(const json::object& o, std::string_view key, int64_t other, std::string_view where) {
  if (absent(o, key)) return other;
  return get_int(o, key, where);
}
Result<double> number_or(const json::object& o, std::string_view key, double other, std::string_view where) {
  if (absent(o, key)) return other;
  return get_number(o, key, where);
}
Result<std::string> string_or(const json::object& o, std::string_view key, std::string_view other, std::string_view where) {
  if (absent(o, key)) return std::string(other);
  return get_string(o, key, where);
}
Result<bool> bool_or(const json::object& o, std::string_view key, bool other, std::string_view where) {
  if (absent(o, key)) return other;
  return get_bool(o, key, where);
}
Result<const json::object*> get_object(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "an object");
  if (!v->is_object()) return mistyped(where, key, "an object", *v);
  return &v->get_object();
}
Result<const json::array*> get_array(const json::object& o, std::string_view key, std::string_view where) {
  const json::value* v = o.if_contains(key);
  if (!v) return missing(where, key, "an array");
  if (!v->is_array()) return mistyped(where, key, "an array", *v);
  return &v->get_array();
}

}  // namespace slip
