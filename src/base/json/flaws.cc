// SPDX-License-Identifier: Apache-2.0
#include "base/json/flaws.h"

#include <fmt/format.h>

#include <boost/json/basic_parser_impl.hpp>
#include <cstdlib>
#include <unordered_set>

#include "base/file.h"

namespace slip {

namespace {

namespace json = boost::json;

/// What basic_parser tells of a document: the place that it has come to, and the keys that each open object has had.
struct Handler {
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_object_size = std::size_t{1} << 16;  // beyond any that people write: comparing keys is not free
  static constexpr std::size_t max_string_size = max_array_size, max_key_size = max_array_size;
  using Code = boost::system::error_code;
  using View = json::string_view;

  struct Level {
    std::unordered_set<std::string> keys;
    std::string key;
    size_t item = 0;
    bool object = false;
  };
  size_t most;
  std::vector<Level> levels{};
  std::string part{}, number{};  // what has been read of one
  std::vector<JsonFlaw> found{};

  explicit Handler(size_t most_found) : most(most_found) {}

  std::string pointer() const {
    std::string s = "#";
    for (const Level& l : levels) {
      s += '/';
      if (!l.object) s += std::to_string(l.item);
      for (const char c : l.object ? l.key : "") s += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
    }
    return s;
  }
  std::string place_of_object() {
    levels.pop_back();
    return pointer();
  }
  bool open(bool object) {
    levels.push_back({});
    levels.back().object = object;
    return true;
  }
  bool close() {
    levels.pop_back();
    return value();
  }
  bool value() {
    if (!levels.empty() && !levels.back().object) ++levels.back().item;
    return true;
  }

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }
  bool on_object_begin(Code&) { return open(true); }
  bool on_object_end(std::size_t, Code&) { return close(); }
  bool on_array_begin(Code&) { return open(false); }
  bool on_array_end(std::size_t, Code&) { return close(); }
  bool on_key_part(View s, std::size_t, Code&) {
    part.append(s.data(), s.size());
    return true;
  }
  bool on_key(View s, std::size_t, Code&) {
    part.append(s.data(), s.size());
    Level& level = levels.back();
    level.key = std::exchange(part, {});
    if (!level.keys.insert(level.key).second) add("expected each key once, got it again");
    return true;
  }
  void add(std::string message) {
    if (found.size() < most) found.push_back({pointer(), std::move(message)});
  }
  bool on_string_part(View, std::size_t, Code&) { return true; }
  bool on_string(View, std::size_t, Code&) { return value(); }
  bool on_number_part(View s, Code&) {
    number.append(s.data(), s.size());
    return true;
  }
  bool on_int64(int64_t, View, Code&) {
    number.clear();
    return value();
  }
  bool on_uint64(uint64_t, View, Code&) {
    number.clear();
    return value();
  }
  bool on_double(double, View s, Code&) {
    number.append(s.data(), s.size());
    const bool integer = number.find_first_of(".eE") == std::string::npos;
    if (integer && fmt::format("{:.0f}", std::strtod(number.c_str(), nullptr)) != number) {
      constexpr size_t kShown = 40;
      if (number.size() > kShown) number.replace(kShown, std::string::npos, "...");
      add(fmt::format("expected integers that 64 bits or a double hold, got {}", number));
    }
    number.clear();
    return value();
  }
  bool on_bool(bool, Code&) { return value(); }
  bool on_null(Code&) { return value(); }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }
};

}  // namespace

std::vector<JsonFlaw> json_flaws(std::string_view text, size_t most) {
  json::parse_options options;
  options.max_depth = 64;
  json::basic_parser<Handler> parser(options, most);
  boost::system::error_code ec;
  parser.write_some(false, text.data(), text.size(), ec);
  Handler& handler = parser.handler();
  if (ec == json::error::object_too_large)
    return {
        {handler.place_of_object(), fmt::format("expected at most {} members of an object, got more", Handler::max_object_size)}};
  return ec ? std::vector<JsonFlaw>() : std::move(handler.found);
}

Status check_json(std::string_view text, std::string_view name) {
  const std::vector<JsonFlaw> flaws = json_flaws(text);
  if (flaws.empty()) return {};
  std::string all;
  for (const JsonFlaw& f : flaws) all += fmt::format("{}{}: {}", all.empty() ? "" : "; ", f.pointer, f.message);
  if (flaws.size() == 1) return bad_input("{}: {}", name, all);
  return bad_input("{}: {} errors: {}", name, flaws.size(), all);
}

Result<json::value> read_written_json(const std::filesystem::path& file, size_t max_bytes) {
  SLIP_TRY(const std::string text, read_file(file, max_bytes));
  SLIP_TRY(json::value v, parse_json(text, file.string()));
  SLIP_TRY_(check_json(text, file.string()));
  return v;
}

}  // namespace slip
