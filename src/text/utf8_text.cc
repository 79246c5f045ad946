// SPDX-License-Identifier: Apache-2.0
// Whole texts: are they UTF-8, and what stands for what is not. Declared in tokenizer.h.
#include "text/tokenizer.h"
#include "text/unicode/unicode.h"

namespace slip {

bool is_valid_utf8(std::string_view bytes) {
  for (size_t at = 0; at < bytes.size();) {
    if (static_cast<uint8_t>(bytes[at]) < 0x80) {
      ++at;
      continue;
    }
    const int n = utf8_length(bytes, at);
    if (n == 0) return false;
    at += static_cast<size_t>(n);
  }
  return true;
}

std::string to_valid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (size_t at = 0; at < bytes.size();) {
    if (const int n = utf8_length(bytes, at); n > 0) {
      out.append(bytes, at, static_cast<size_t>(n));
      at += static_cast<size_t>(n);
    } else {
      bool ended;
      at += static_cast<size_t>(utf8_ill_formed_length(bytes, at, ended));
      out += "\xef\xbf\xbd";
    }
  }
  return out;
}

}  // namespace slip
