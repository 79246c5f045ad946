// SPDX-License-Identifier: Apache-2.0
// Reading the JSON configurations of model folders: typed keys with a default and bounds, null read as absent (as the libraries
// that write these files mean it), errors that name the file and the key, and a log of what was read and where it came from.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/json/shown.h"
#include "base/result.h"

namespace slip {

/// A file's own words in a message, no longer than its line.
inline std::string cut(const json::value& v) { return shown_json(v); }
inline std::string cut(std::string_view text) { return shown(text); }

/// One option as it is in force: from a key of a file ("config.json: text_config"), or from what a missing key means.
struct ConfigOption {
  std::string key;
  json::value value;
  std::string from;
};
struct ConfigLog {
  std::string defaults;  // what to write for a missing key: "default of Qwen2Config"
  std::vector<ConfigOption> options;
};

/// An object with the place that messages name.
struct Keys {
  const json::object& object;
  std::string where;
  ConfigLog* log = nullptr;  // where set, every key that is asked for is noted there
  std::string section = {};  // before the key's name there: "vision."

  template <class T>
  T noted(std::string_view key, T value) const {
    if (log) log->options.push_back({section + std::string(key), json::value(value), has(key) ? where : log->defaults});
    return value;
  }

  bool has(std::string_view key) const {
    const json::value* v = object.if_contains(key);
    return v && !v->is_null();
  }
  Result<int32_t> integer(std::string_view key, int64_t other, int64_t low, int64_t high) const {
    int64_t value = other;
    if (has(key)) {
      SLIP_TRY(value, get_int(object, key, where));
    }
    if (value < low || value > high)
      return bad_input("{}: {}: expected an integer from {} to {}, got {}", where, key, low, high, value);
    return noted(key, static_cast<int32_t>(value));
  }
  Result<double> number(std::string_view key, double other, double low, double high) const {
    double value = other;
    if (has(key)) {
      SLIP_TRY(value, get_number(object, key, where));
    }
    if (!(value >= low && value <= high))
      return bad_input("{}: {}: expected a number from {} to {}, got {}", where, key, low, high, value);
    return noted(key, value);
  }
  Result<bool> flag(std::string_view key, bool other) const {
    if (!has(key)) return noted(key, other);
    const json::value& v = object.at(key);
    if (v.is_bool()) return noted(key, v.get_bool());
    if (v.is_int64() && (v.get_int64() == 0 || v.get_int64() == 1)) return noted(key, v.get_int64() == 1);
    return bad_input("{}: {}: expected true or false, got {}", where, key, cut(v));
  }
  Result<std::string> text(std::string_view key, std::string_view other) const {
    if (!has(key)) return noted(key, std::string(other));
    SLIP_TRY(std::string value, get_string(object, key, where));
    return noted(key, std::move(value));
  }
  /// The first of the keys that is there, else the first.
  std::string_view either(std::string_view a, std::string_view b) const { return !has(a) && has(b) ? b : a; }
};

}  // namespace slip
