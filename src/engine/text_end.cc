// SPDX-License-Identifier: Apache-2.0
// See text_end.h.
#include "engine/text_end.h"

#include <algorithm>
#include <utility>

namespace slip {

size_t first_stop(std::string_view text, std::span<const std::string> stops) {
  size_t at = std::string_view::npos;
  for (const std::string& stop : stops) at = std::min(at, text.find(stop));
  return at;
}

bool stop_is_complete(const Tokenizer& tokenizer, std::span<const TokenId> tokens, std::span<const std::string> stops) {
  if (stops.empty()) return false;
  // A token has a byte at least, but for special ones, which have no text: the same number of those is allowed for.
  size_t longest = 0;
  for (const std::string& stop : stops) longest = std::max(longest, stop.size());
  const size_t looked_at = std::min(tokens.size(), 2 * longest + 8);
  return first_stop(tokenizer.decode(tokens.last(looked_at), true), stops) != std::string_view::npos;
}

std::string HeldText::push(std::string_view fresh) {
  if (stopped_) return {};
  held_ += fresh;
  if (const size_t at = first_stop(held_, stops_); at != std::string::npos) {
    stopped_ = true;
    held_.resize(at);
    return std::exchange(held_, {});
  }
  size_t held = 0;
  for (const std::string& stop : stops_)
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > held; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) held = n;
  std::string out = held_.substr(0, held_.size() - held);
  held_.erase(0, out.size());
  return out;
}

std::string HeldText::flush() { return stopped_ ? std::string() : std::exchange(held_, {}); }

std::string_view whole_characters(std::string_view text) {
  // At most three bytes begin a character of four.
  for (size_t n = 1; n <= std::min<size_t>(3, text.size()); ++n) {
    const auto c = static_cast<unsigned char>(text[text.size() - n]);
    if ((c & 0xC0U) == 0x80U) continue;  // continues one
    const size_t length = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
    return length > n ? text.substr(0, text.size() - n) : text;
  }
  return text;
}

}  // namespace slip
