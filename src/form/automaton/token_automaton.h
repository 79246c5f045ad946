// SPDX-License-Identifier: Apache-2.0
// An automaton over bytes as one over a vocabulary's tokens: any tokens that spell a text of the language are its content. A token is
// allowed where its bytes lead on to a state from which the tokens that are left of the budget still reach an end, so that no content
// is ever cut off. What a state allows is found by walking the vocabulary's tree [Willard, Louf 2307.09702; as XGrammar and llguidance do
// it], once per state, when it is first asked for.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "form/automaton/byte_dfa.h"
#include "form/automaton/kind_steps.h"
#include "text/token_trie.h"

namespace slip {

/// Ids that may come next, END included: a list, or where they are many bits by id.
struct TokenMask {
  std::vector<uint64_t> bits;
  std::vector<TokenId> listed;  // ascending; empty where there are bits
  int32_t count = 0;
  bool kept = true;  // as long as the automaton
  bool contains(TokenId id) const;
};

/// Const members may be called from several threads at once.
class TokenAutomaton {
 public:
  /// `ends`: ascending ids that close the content where the language allows; `start_ends`: at the very start. `budget`: most
  /// content tokens. kBadInput: the shortest text does not fit the budget, or the vocabulary cannot spell it.
  static Result<std::shared_ptr<const TokenAutomaton>> make(ByteDfa language, std::shared_ptr<const TokenTrie> trie, int32_t vocab,
                                                            std::vector<TokenId> ends, std::vector<TokenId> start_ends,
                                                            int32_t budget);
  /// A state knows how many tokens came before it. The start is 0; -1: not allowed.
  int32_t next(int32_t state, TokenId id) const;
  bool may_end(int32_t state) const { return dfa_.accepts(state / width_); }
  /// A text of the language that nothing may follow.
  bool complete(int32_t state) const { return may_end(state) && (used(state) == budget_ || dfa_.ends_here(state / width_)); }
  /// Where `kept`, valid as long as this; otherwise until a few more masks are asked for by this thread.
  const TokenMask& mask(int32_t state) const;
  /// The only id that may come next.
  std::optional<TokenId> only(int32_t state) const;
  /// Makes the masks of states from the start on, as long as there is time for.
  void warm(double most_ms) const;
  const ByteDfa& language() const { return dfa_; }
  int32_t budget() const { return budget_; }
  size_t masks() const;

 private:
  TokenAutomaton() = default;
  struct Run {
    int32_t characters = 0;  // any plain text of so many, and fewer, leads on
    bool all = false;        // and of any number
    bool most = false;       // of as many as were looked at
    bool no_longer = false;  // and none of more
  };
  int32_t used(int32_t state) const { return state % width_; }
  void fill(int32_t q, int32_t left, bool start, TokenMask& mask) const;
  Run run_from(int32_t q, int32_t left) const;
  const KindSteps& steps() const;
  void walk_kinds(int32_t q, int32_t left, std::vector<uint64_t>& bits) const;
  void try_each(std::span<const TokenId> ids, int32_t q, int32_t left, std::vector<uint64_t>& bits) const;
  void walk(std::span<const TokenTrie::Node> nodes, int32_t q, int32_t left, std::vector<uint64_t>& bits) const;

  ByteDfa dfa_;
  std::shared_ptr<const TokenTrie> trie_;
  std::vector<TokenId> ends_, start_ends_;
  int32_t vocab_ = 0, budget_ = 0, width_ = 1;
  std::vector<int32_t> far_;                                 // per state of the language: most tokens that the nearest end takes
  std::vector<int32_t> farthest_;                            // of the states that it leads to
  bool controls_ = false, quotes_ = false, beyond_ = false;  // such bytes stand somewhere in the language
  mutable std::once_flag steps_made_;
  mutable std::unique_ptr<const KindSteps> steps_;
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<uint64_t, std::unique_ptr<TokenMask>> masks_;
  mutable size_t kept_bytes_ = 0;
};

}  // namespace slip
