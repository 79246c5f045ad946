// SPDX-License-Identifier: Apache-2.0
// The parser, by hand: every pattern is anchored at its first character, so one scan from left to right finds what the
// published regular expressions find.
#include "plan/parse.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

namespace slip {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

std::string cleaned(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
  if (const size_t at = lower.find("trajectory"); at != std::string::npos) text.remove_prefix(at);
  std::string s(text);
  for (const std::string_view mark : {"<|mdm_start|>", "<|mdm_end|>"}) {
    for (size_t at = s.find(mark); at != std::string::npos; at = s.find(mark, at)) s.erase(at, mark.size());
  }
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const bool escape = s[i] == '\\' && i + 1 < s.size() && std::string_view("\"[],+").find(s[i + 1]) != std::string_view::npos;
    if (!escape) out += s[i];
  }
  return out;
}

/// A position in the text and the pieces a pair is made of; a failed `take` leaves the position undefined.
struct Cursor {
  std::string_view text;
  size_t at = 0;

  char peek() const { return at < text.size() ? text[at] : '\0'; }
  bool take(char c) { return peek() == c && at < text.size() ? (++at, true) : false; }
  void spaces() {
    while (is_space(peek())) ++at;
  }
  size_t digits() {
    const size_t from = at;
    while (is_digit(peek())) ++at;
    return at - from;
  }
  /// [+-]? (digits [. digits] | . digits) [e [+-]? digits]
  std::optional<double> number() {
    const bool negative = peek() == '-';
    if (negative || peek() == '+') ++at;
    const size_t from = at;
    const size_t whole = digits();
    if (peek() == '.' && at + 1 < text.size() && is_digit(text[at + 1])) {
      ++at;
      digits();
    } else if (whole == 0) {
      return std::nullopt;
    }
    const size_t mantissa_end = at;
    if (peek() == 'e' || peek() == 'E') {
      ++at;
      if (peek() == '+' || peek() == '-') ++at;
      if (digits() == 0) at = mantissa_end;
    }
    double value = 0;
    const auto [end, error] = std::from_chars(text.data() + from, text.data() + at, value);
    if (error == std::errc::result_out_of_range) value = std::nan("");  // the pair is matched and then left out
    return negative ? -value : value;
  }
  std::optional<Waypoint> pair(bool bracketed) {
    if (bracketed && !take('[')) return std::nullopt;
    if (bracketed) spaces();
    const auto x = number();
    if (!x) return std::nullopt;
    spaces();
    if (bracketed) take('\\');
    if (!take(',')) return std::nullopt;
    spaces();
    const auto y = number();
    if (!y) return std::nullopt;
    if (!bracketed) return Waypoint{*x, *y};
    spaces();
    take('\\');
    if (!take(']')) return std::nullopt;
    return Waypoint{*x, *y};
  }
};

std::vector<Waypoint> all_pairs(std::string_view text, bool bracketed) {
  std::vector<Waypoint> found;
  for (size_t i = 0; i < text.size();) {
    Cursor c{text, i};
    const auto pair = c.pair(bracketed);
    i = pair ? c.at : i + 1;
    if (pair) found.push_back(*pair);
  }
  return found;
}

}  // namespace

std::vector<Waypoint> parse_waypoints(std::string_view text) {
  const std::string s = cleaned(text);
  std::vector<Waypoint> found = all_pairs(s, true);
  if (found.empty()) found = all_pairs(s, false);
  std::erase_if(found, [](Waypoint w) { return !std::isfinite(w.x) || !std::isfinite(w.y); });
  return found;
}

std::vector<Waypoint> first_waypoints(std::vector<Waypoint> parsed, size_t count) {
  if (!parsed.empty()) {
    const Waypoint last = parsed.back();
    parsed.resize(count, last);
  }
  return parsed;
}

}  // namespace slip
