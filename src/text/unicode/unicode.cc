// SPDX-License-Identifier: Apache-2.0
// UTF-8 by hand (the streaming decoder needs maximal subparts), categories and NFC by utf8proc.
#include "text/unicode/unicode.h"

#include <utf8proc.h>

#include <array>
#include <cstdlib>

#include "base/check.h"

namespace slip {

namespace {

// What may follow a lead byte: how many bytes, and the range of the first of them (Unicode 15, table 3-7).
struct Lead {
  int following = -1;
  uint8_t low = 0x80, high = 0xbf;
};

Lead lead_of(uint8_t b) {
  if (b < 0x80) return {0};
  if (b < 0xc2) return {};
  if (b < 0xe0) return {1};
  if (b == 0xe0) return {2, 0xa0, 0xbf};
  if (b == 0xed) return {2, 0x80, 0x9f};
  if (b < 0xf0) return {2};
  if (b == 0xf0) return {3, 0x90, 0xbf};
  if (b < 0xf4) return {3};
  if (b == 0xf4) return {3, 0x80, 0x8f};
  return {};
}

// Bytes at `at` that agree with the lead; complete if that is all it needs.
int agreeing(std::string_view bytes, size_t at, bool& complete, bool& ended) {
  const Lead lead = lead_of(static_cast<uint8_t>(bytes[at]));
  complete = ended = false;
  if (lead.following < 0) return 1;
  int n = 1;
  while (n <= lead.following) {
    if (at + static_cast<size_t>(n) == bytes.size()) {
      ended = true;
      return n;
    }
    const uint8_t b = static_cast<uint8_t>(bytes[at + static_cast<size_t>(n)]);
    if (n == 1 ? b < lead.low || b > lead.high : b < 0x80 || b > 0xbf) return n;
    ++n;
  }
  complete = true;
  return n;
}

struct ByteTable {
  std::array<char32_t, 256> character{};
  std::array<int16_t, 324> byte{};  // 256 + the 68 that are not printable

  constexpr ByteTable() {
    for (auto& b : byte) b = -1;
    char32_t next = 256;
    for (int b = 0; b < 256; ++b) {
      const bool printable = (b >= 0x21 && b <= 0x7e) || (b >= 0xa1 && b != 0xad);
      const char32_t c = printable ? static_cast<char32_t>(b) : next++;
      character[static_cast<size_t>(b)] = c;
      byte[c] = static_cast<int16_t>(b);
    }
  }
};
constexpr ByteTable kByteTable;

bool in(char32_t c, char32_t low, char32_t high) { return c >= low && c <= high; }

}  // namespace

int utf8_length(std::string_view bytes, size_t at) {
  bool complete, ended;
  const int n = agreeing(bytes, at, complete, ended);
  return complete ? n : 0;
}

int utf8_ill_formed_length(std::string_view bytes, size_t at, bool& may_continue) {
  bool complete;
  return agreeing(bytes, at, complete, may_continue);
}

char32_t next_character(std::string_view text, size_t& at) {
  const uint8_t b = static_cast<uint8_t>(text[at++]);
  if (b < 0x80) return b;
  int following = b < 0xe0 ? 1 : b < 0xf0 ? 2 : 3;
  char32_t c = b & (0x3f >> following);
  for (; following > 0 && at < text.size(); --following) c = c << 6 | (static_cast<uint8_t>(text[at++]) & 0x3f);
  return c;
}

char32_t previous_character(std::string_view text, size_t& at) {
  do --at;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xc0) == 0x80);
  size_t forward = at;
  return next_character(text, forward);
}

void append_utf8(std::string& out, char32_t c) {
  const auto put = [&](uint32_t b) { out += static_cast<char>(b); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xc0 | c >> 6);
    put(0x80 | (c & 0x3f));
  } else if (c < 0x10000) {
    put(0xe0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  } else {
    put(0xf0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3f));
    put(0x80 | (c >> 6 & 0x3f));
    put(0x80 | (c & 0x3f));
  }
}

bool is_space(char32_t c) {
  return in(c, 9, 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 || in(c, 0x2000, 0x200a) || c == 0x2028 || c == 0x2029 ||
         c == 0x202f || c == 0x205f || c == 0x3000;
}

bool is_word(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_PC:
      return true;
    case UTF8PROC_CATEGORY_SO:  // enclosed letters are alphabetic symbols
      return in(c, 0x24b6, 0x24e9) || in(c, 0x1f130, 0x1f149) || in(c, 0x1f150, 0x1f169) || in(c, 0x1f170, 0x1f189);
    default:
      return c == 0x200c || c == 0x200d;
  }
}

std::string to_lower(std::string_view text) {
  constexpr char32_t kDottedI = 0x130;  // the one character whose lower case is two: i and a dot above
  std::string out;
  for (size_t at = 0; at < text.size();) {
    if (utf8_length(text, at) == 0) {
      out += text[at++];
      continue;
    }
    const char32_t c = next_character(text, at);
    append_utf8(out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
    if (c == kDottedI) append_utf8(out, 0x307);
  }
  return out;
}

std::string nfc(std::string_view text) {
  // Below U+0300 nothing decomposes further or combines: lead bytes up to 0xcb.
  bool plain = true;
  for (const char b : text) plain &= static_cast<uint8_t>(b) < 0xcc;
  if (plain) return std::string(text);
  utf8proc_uint8_t* out = nullptr;
  const auto n = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()), static_cast<utf8proc_ssize_t>(text.size()),
                              &out, static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  SLIP_CHECK(n >= 0, "utf8proc composes any valid UTF-8");
  std::string result(reinterpret_cast<char*>(out), static_cast<size_t>(n));
  std::free(out);
  return result;
}

char32_t character_of_byte(uint8_t byte) { return kByteTable.character[byte]; }
int byte_of_character(char32_t c) { return c < kByteTable.byte.size() ? kByteTable.byte[c] : -1; }

std::string spell_bytes(std::string_view bytes) {
  std::string out;
  for (const char b : bytes) append_utf8(out, character_of_byte(static_cast<uint8_t>(b)));
  return out;
}

std::string bytes_of_spelling(std::string_view spelling) {
  std::string out;
  for (size_t at = 0; at < spelling.size();) {
    const int b = byte_of_character(next_character(spelling, at));
    if (b < 0) return std::string(spelling);
    out += static_cast<char>(b);
  }
  return out;
}

}  // namespace slip
