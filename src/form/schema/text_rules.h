// SPDX-License-Identifier: Apache-2.0
// Inside of schema.h: which ids free text may hold. Lists are made when first asked for and shared by all fields of a form.
#pragma once
#include <vector>

#include "form/schema/text.h"

namespace slip {

class TextRules {
 public:
  TextRules(const FormTokens& tokens, Layout layout) : tokens_(tokens), layout_(layout) {}

  /// Any text; where `spec` asks for it: behind a space, and in an enumeration with a state per separator seen, so that it never
  /// names more than it may. An id that holds the separator twice is denied. `padded`: NULL closes the field.
  TokenRules rules(const FieldSpec& spec, bool padded);
  /// All ids whose bytes contain the separator, ascending.
  std::vector<TokenId> containing(char separator) const;

 private:
  /// Ids that free text may not contain: specials and other added tokens, ids without text; controls where the layout is text, and
  /// in JSON quotes and backslashes.
  const std::vector<TokenId>& denied();
  const std::vector<TokenId>& without_space();

  const FormTokens& tokens_;
  Layout layout_;
  std::vector<TokenId> denied_, without_space_;
};

}  // namespace slip
