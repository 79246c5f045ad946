// SPDX-License-Identifier: Apache-2.0
#include "text/jinja/reader.h"

#include <set>

namespace slip::jinja {

Status TokenReader::need_op(std::string_view text) {
  if (!take_op(text)) return wrong(text, shown());
  return {};
}

Status TokenReader::need(TokenType type, std::string_view expected) {
  if (peek().type != type) return wrong(expected, shown());
  ++at_;
  return {};
}

Status TokenReader::need_word(std::string_view text) {
  if (!take_name(text)) return wrong(text, shown());
  return {};
}

Result<std::string> TokenReader::name(std::string_view expected) {
  static const std::set<std::string_view> kWords = {"and", "or", "not", "in", "is", "if", "else", "elif", "for"};
  if (peek().type != TokenType::kName || kWords.contains(peek().text)) return wrong(expected, shown());
  return tokens_[at_++].text;
}

Error TokenReader::wrong(std::string_view expected, std::string_view got) const {
  return bad_input("{}: line {}: expected {}, got {}", where_, peek().line, expected, got);
}

Error TokenReader::not_done(std::string_view expected, std::string_view got) const {
  return unsupported("{}: line {}: expected {}, got {}", where_, peek().line, expected, got);
}

std::string TokenReader::shown() const {
  switch (peek().type) {
    case TokenType::kEnd:
      return "the end of the template";
    case TokenType::kBlockEnd:
    case TokenType::kPrintEnd:
      return "the end of the tag";
    case TokenType::kString:
      return "a string";
    default:
      return peek().text;
  }
}

NodePtr TokenReader::node(Kind kind, std::string text) const {
  auto n = std::make_unique<Node>();
  n->kind = kind;
  n->line = peek().line;
  n->text = std::move(text);
  return n;
}

}  // namespace slip::jinja
