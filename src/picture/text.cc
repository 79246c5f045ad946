// SPDX-License-Identifier: Apache-2.0
// See text.h.
#include "picture/text.h"

#include <array>
#include <cmath>
#include <cstdio>

#include "picture/parts.h"
#include "text/tokenizer.h"

namespace slip::picture {

namespace {

size_t first_length(std::string_view s) {  // bytes of a code point
  size_t n = 1;
  while (n < s.size() && (static_cast<unsigned char>(s[n]) & 0xC0) == 0x80) ++n;
  return n;
}

/// As many code points as the width has room for.
std::string_view beginning(const Pen& pen, std::string_view s, int width, int size) {
  size_t end = 0;
  for (int x = 0; end < s.size();) {
    const size_t n = first_length(s.substr(end));
    x += pen.width_of(s.substr(end, n), size);
    if (x > width) break;
    end += n;
  }
  return s.substr(0, end);
}

}  // namespace

std::string plain(std::string_view s) {
  std::string out = to_valid_utf8(s);
  for (char& c : out)
    if ((c >= 0 && c < 0x20) || c == 0x7F) c = ' ';
  return out;
}

std::string cut(const Pen& pen, std::string_view s, int width, int size, std::string_view end) {
  if (beginning(pen, s, width, size).size() == s.size()) return std::string(s);
  return std::string(beginning(pen, s, width - pen.width_of(end, size), size)).append(beginning(pen, end, width, size));
}

std::vector<std::string> wrap(const Pen& pen, std::string_view text, int width, int size) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    if (text.front() == ' ') {
      text.remove_prefix(1);
      continue;
    }
    std::string_view line = beginning(pen, text, width, size);
    if (line.empty()) line = text.substr(0, first_length(text));
    const bool in_word = line.size() < text.size() && text[line.size()] != ' ';
    if (in_word) line = line.substr(0, line.rfind(' '));  // the whole line where it has no space
    lines.emplace_back(line);
    text.remove_prefix(line.size());
  }
  return lines;
}

std::string number(double v, int digits, bool sign) {
  if (!(std::abs(v) <= 10 * kFarthest)) return "-";
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), sign ? "%+.*f" : "%.*f", digits, v);
  return out.data();
}

}  // namespace slip::picture
