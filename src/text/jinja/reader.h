// SPDX-License-Identifier: Apache-2.0
// Inside of the parser (parse.cc): where it stands among the tokens, what it may take next, errors with the line, and
// nodes that remember theirs.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/syntax.h"

namespace slip::jinja {

class TokenReader {
 protected:
  TokenReader(const std::vector<Token>& tokens, std::string_view where) : tokens_(tokens), where_(where) {}

  const Token& peek(size_t ahead = 0) const { return tokens_[std::min(at_ + ahead, tokens_.size() - 1)]; }
  bool is(TokenType type, std::string_view text) const { return peek().type == type && peek().text == text; }
  bool is_op(std::string_view text) const { return is(TokenType::kOperator, text); }
  bool is_name(std::string_view text) const { return is(TokenType::kName, text); }
  bool take_op(std::string_view text) { return is_op(text) && ++at_; }
  bool take_name(std::string_view text) { return is_name(text) && ++at_; }

  Status need_op(std::string_view text);
  Status need(TokenType type, std::string_view expected);
  Status need_word(std::string_view text);
  /// A name that is no keyword.
  Result<std::string> name(std::string_view expected);

  /// kBadInput and kUnsupported at the line of the next token, which `shown` spells.
  Error wrong(std::string_view expected, std::string_view got) const;
  Error not_done(std::string_view expected, std::string_view got) const;
  std::string shown() const;

  NodePtr node(Kind kind, std::string text = {}) const;
  template <class... K>
  NodePtr with(Kind kind, std::string text, K... kids) const {
    NodePtr n = node(kind, std::move(text));
    (n->kids.push_back(std::move(kids)), ...);
    return n;
  }

  const std::vector<Token>& tokens_;
  std::string_view where_;
  size_t at_ = 0;
};

}  // namespace slip::jinja
