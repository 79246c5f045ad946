// SPDX-License-Identifier: Apache-2.0
// JSON is Boost.JSON; its implementation is compiled once, in json.cc. Helpers here turn its failures into Result.
// Trap: version 1.81 reads decimal fractions within 1 ulp, not correctly rounded; where bits matter, store integers.
#pragma once
#include <boost/json.hpp>
#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace slip {

namespace json = boost::json;

/// Parses text; `name` (a file's path) opens the error message, which gives line, column and what was expected. A number beyond the
/// doubles (1e999) is refused by its place in the document: it could not be written again.
Result<json::value> parse_json(std::string_view text, std::string_view name);
/// Reads and parses a file of at most `max_bytes`.
Result<json::value> read_json(const std::filesystem::path& file, size_t max_bytes = size_t{256} << 20);
/// Indented, keys in insertion order, newline at the end.
std::string pretty(const json::value& v);

/// Typed access with an error that names `where` (file or object) and the key. `get_*` need the key, `*_or` do not; both
/// refuse a key of another type.
Result<int64_t> get_int(const json::object& o, std::string_view key, std::string_view where);
Result<double> get_number(const json::object& o, std::string_view key, std::string_view where);
Result<std::string> get_string(const json::object& o, std::string_view key, std::string_view where);
Result<bool> get_bool(const json::object& o, std::string_view key, std::string_view where);
Result<int64_t> int_or(const json::object& o, std::string_view key, int64_t other, std::string_view where);
Result<double> number_or(const json::object& o, std::string_view key, double other, std::string_view where);
Result<std::string> string_or(const json::object& o, std::string_view key, std::string_view other, std::string_view where);
Result<bool> bool_or(const json::object& o, std::string_view key, bool other, std::string_view where);
Result<const json::object*> get_object(const json::object& o, std::string_view key, std::string_view where);
Result<const json::array*> get_array(const json::object& o, std::string_view key, std::string_view where);

}  // namespace slip
