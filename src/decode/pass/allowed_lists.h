// SPDX-License-Identifier: Apache-2.0
// What states of a form's rules allow, as the lists of ids that a pass's rows name (lm/lm.h, Pass::allowed), so
// that greedy rows of restricted fields need no logits.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "decode/pass/choice.h"
#include "decode/sequence/cursor.h"

namespace slip {

class AllowedLists {
 public:
  /// Forgets all lists and makes room for every list of the form, so that nothing later allocates. Without a form there are none.
  void start(const Form* form, int32_t vocab);
  /// The list of a place, END included as allowed_in says; written when an answer first comes to the place's state. None: free
  /// places, states that only deny ids, and lists of more than half of the vocabulary, for which all logits cost no more.
  std::optional<int32_t> at(const Place& place);
  std::span<const std::span<const TokenId>> lists() const { return lists_; }

 private:
  struct State {
    bool reached = false;  // an answer came to it, and `list` says what there is
    std::optional<int32_t> list;
  };
  std::optional<int32_t> add(const Field& field, int32_t state);
  std::optional<int32_t> add_mask(const Place& place);

  const Form* form_ = nullptr;
  int32_t vocab_ = 0;
  std::vector<size_t> first_state_;  // by field, into states_
  std::vector<State> states_;
  std::vector<TokenId> ids_;  // the lists' ids, never beyond what start reserved: spans into it hold
  std::vector<std::span<const TokenId>> lists_;
  std::vector<TokenId> buffer_;
  std::unordered_map<uint64_t, std::optional<int32_t>> masks_;  // by field and state of an automaton
};

}  // namespace slip
