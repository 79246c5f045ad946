// SPDX-License-Identifier: Apache-2.0
// TokenRules: the automaton over a field's content. States are few (a trie of enum words, a chain of digits), edges are
// sorted, so a step is one binary search.
#include <algorithm>
#include <map>

#include "base/check.h"
#include "form/automaton/token_automaton.h"
#include "form/form.h"

namespace slip {

TokenRules::TokenRules(std::vector<State> states) : states_(std::move(states)) {
  const auto n = static_cast<int32_t>(states_.size());
  for (const State& s : states_) {
    SLIP_CHECK(!s.any || (s.any_next >= 0 && s.any_next < n), "any_next is a state");
    for (size_t i = 0; i < s.edges.size(); ++i) {
      SLIP_CHECK(s.edges[i].next >= 0 && s.edges[i].next < n, "an edge leads to a state");
      SLIP_CHECK(i == 0 || s.edges[i - 1].id < s.edges[i].id, "edges are in ascending order of ids");
    }
    SLIP_CHECK(std::is_sorted(s.denied.begin(), s.denied.end()), "denied ids are in ascending order");
  }
}

TokenRules TokenRules::only(std::vector<TokenId> ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  State s;
  for (const TokenId id : ids) s.edges.push_back({id, 0});
  return TokenRules({std::move(s)});
}

TokenRules TokenRules::one_of(std::span<const std::vector<TokenId>> sequences, std::optional<TokenId> null, int budget) {
  // A trie; ends of sequences lead to the padding state by `null`.
  std::vector<std::map<TokenId, int32_t>> next(1);
  std::vector<bool> complete(1, false);
  for (const auto& sequence : sequences) {
    SLIP_CHECK(!sequence.empty() && sequence.size() <= static_cast<size_t>(budget), "the caller compares words with the budget");
    size_t at = 0;
    for (const TokenId id : sequence) {
      auto [edge, added] = next[at].try_emplace(id, static_cast<int32_t>(next.size()));
      at = static_cast<size_t>(edge->second);
      if (added) {
        next.emplace_back();
        complete.push_back(false);
      }
    }
    complete[at] = true;
  }
  const auto padding = static_cast<int32_t>(next.size());
  std::vector<State> states(next.size() + (null ? 1 : 0));
  for (size_t s = 0; s < next.size(); ++s) {
    if (null && complete[s]) next[s].insert_or_assign(*null, padding);
    for (const auto& [id, to] : next[s]) states[s].edges.push_back({id, to});
    states[s].may_end = complete[s];
  }
  if (null) states.back().edges.push_back({*null, padding});
  return TokenRules(std::move(states));
}

bool TokenRules::may_end(int32_t s) const {
  return automaton_ ? automaton_->may_end(s) : states_.empty() || states_[static_cast<size_t>(s)].may_end;
}

bool TokenRules::complete(int32_t s) const {
  if (automaton_) return automaton_->complete(s);
  if (states_.empty()) return false;
  const State& state = states_[static_cast<size_t>(s)];
  return state.may_end && !state.any && state.edges.empty();
}

std::optional<int32_t> TokenRules::next(int32_t state, TokenId id) const {
  if (automaton_) return automaton_->next(state, id);
  if (states_.empty()) return 0;
  const State& s = states_[static_cast<size_t>(state)];
  const auto edge = std::lower_bound(s.edges.begin(), s.edges.end(), id, [](const Edge& e, TokenId x) { return e.id < x; });
  if (edge != s.edges.end() && edge->id == id) return edge->next;
  if (!s.any || std::binary_search(s.denied.begin(), s.denied.end(), id)) return std::nullopt;
  return s.any_next;
}

std::optional<int32_t> TokenRules::state_after(std::span<const TokenId> content) const {
  std::optional<int32_t> state = 0;
  for (size_t i = 0; state && i < content.size(); ++i) state = next(*state, content[i]);
  return state;
}

}  // namespace slip
