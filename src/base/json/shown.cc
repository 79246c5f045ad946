// SPDX-License-Identifier: Apache-2.0
// See shown.h.
#include "base/json/shown.h"

#include <array>

namespace slip {
namespace {

constexpr size_t kMostShown = 60;  // a message is one line on a terminal, with the place and the reason beside the value

}  // namespace

std::string shown(std::string_view text) {
  size_t end = 0, characters = 0, cut = 0;
  while (end < text.size() && characters < kMostShown) {
    if (characters == kMostShown - 3) cut = end;
    ++end;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    ++characters;
  }
  return end == text.size() ? std::string(text) : std::string(text.substr(0, cut)) + "...";
}

std::string shown_json(const json::value& value) {
  json::serializer writer;
  writer.reset(&value);
  // Four bytes a character, and one more to see that it goes on.
  std::array<char, 4 * kMostShown + 1> buffer;
  const json::string_view head = writer.read(buffer.data(), buffer.size());
  return shown(std::string_view(head.data(), head.size()));
}

}  // namespace slip
