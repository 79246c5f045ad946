// SPDX-License-Identifier: Apache-2.0
// Sets of characters, and what they look like in a JSON string: UTF-8 [RFC 3629], with quote, backslash and controls escaped as
// json.dumps(ensure_ascii=False) writes them.
#pragma once
#include <cstdint>
#include <vector>

#include "form/automaton/byte_dfa.h"

namespace slip {

/// Ascending ranges of code points that do not touch; surrogates are no characters.
class Characters {
 public:
  struct Range {
    uint32_t first, last;
  };
  Characters() = default;
  Characters(std::initializer_list<Range> ranges) {
    for (const Range& r : ranges) add(r.first, r.last);
  }
  static Characters all() { return {{0, 0x10FFFF}}; }
  void add(uint32_t first, uint32_t last);
  void add(const Characters& other) {
    for (const Range& r : other.ranges_) add(r.first, r.last);
  }
  Characters inverse() const;
  bool contains(uint32_t c) const;
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

/// One character of the set, as UTF-8; with `json` as it stands inside of a JSON string.
ByteNfa::Fragment one_of(ByteNfa& nfa, const Characters& set, bool json);

}  // namespace slip
