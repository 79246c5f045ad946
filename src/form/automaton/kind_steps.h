// SPDX-License-Identifier: Apache-2.0
// Where plain characters lead from the states of an automaton, kind by kind (text/token_trie.h): what lets a walk go by the ways of
// writing instead of by the words.
#pragma once
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "form/automaton/byte_dfa.h"
#include "text/token_trie.h"

namespace slip {

/// Whole characters without controls, quote and backslash, byte by byte: 0 between two of them, -1 where none goes on.
int plain_next(int state, int byte);

class KindSteps {
 public:
  /// Characters of the kind lead to several states, or some to none. A number, as -1 is: the walk tests one sign a step.
  static constexpr int32_t kMixed = -2;
  explicit KindSteps(const ByteDfa& dfa);
  int32_t to(int32_t state, int kind) const {
    return to_[static_cast<size_t>(state) * TokenTrie::kKinds + static_cast<size_t>(kind)];
  }

 private:
  int32_t beyond(const ByteDfa& dfa, int32_t state) const;
  std::array<std::vector<uint8_t>, TokenTrie::kKinds> bytes_;  // one for all that the automaton does not tell apart
  std::array<std::vector<std::pair<int, uint8_t>>, 8>
      utf8_;  // likewise, by the state of plain_next, beyond ASCII: next state and byte
  std::vector<int32_t> to_;
};

}  // namespace slip
