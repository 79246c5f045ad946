// SPDX-License-Identifier: Apache-2.0
// Lists are written state by state as an answer reaches them: a form of free text has hundreds of states with thousands of ids each,
// of which an answer sees few; only room is made for all. They are not kept from answer to answer, as a form is known by nothing but
// all that it holds. Test: AllowedLists.*
#include "decode/pass/allowed_lists.h"

#include <algorithm>

#include "base/check.h"
#include "form/automaton/token_automaton.h"

namespace slip {

void AllowedLists::start(const Form* form, int32_t vocab) {
  form_ = form;
  vocab_ = vocab;
  first_state_.clear();
  states_.clear();
  ids_.clear();
  lists_.clear();
  masks_.clear();
  if (!form) return;
  size_t states = 0, ids = 0, most = 0;
  for (const Field& f : form->fields()) {
    first_state_.push_back(states);
    states += f.rules.size();
    for (const TokenRules::State& s : f.rules.states()) {
      const size_t listed = s.edges.size() + 1 + f.exits.size();  // END
      most = std::max(most, listed);
      if (!s.any && s.edges.size() <= static_cast<size_t>(vocab) / 2) ids += listed;
    }
  }
  states_.assign(states, {});
  lists_.reserve(states);
  ids_.reserve(ids);
  buffer_.reserve(most);
}

std::optional<int32_t> AllowedLists::at(const Place& place) {
  if (!form_ || !place.field) return std::nullopt;
  const Field& field = form_->fields()[static_cast<size_t>(*place.field)];
  if (field.rules.unrestricted()) return std::nullopt;
  if (field.rules.automaton() != nullptr) return add_mask(place);
  State& state = states_[first_state_[static_cast<size_t>(*place.field)] + static_cast<size_t>(place.state)];
  if (!state.reached) state = {true, add(field, place.state)};
  return state.list;
}

/// An automaton keeps its masks: their lists are named where they lie.
std::optional<int32_t> AllowedLists::add_mask(const Place& place) {
  const uint64_t key = static_cast<uint64_t>(*place.field) << 32 | static_cast<uint32_t>(place.state);
  if (const auto at = masks_.find(key); at != masks_.end()) return at->second;
  const TokenMask& mask = form_->fields()[static_cast<size_t>(*place.field)].rules.automaton()->mask(place.state);
  std::optional<int32_t> number;
  if (mask.kept && !mask.listed.empty()) {
    number = static_cast<int32_t>(lists_.size());
    lists_.push_back(mask.listed);
  }
  masks_.emplace(key, number);
  return number;
}

std::optional<int32_t> AllowedLists::add(const Field& field, int32_t state) {
  if (field.rules.state(state).any) return std::nullopt;
  const std::span<const TokenId> listed = allowed_in(field, state, buffer_).listed;
  if (listed.empty() || listed.size() > static_cast<size_t>(vocab_) / 2) return std::nullopt;
  if (listed.front().value < 0 || listed.back().value >= vocab_) return std::nullopt;
  SLIP_CHECK(ids_.size() + listed.size() <= ids_.capacity(), "room was made for every list");
  const size_t first = ids_.size();
  ids_.insert(ids_.end(), listed.begin(), listed.end());
  lists_.push_back(std::span<const TokenId>(ids_).subspan(first));
  return static_cast<int32_t>(lists_.size()) - 1;
}

}  // namespace slip
