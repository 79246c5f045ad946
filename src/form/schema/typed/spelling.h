// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: a part of an answer in tokens, whatever stands before and behind it.
#pragma once
#include <string_view>
#include <vector>

#include "base/ids.h"
#include "text/tokenizer.h"

namespace slip {

/// The tokenizer's own tokens where they spell the text as it is, else a token per byte. kBadInput where the vocabulary lacks one.
Result<std::vector<TokenId>> spelled_alone(const Tokenizer& tokenizer, std::string_view text, std::string_view form_name);

}  // namespace slip
