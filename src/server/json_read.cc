// SPDX-License-Identifier: Apache-2.0
#include "server/json_read.h"

#include <algorithm>
#include <cmath>

#include "base/json/flaws.h"
#include "base/json/shown.h"

namespace slip::server {

std::string cut(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  while (most > 0 && (static_cast<unsigned char>(text[most]) & 0xC0) == 0x80) --most;
  return std::string(text.substr(0, most)) + "...";
}

std::string in_requests_words(std::string_view message) {
  constexpr size_t kMost = 4096;
  constexpr std::string_view kOfNames = "abcdefghijklmnopqrstuvwxyz0123456789-", kBefore = " ('`\"";
  std::string out;
  for (size_t at = 0; at < message.size() && out.size() <= kMost;) {
    const std::string_view rest = message.substr(at);
    const bool begins = at == 0 || kBefore.find(message[at - 1]) != std::string_view::npos;
    if (!begins || rest.size() < 3 || !rest.starts_with("--") || rest[2] < 'a' || rest[2] > 'z') {
      out += message[at++];
      continue;
    }
    std::string name(rest.substr(2, rest.find_first_not_of(kOfNames, 2) - 2));
    at += 2 + name.size();
    std::replace(name.begin(), name.end(), '-', '_');
    out += name == "rollouts" ? "n" : name;
  }
  return cut(out, kMost);
}

json::object error_body(const Refusal& r) {
  json::object e{{"message", in_requests_words(r.message)}, {"type", r.type}};
  e["param"] = r.param.empty() ? json::value() : json::value(r.param);
  e["code"] = r.code.empty() ? "invalid_value" : r.code.c_str();
  return {{"error", std::move(e)}};
}

std::optional<Refusal> check_written(std::string_view text, std::string_view name) {
  const std::vector<JsonFlaw> flaws = json_flaws(text, 1);
  if (flaws.empty()) return std::nullopt;
  constexpr size_t kMostShown = 200;  // a key may be as long as the body
  const std::string& place = flaws[0].pointer;
  const bool shown =
      place.size() <= kMostShown && std::none_of(place.begin(), place.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  Refusal out{.message = fmt::format("{}: {}: {}", name, shown ? place : "a key", flaws[0].message), .code = "invalid_json"};
  const size_t slash = place.find('/');
  if (shown && slash != std::string::npos) out.param = place.substr(slash + 1, place.find('/', slash + 1) - slash - 1);
  return out;
}

std::string shown_value(const json::value& v) {
  if (v.is_object()) return "an object";
  if (v.is_array()) return "an array";
  return shown_json(v);
}

std::string Reader::path(std::string_view key) const {
  const bool plain =
      key.size() <= 60 && std::none_of(key.begin(), key.end(), [](unsigned char c) { return c < 0x20 || c == 0x7F; });
  const std::string name = plain ? std::string(key) : shown_json(json::value(key));
  return path_.empty() ? name : path_ + "." + name;
}

void Reader::fail(std::string_view key, std::string message) {
  if (refusal_) return;
  Refusal r;
  r.param = path(key);
  r.message = r.param + ": " + std::move(message);
  refusal_ = std::move(r);
}

const json::value* Reader::take(std::string_view key) {
  seen_.insert(std::string(key));
  const json::value* v = object_.if_contains(key);
  return v && !v->is_null() ? v : nullptr;
}

std::optional<bool> Reader::boolean(std::string_view key) {
  const json::value* v = take(key);
  if (!v) return std::nullopt;
  if (v->is_bool()) return v->get_bool();
  fail(key, fmt::format("expected true or false, got {}", shown_value(*v)));
  return std::nullopt;
}

std::optional<int64_t> Reader::whole(std::string_view key, int64_t least, int64_t most) {
  const json::value* v = take(key);
  if (!v) return std::nullopt;
  std::optional<int64_t> n;
  if (v->is_int64()) n = v->get_int64();
  if (v->is_double() && v->get_double() == std::floor(v->get_double()) && std::abs(v->get_double()) < 1e15)
    n = static_cast<int64_t>(v->get_double());
  if (n && *n >= least && *n <= most) return n;
  fail(key, fmt::format("expected a whole number from {} to {}, got {}", least, most, shown_value(*v)));
  return std::nullopt;
}

std::optional<uint64_t> Reader::bits(std::string_view key) {
  const json::value* v = take(key);
  if (v && v->is_uint64()) return v->get_uint64();
  const auto n = whole(key, INT64_MIN, INT64_MAX);
  return n ? std::optional(static_cast<uint64_t>(*n)) : std::nullopt;
}

std::optional<double> Reader::number(std::string_view key, double least, double most) {
  const json::value* v = take(key);
  if (!v) return std::nullopt;
  if (v->is_number()) {
    const double x = v->to_number<double>();
    if (x >= least && x <= most) return x;
  }
  fail(key, fmt::format("expected a number from {} to {}, got {}", least, most, shown_value(*v)));
  return std::nullopt;
}

std::optional<std::string> Reader::text(std::string_view key) {
  const json::value* v = take(key);
  if (!v) return std::nullopt;
  if (v->is_string()) return std::string(v->get_string());
  fail(key, fmt::format("expected a string, got {}", shown_value(*v)));
  return std::nullopt;
}

const json::object* Reader::object(std::string_view key) {
  const json::value* v = take(key);
  if (!v) return nullptr;
  if (v->is_object()) return &v->get_object();
  fail(key, fmt::format("expected an object, got {}", shown_value(*v)));
  return nullptr;
}

const json::array* Reader::array(std::string_view key) {
  const json::value* v = take(key);
  if (!v) return nullptr;
  if (v->is_array()) return &v->get_array();
  fail(key, fmt::format("expected an array, got {}", shown_value(*v)));
  return nullptr;
}

void Reader::nothing(std::string_view key, std::string_view why) {
  const json::value* v = take(key);
  if (!v) return;
  const bool none = (v->is_bool() && !v->get_bool()) || (v->is_number() && v->to_number<double>() == 0) ||
                    (v->is_array() && v->get_array().empty()) || (v->is_object() && v->get_object().empty()) ||
                    (v->is_string() && v->get_string().empty());
  if (!none) fail(key, fmt::format("expected none ({}), got {}", why, shown_value(*v)));
}

void Reader::only(std::string_view key, std::initializer_list<std::string_view> words, std::string_view why) {
  const json::value* v = take(key);
  if (!v) return;
  const auto known = [&](const json::value& word) {
    return word.is_string() && std::find(words.begin(), words.end(), std::string_view(word.get_string())) != words.end();
  };
  const bool all = v->is_array() ? std::all_of(v->get_array().begin(), v->get_array().end(), known) : known(*v);
  if (!all) fail(key, fmt::format("expected {} ({}), got {}", fmt::join(words, " or "), why, shown_value(*v)));
}

void Reader::end() {
  for (const auto& [key, value] : object_)
    if (!seen_.contains(std::string_view(key.data(), key.size())))
      fail({key.data(), key.size()}, "expected a parameter of this server, got one that it does not know");
}

}  // namespace slip::server
