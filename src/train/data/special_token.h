// SPDX-License-Identifier: Apache-2.0
// The tokens that a source needs of its tokenizer.
#pragma once
#include <string>
#include <string_view>

#include "base/result.h"
#include "text/tokenizer.h"

namespace slip {

/// The id of a token by its text; kBadInput where the tokenizer of `folder` has none.
inline Result<TokenId> special_token(const Tokenizer& t, std::string_view text, const std::string& folder) {
  if (const auto id = t.find(text)) return *id;
  return bad_input("{}: expected a tokenizer with {}, got none", folder, text);
}

}  // namespace slip
