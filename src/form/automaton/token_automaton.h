// SPDX-License-Identifier: Apache-2.0
// What a field of text may hold, token by token. A language over bytes says which texts are allowed; any tokens that spell one of them are a
// content. A token is allowed where, behind its bytes, the tokens that are left of the budget can still complete a text: no content is ever
// cut off.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "form/automaton/token_language.h"

namespace slip {

/// Const members may be called from several threads at once.
class TokenAutomaton {
 public:
  /// `ends`: ascending ids that close the content where the language allows; `start_ends`: at the very start. `budget`: most
  /// content tokens. kBadInput: the shortest text does not fit the budget, or the vocabulary cannot spell it.
  static Result<std::shared_ptr<const TokenAutomaton>> make(std::shared_ptr<const TokenLanguage> language,
                                                            std::vector<TokenId> ends, std::vector<TokenId> start_ends,
                                                            int32_t budget);
  /// A state knows how many tokens came before it. The start is 0; none: not allowed.
  std::optional<int32_t> next(int32_t state, TokenId id) const;
  bool may_end(int32_t state) const { return language().accepts(state / width_); }
  /// A text of the language that nothing may follow.
  bool complete(int32_t state) const { return may_end(state) && (used(state) == budget_ || language().ends_here(state / width_)); }
  /// Ids that may come next, END included. Where `kept`, valid as long as this; otherwise until a few more masks are asked for by this thread.
  const TokenMask& mask(int32_t state) const;
  /// The only id that may come next.
  std::optional<TokenId> only(int32_t state) const;
  /// Makes the masks of states from the start on, as long as there is time for.
  void warm(double most_ms) const;
  const ByteDfa& language() const { return language_->dfa(); }
  int32_t budget() const { return budget_; }
  size_t masks() const;

 private:
  TokenAutomaton() = default;
  int32_t used(int32_t state) const { return state % width_; }

  std::shared_ptr<const TokenLanguage> language_;  // of several fields perhaps, which then share its masks
  std::vector<TokenId> ends_, start_ends_;
  int32_t budget_ = 0, width_ = 1;
  mutable KeptMasks with_ends_;
};

}  // namespace slip
