// SPDX-License-Identifier: Apache-2.0
// Where plain characters lead from the states of an automaton, kind by kind (text/token_trie.h): what lets a walk go by the ways of
// writing instead of by the words. A step is found when it is first asked for, and kept: most walks ask for few, and no first mask waits for all.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "form/automaton/byte_dfa.h"
#include "text/token_trie.h"

namespace slip {

/// Whole characters without controls, quote and backslash, byte by byte: 0 between two of them, -1 where none goes on.
int plain_next(int state, int byte);

/// May be asked by several threads at once.
class KindSteps {
 public:
  /// Characters of the kind lead to several states, or some to none. A number, as -1 is: the walk tests one sign a step.
  static constexpr int32_t kMixed = -2;
  explicit KindSteps(const ByteDfa& dfa);  // which has to live as long
  int32_t to(int32_t state, int kind) const {
    std::atomic<uint16_t>& at = to_[static_cast<size_t>(state) * TokenTrie::kKinds + static_cast<size_t>(kind)];
    const uint16_t known = at.load(std::memory_order_relaxed);
    return known != 0 ? known - kMade : keep(at, find(state, kind));
  }
  /// Where every plain character leads, whatever its kind.
  int32_t any(int32_t state) const {
    std::atomic<uint16_t>& at = any_[static_cast<size_t>(state)];
    const uint16_t known = at.load(std::memory_order_relaxed);
    return known != 0 ? known - kMade : keep(at, find_any(state));
  }
  /// Kinds that lead back to the state, as bits.
  uint64_t loops(int32_t state) const;
  /// Plain characters of one byte, one for all that the automaton does not tell apart.
  std::span<const uint8_t> ascii() const { return ascii_; }

 private:
  static constexpr int32_t kMade = 3;  // a step is kept as its state and this; 0: not known yet
  static_assert(ByteDfa::kMostStates + kMade <= 1 << 16);
  static int32_t keep(std::atomic<uint16_t>& at, int32_t to) {
    at.store(static_cast<uint16_t>(to + kMade), std::memory_order_relaxed);
    return to;
  }
  int32_t find(int32_t state, int kind) const;
  int32_t find_any(int32_t state) const;
  int32_t beyond(int32_t state) const;

  const ByteDfa* dfa_;
  std::array<std::vector<uint8_t>, TokenTrie::kKinds> bytes_;  // one for all that the automaton does not tell apart
  std::vector<uint8_t> ascii_;
  std::array<std::vector<std::pair<int, uint8_t>>, 8>
      utf8_;  // likewise, by the state of plain_next, beyond ASCII: next state and byte
  std::unique_ptr<std::atomic<uint16_t>[]> to_, any_;
  std::unique_ptr<std::atomic<uint64_t>[]> loops_;
};

}  // namespace slip
