// SPDX-License-Identifier: Apache-2.0
// Reading a request's JSON: each reader takes a key out of an object and says what is wrong with it by its path, so that what is left over
// is what nobody knows.
#pragma once

#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "base/json.h"

namespace slip::server {

/// What is wrong with a request, as OpenAI's error bodies tell it.
struct Refusal {
  int status = 400;
  std::string message, type = "invalid_request_error", param, code;
  double retry_after_s = 0;
};

/// What somebody else wrote, at most so many bytes of it, "..." behind them where it was longer; never a part of a UTF-8 character.
inline constexpr size_t kMostEchoed = 200;
std::string cut(std::string_view text, size_t most = kMostEchoed);
/// A message as who asks from outside reads it: members of a request where it names options of the command line ("--top-k": top_k), and 4,096
/// bytes at most.
std::string in_requests_words(std::string_view message);
/// {"error": {"message", "type", "param", "code"}}, the message in a request's words.
json::object error_body(const Refusal& refusal);

/// Keys of an object, taken one by one. The first thing that is wrong stays.
class Reader {
 public:
  Reader(const json::object& object, std::string path) : object_(object), path_(std::move(path)) {}
  /// Null where the key is missing or null.
  const json::value* take(std::string_view key);
  std::optional<bool> boolean(std::string_view key);
  std::optional<int64_t> whole(std::string_view key, int64_t least, int64_t most);
  /// What 64 bits hold, signed or not: those below 0 are what they are modulo 2^64.
  std::optional<uint64_t> bits(std::string_view key);
  std::optional<double> number(std::string_view key, double least, double most);
  std::optional<std::string> text(std::string_view key);
  const json::object* object(std::string_view key);
  const json::array* array(std::string_view key);
  /// Refuses what this server does not do unless it is missing, null or asks for nothing.
  void nothing(std::string_view key, std::string_view why);
  /// Takes a key that changes nothing here as long as it is one of these words, or a list of them alone; refuses others.
  void only(std::string_view key, std::initializer_list<std::string_view> words, std::string_view why);
  /// Takes a key that changes nothing here.
  void ignore(std::string_view key) { seen_.insert(std::string(key)); }
  /// Refuses keys that nobody has taken.
  void end();
  void fail(std::string_view key, std::string message);
  /// What is wrong with a part that a reader of its own has read.
  void take_over(const Reader& part) {
    if (!refusal_) refusal_ = part.refusal_;
  }
  bool ok() const { return !refusal_; }
  const std::optional<Refusal>& refusal() const { return refusal_; }
  /// The key behind the path of its object; on one line and of a length for messages, whatever the client wrote.
  std::string path(std::string_view key) const;

 private:
  const json::object& object_;
  std::string path_;
  std::set<std::string, std::less<>> seen_;
  std::optional<Refusal> refusal_;
};

/// JSON that says a thing twice, or a number that nobody holds, says none for sure: refused by the key's place. Nothing for any other.
std::optional<Refusal> check_written(std::string_view text, std::string_view name);

/// What a value is, for messages: "an object", "12"; of a text its JSON, on one line and cut.
std::string shown_value(const json::value& v);

}  // namespace slip::server
