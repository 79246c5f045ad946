// SPDX-License-Identifier: Apache-2.0
// The header's grammar as a handler of Boost.JSON's event parser:
//   { name: {"dtype": string, "shape": [integer...], "data_offsets": [begin, end]}, ..., "__metadata__": {string: string} }
// Other keys of an entry are skipped, as other readers do.
#include "core/safetensors_header.h"

#include <fmt/ranges.h>
#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <set>

#include "base/json.h"

namespace slip {

namespace {

constexpr size_t kMaxRank = 32;  // what NumPy 1.x allows; nothing real exceeds 5

// Spelled as the format's types are, known here or not: F4, U16, F8_E8M0, C64.
bool names_a_type(std::string_view s) {
  constexpr size_t kLongest = 16;
  return !s.empty() && s.size() <= kLongest && s[0] >= 'A' && s[0] <= 'Z' &&
         std::all_of(s.begin(), s.end(), [](char c) { return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; });
}

struct Handler {
  static constexpr size_t max_object_size = SIZE_MAX;
  static constexpr size_t max_array_size = SIZE_MAX;
  static constexpr size_t max_key_size = SIZE_MAX;
  static constexpr size_t max_string_size = SIZE_MAX;
  using Code = boost::system::error_code;
  using View = json::string_view;

  enum class In { kStart, kTop, kEntry, kMetadata, kShape, kOffsets, kSkip };

  SafetensorsHeader header;
  std::string message;  // what was wrong, when it was not the JSON itself

  bool on_document_begin(Code&) { return true; }
  bool on_document_end(Code&) { return true; }

  bool on_object_begin(Code& ec) {
    if (in_ == In::kStart) {
      in_ = In::kTop;
      return true;
    }
    if (in_ == In::kTop) {
      in_ = key_ == "__metadata__" ? In::kMetadata : In::kEntry;
      has_dtype_ = has_shape_ = has_offsets_ = false;
      keys_.clear();
      if (in_ == In::kEntry) header.entries.push_back({.name = key_});
      return true;
    }
    return open_value(ec, "an object");
  }
  bool on_object_end(size_t, Code& ec) {
    if (in_ == In::kSkip) {
      close_skip();
      return true;
    }
    if (in_ == In::kEntry) {
      in_ = In::kTop;
      return finish_entry(ec);
    }
    if (in_ == In::kMetadata) in_ = In::kTop;
    return true;
  }
  bool on_array_begin(Code& ec) {
    if (in_ == In::kEntry && key_ == "shape") {
      in_ = In::kShape;
      has_shape_ = true;
      return true;
    }
    if (in_ == In::kEntry && key_ == "data_offsets") {
      in_ = In::kOffsets;
      offsets_ = 0;
      return true;
    }
    return open_value(ec, "an array");
  }
  bool on_array_end(size_t, Code& ec) {
    if (in_ == In::kSkip) {
      close_skip();
      return true;
    }
    if (in_ == In::kOffsets) {
      if (offsets_ != 2) return fail(ec, "data_offsets", "two numbers", fmt::format("{}", offsets_));
      has_offsets_ = true;
    }
    in_ = In::kEntry;
    return true;
  }

  bool on_key_part(View s, size_t, Code&) {
    text_.append(s.data(), s.size());
    return true;
  }
  bool on_key(View s, size_t, Code& ec) {
    text_.append(s.data(), s.size());
    std::string key = std::exchange(text_, {});
    if (in_ == In::kSkip) return true;
    key_ = std::move(key);
    if (in_ == In::kTop) {
      if (names_.insert(key_).second) return true;
      message = fmt::format("tensor \"{}\": expected one entry, got two", key_);
      return stop(ec);
    }
    if (keys_.insert(key_).second) return true;
    return fail(ec, key_, "one such key", "two");
  }
  bool on_string_part(View s, size_t, Code&) {
    text_.append(s.data(), s.size());
    return true;
  }
  bool on_string(View s, size_t, Code& ec) {
    text_.append(s.data(), s.size());
    const std::string value = std::exchange(text_, {});
    if (in_ == In::kMetadata) {
      header.metadata[key_] = value;
      return true;
    }
    if (in_ == In::kEntry && key_ == "dtype") {
      const auto dtype = dtype_named(value);
      if (!dtype && !names_a_type(value))
        return fail(ec, "dtype", "one of F64 F32 F16 BF16 I64 I32 I16 I8 U8 BOOL F8_E4M3 F8_E5M2", fmt::format("\"{}\"", value));
      if (dtype) {
        header.entries.back().dtype = *dtype;
      } else {
        header.entries.back().unread = value;
      }
      has_dtype_ = true;
      return true;
    }
    return scalar(ec, "a string");
  }
  bool on_number_part(View, Code&) { return true; }
  bool on_int64(int64_t v, View, Code& ec) {
    if (v >= 0) return on_uint64(static_cast<uint64_t>(v), {}, ec);
    return scalar(ec, fmt::format("{}", v));
  }
  bool on_uint64(uint64_t v, View, Code& ec) {
    if (v > uint64_t{INT64_MAX}) return scalar(ec, fmt::format("{}", v));
    if (in_ == In::kShape) {
      auto& shape = header.entries.back().shape;
      if (shape.size() == kMaxRank) return fail(ec, "shape", fmt::format("at most {} dimensions", kMaxRank), "more");
      shape.push_back(static_cast<int64_t>(v));
      return true;
    }
    if (in_ == In::kOffsets) {
      if (offsets_ < 2) (offsets_ == 0 ? header.entries.back().begin : header.entries.back().end) = v;
      ++offsets_;
      return true;
    }
    return scalar(ec, fmt::format("{}", v));
  }
  bool on_double(double v, View, Code& ec) { return scalar(ec, fmt::format("{}", v)); }
  bool on_bool(bool v, Code& ec) { return scalar(ec, v ? "true" : "false"); }
  bool on_null(Code& ec) { return scalar(ec, "null"); }
  bool on_comment_part(View, Code&) { return true; }
  bool on_comment(View, Code&) { return true; }

 private:
  bool stop(Code& ec) {
    ec = json::make_error_code(json::error::syntax);
    return false;
  }
  bool fail(Code& ec, std::string_view part, std::string_view expected, std::string_view got) {
    const bool of_metadata = in_ == In::kMetadata || header.entries.empty();
    const std::string_view name = of_metadata ? std::string_view("__metadata__") : std::string_view(header.entries.back().name);
    message = fmt::format("tensor \"{}\": {}: expected {}, got {}", name, part, expected, got);
    return stop(ec);
  }
  // A scalar where the grammar has none of its kind.
  bool scalar(Code& ec, std::string_view got) {
    switch (in_) {
      case In::kSkip:
        return true;
      case In::kStart:
        break;
      case In::kTop:
        message = fmt::format("tensor \"{}\": expected an object, got {}", key_, got);
        return stop(ec);
      case In::kMetadata:
        return fail(ec, key_, "a string", got);
      case In::kShape:
        return fail(ec, "shape", "integers from 0 to 2^63 - 1", got);
      case In::kOffsets:
        return fail(ec, "data_offsets", "integers from 0 to 2^63 - 1", got);
      case In::kEntry:
        if (key_ == "dtype") return fail(ec, "dtype", "a string", got);
        if (key_ == "shape" || key_ == "data_offsets") return fail(ec, key_, "an array", got);
        return true;
    }
    message = fmt::format("header: expected an object, got {}", got);
    return stop(ec);
  }
  bool open_value(Code& ec, std::string_view got) {
    if (in_ == In::kSkip) {
      ++skip_depth_;
      return true;
    }
    if (!scalar(ec, got)) return false;
    in_ = In::kSkip;
    skip_depth_ = 1;
    return true;
  }
  void close_skip() {
    if (--skip_depth_ == 0) in_ = In::kEntry;
  }
  bool finish_entry(Code& ec) {
    const HeaderEntry& e = header.entries.back();
    if (!has_dtype_) return fail(ec, "dtype", "a string", "nothing");
    if (!has_shape_) return fail(ec, "shape", "an array", "nothing");
    if (!has_offsets_) return fail(ec, "data_offsets", "an array", "nothing");
    if (e.begin > e.end) return fail(ec, "data_offsets", "begin <= end", fmt::format("[{}, {})", e.begin, e.end));
    if (!e.unread.empty()) return true;
    uint64_t bytes = size_of(e.dtype);
    for (const int64_t n : e.shape) {
      if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(n), &bytes) || bytes > uint64_t{INT64_MAX}) {
        return fail(ec, "shape", "fewer than 2^63 bytes", fmt::format("[{}]", fmt::join(e.shape, ", ")));
      }
    }
    if (bytes == e.end - e.begin) return true;
    return fail(ec, "data_offsets", fmt::format("{} bytes for {} [{}]", bytes, name_of(e.dtype), fmt::join(e.shape, ", ")),
                fmt::format("{}", e.end - e.begin));
  }

  In in_ = In::kStart;
  std::string key_, text_;
  std::set<std::string> names_, keys_;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  int offsets_ = 0;
  int skip_depth_ = 0;
};

}  // namespace

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, std::string_view file) {
  json::basic_parser<Handler> parser{json::parse_options{}};
  boost::system::error_code ec;
  const size_t used = parser.write_some(false, text.data(), text.size(), ec);
  Handler& handler = parser.handler();
  if (!handler.message.empty()) return bad_input("{}: {}", file, handler.message);
  if (!ec && text.find_first_not_of(" \t\r\n", used) != std::string_view::npos) ec = json::error::extra_data;
  if (ec) return bad_input("{}: header: expected JSON, got {} at byte {}", file, ec.message(), used);
  return std::move(handler.header);
}

}  // namespace slip
