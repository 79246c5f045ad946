// SPDX-License-Identifier: Apache-2.0
// Inside of open_form.cc: the fixed texts between values, as tokens.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "form/schema/typed/shape.h"
#include "form/schema/typed/token_tree.h"
#include "text/tokenizer.h"

namespace slip {

/// Tokens are cut where values begin and end. The last token before a value, its entry, is the same on all ways to it.
class WayTexts {
 public:
  /// All three must outlive it.
  WayTexts(const Shape& shape, const std::string& name, const Tokenizer& tokenizer)
      : shape_(shape), name_(name), tokenizer_(tokenizer) {}

  /// Finds the entries: what all texts to a slot end with is cut off first where several lead there. Call once, before the rest.
  Status start();
  /// The token before slot `s`.
  TokenId entry(int32_t s) const { return entries_[static_cast<size_t>(s)]; }
  /// The texts behind slot `s`, or from the start where it is -1.
  Result<TokenTree> behind(int32_t s) const;
  /// Of the first of them.
  Result<TokenId> first_behind(int32_t s) const;
  /// As the tokenizer writes it inside of a text, or byte by byte where it would write something else.
  Result<std::vector<TokenId>> encode(std::string_view text) const;

 private:
  std::string where(int32_t s) const;
  Result<std::vector<TokenId>> ids_of(const Way& w) const;
  /// A way's text; its first `cut` bytes are tokens by themselves. Where it goes on behind the text to a value, it has that text's tokens
  /// first: so the same bytes part at the same token wherever they stand.
  Result<std::vector<TokenId>> spelled(const std::vector<Way>& ways, const Way& w, size_t cut) const;
  /// Where the start parts at once its first byte is a token by itself, so that a fixed one stands before the choice.
  Status first_byte_is_fixed() const;

  const Shape& shape_;
  const std::string& name_;
  const Tokenizer& tokenizer_;
  std::vector<std::string> tails_;  // by slot: what is cut off before its entry; empty where one text leads there
  std::vector<TokenId> entries_;    // by slot
  size_t cut_ = 0;                  // bytes at the very start that are tokens by themselves
};

}  // namespace slip
