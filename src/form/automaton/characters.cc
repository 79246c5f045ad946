// SPDX-License-Identifier: Apache-2.0
// A range of code points becomes a few sequences of byte ranges: it is cut where the length of its encoding changes and where a leading
// byte's continuation bytes do not run from 80 to BF.
#include "form/automaton/characters.h"

#include <algorithm>
#include <array>
#include <string>

namespace slip {
namespace {

std::array<uint8_t, 4> utf8(uint32_t c, int& length) {
  if (c < 0x80) return length = 1, std::array<uint8_t, 4>{static_cast<uint8_t>(c)};
  if (c < 0x800)
    return length = 2, std::array<uint8_t, 4>{static_cast<uint8_t>(0xC0 | c >> 6), static_cast<uint8_t>(0x80 | (c & 63))};
  if (c < 0x10000)
    return length = 3, std::array<uint8_t, 4>{static_cast<uint8_t>(0xE0 | c >> 12), static_cast<uint8_t>(0x80 | (c >> 6 & 63)),
                                              static_cast<uint8_t>(0x80 | (c & 63))};
  return length = 4, std::array<uint8_t, 4>{static_cast<uint8_t>(0xF0 | c >> 18), static_cast<uint8_t>(0x80 | (c >> 12 & 63)),
                                            static_cast<uint8_t>(0x80 | (c >> 6 & 63)), static_cast<uint8_t>(0x80 | (c & 63))};
}

/// first .. last have encodings of one length: cuts until all but one byte are equal or whole.
void sequences(ByteNfa& nfa, uint32_t first, uint32_t last, std::vector<ByteNfa::Fragment>& out) {
  int length = 0;
  const auto a = utf8(first, length);
  const auto b = utf8(last, length);
  for (int i = 1; i < length; ++i) {
    const uint32_t mask = (1U << (6 * i)) - 1;  // of the last i bytes
    if ((first & ~mask) == (last & ~mask)) continue;
    if ((first & mask) != 0) {
      sequences(nfa, first, first | mask, out);
      sequences(nfa, (first | mask) + 1, last, out);
      return;
    }
    if ((last & mask) != mask) {
      sequences(nfa, first, (last & ~mask) - 1, out);
      sequences(nfa, last & ~mask, last, out);
      return;
    }
  }
  std::vector<ByteNfa::Fragment> parts;
  parts.reserve(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) parts.push_back(nfa.bytes(a[static_cast<size_t>(i)], b[static_cast<size_t>(i)]));
  out.push_back(nfa.concat(parts));
}

void raw(ByteNfa& nfa, uint32_t first, uint32_t last, std::vector<ByteNfa::Fragment>& out) {
  static constexpr std::array<uint32_t, 5> kEnds = {0x7F, 0x7FF, 0xD7FF, 0xFFFF, 0x10FFFF};
  static constexpr std::array<uint32_t, 5> kBegins = {0, 0x80, 0x800, 0xE000, 0x10000};
  for (size_t i = 0; i < kEnds.size(); ++i) {
    const uint32_t from = std::max(first, kBegins[i]), to = std::min(last, kEnds[i]);
    if (from <= to) sequences(nfa, from, to, out);
  }
}

std::string escaped(uint32_t c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\u{:04x}", c);
  }
}

}  // namespace

void Characters::add(uint32_t first, uint32_t last) {
  if (first > last) return;
  std::vector<Range> out;
  for (const Range& r : ranges_) {
    if (uint64_t{r.last} + 1 < first || uint64_t{last} + 1 < r.first) {
      out.push_back(r);
    } else {
      first = std::min(first, r.first);
      last = std::max(last, r.last);
    }
  }
  out.push_back({first, last});
  std::sort(out.begin(), out.end(), [](const Range& a, const Range& b) { return a.first < b.first; });
  ranges_ = std::move(out);
}

Characters Characters::inverse() const {
  Characters out;
  uint32_t at = 0;
  for (const Range& r : ranges_) {
    if (r.first > at) out.add(at, r.first - 1);
    at = r.last + 1;
  }
  if (at <= 0x10FFFF) out.add(at, 0x10FFFF);
  return out;
}

bool Characters::contains(uint32_t c) const {
  return std::any_of(ranges_.begin(), ranges_.end(), [c](const Range& r) { return r.first <= c && c <= r.last; });
}

ByteNfa::Fragment one_of(ByteNfa& nfa, const Characters& set, bool json) {
  std::vector<ByteNfa::Fragment> out;
  Characters plain = set;
  if (json) {
    Characters special{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
    for (const auto& r : special.ranges())
      for (uint32_t c = r.first; c <= r.last; ++c)
        if (set.contains(c)) out.push_back(nfa.literal(escaped(c)));
    Characters rest = set.inverse();
    rest.add(special);
    plain = rest.inverse();
  }
  for (const auto& r : plain.ranges()) raw(nfa, r.first, r.last, out);
  return nfa.either(out);
}

}  // namespace slip
