// SPDX-License-Identifier: Apache-2.0
// Sizes in half pixels: an even one is the font itself, enlarged; an odd one is drawn twice as large and averaged.
#include "picture/text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "picture/parts.h"

namespace slip::picture {

std::string plain(std::string_view s) {
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    const auto c = static_cast<unsigned char>(s[i]);
    if (c < 0x80) {
      out += c < 0x20 || c == 0x7F ? ' ' : s[i];
    } else if (s.substr(i, 2) == "\xE2\x80" && i + 2 < s.size()) {
      const auto last = static_cast<unsigned char>(s[i + 2]);
      out += last >= 0x90 && last <= 0x95 ? '-' : last == 0x98 || last == 0x99 ? '\'' : last == 0x9C || last == 0x9D ? '"' : '?';
    } else if (c >= 0xC0) {
      out += '?';
    }
  }
  return out;
}

std::string cut(std::string_view s, int width, int size) {
  const auto most = static_cast<size_t>(std::max(0, width / width_of("x", size)));
  if (s.size() <= most) return std::string(s);
  return most < 4 ? std::string(s.substr(0, most)) : std::string(s.substr(0, most - 3)) + "...";
}

std::vector<std::string> wrap(std::string_view text, int width, int size) {
  const auto most = static_cast<size_t>(std::max(1, width / width_of("x", size)));
  std::vector<std::string> lines;
  std::string line;
  const auto end_line = [&] {
    if (!line.empty()) lines.push_back(line);
    line.clear();
  };
  while (!text.empty()) {
    const size_t space = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, space);
    text.remove_prefix(std::min(space + 1, text.size()));
    if (!line.empty() && line.size() + 1 + word.size() > most) end_line();
    for (; word.size() > most; word.remove_prefix(most)) lines.emplace_back(word.substr(0, most));
    if (word.empty()) continue;
    if (!line.empty()) line += ' ';
    line += word;
  }
  end_line();
  return lines;
}

std::string number(double v, int digits, bool sign) {
  if (!(std::abs(v) <= 10 * kFarthest)) return "-";
  std::array<char, 32> out{};
  std::snprintf(out.data(), out.size(), sign ? "%+.*f" : "%.*f", digits, v);
  return out.data();
}

void write(Canvas& canvas, int x, int y, std::string_view s, Colour c, int size) {
  if (size % 2 == 0) {
    canvas.text(x, y, s, c, size / 2);
    return;
  }
  // Drawn twice as large, then averaged over 2 x 2.
  if (s.empty()) return;
  Image large = blank_image(Canvas::text_width(s, size) + 2, Canvas::kGlyphHeight * size + 2, {0, 0, 0});
  Canvas pen(large);
  pen.text(0, 0, s, {255, 255, 255}, size);
  for (int v = 0; v + 1 < large.height; v += 2) {
    for (int u = 0; u + 1 < large.width; u += 2) {
      const int sum = pen.at(u, v).r + pen.at(u + 1, v).r + pen.at(u, v + 1).r + pen.at(u + 1, v + 1).r;
      if (sum > 0) canvas.rectangle(x + u / 2, y + v / 2, 1, 1, c, sum / 1020.0);
    }
  }
}

void write_right(Canvas& canvas, int right, int y, std::string_view s, Colour c, int size) {
  write(canvas, right - width_of(s, size), y, s, c, size);
}

}  // namespace slip::picture
