// SPDX-License-Identifier: Apache-2.0
// Template text to tokens: data between tags with the whitespace rules of trim_blocks and lstrip_blocks, and the expression tokens
// inside tags.
#include <algorithm>

#include "text/jinja/syntax.h"
#include "text/unicode/unicode.h"

namespace slip::jinja {
namespace {

bool is_ascii_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f' || c == '\v'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

constexpr uint32_t kLastCharacter = 0x10FFFF;  // of Unicode
constexpr size_t kMaxTagTokens = 500;          // bounds the depth of an expression's tree; released templates stay below 100

class Lexer {
 public:
  Lexer(std::string_view source, std::string_view where) : where_(where) {
    for (size_t i = 0; i < source.size(); ++i) {  // one kind of line end
      if (source[i] != '\r') {
        s_ += source[i];
      } else if (i + 1 == source.size() || source[i + 1] != '\n') {
        s_ += '\n';
      }
    }
    if (!s_.empty() && s_.back() == '\n') s_.pop_back();  // as the library reads files
  }

  Result<std::vector<Token>> run() {
    while (at_ < s_.size()) {
      const size_t tag = next_tag();
      data(tag);
      if (tag == std::string::npos) break;
      const char kind = s_[tag + 1];
      at_ = tag + 2;
      if (at_ < s_.size() && (s_[at_] == '-' || s_[at_] == '+')) ++at_;
      if (kind == '#') {
        SLIP_TRY_(comment());
      } else {
        SLIP_TRY_(inside(kind == '%'));
      }
    }
    push(TokenType::kEnd, "");
    return std::move(tokens_);
  }

 private:
  Error wrong(std::string_view expected, std::string_view got) const {
    return bad_input("{}: line {}: expected {}, got {}", where_, line_, expected, got);
  }
  void push(TokenType type, std::string text) { tokens_.push_back({type, std::move(text), line_}); }

  size_t next_tag() const {
    for (size_t i = at_; i + 1 < s_.size(); ++i)
      if (s_[i] == '{' && (s_[i + 1] == '{' || s_[i + 1] == '%' || s_[i + 1] == '#')) return i;
    return std::string::npos;
  }

  // Text up to a tag, stripped where the tag begins with a minus, or where it is a block alone at the beginning of its line.
  void data(size_t tag) {
    const std::string_view all = std::string_view(s_).substr(at_, tag == std::string::npos ? tag : tag - at_);
    std::string_view text = all;
    const char sign = tag == std::string::npos || tag + 2 >= s_.size() ? ' ' : s_[tag + 2];
    if (sign == '-') {
      text = without_blanks(text, false, true);
    } else if (tag != std::string::npos && s_[tag + 1] != '{' && sign != '+') {
      const size_t end = text.rfind('\n');
      const size_t begin = end == std::string_view::npos ? 0 : end + 1;
      const bool starts_line = begin > 0 || line_start_;
      if (starts_line && without_blanks(text.substr(begin), true, false).empty()) text = text.substr(0, begin);
    }
    if (!text.empty()) push(TokenType::kData, std::string(text));
    line_ += static_cast<int>(std::count(all.begin(), all.end(), '\n'));
    at_ += all.size();
  }

  // Behind a tag's end: blanks go after a minus, one line end after a block or a comment.
  void after(bool strip, bool trim) {
    const size_t begin = at_;
    if (strip) {
      const std::string_view rest = std::string_view(s_).substr(at_);
      const size_t end = at_ + rest.size() - without_blanks(rest, true, false).size();
      while (at_ < end) line_ += s_[at_++] == '\n';
    } else if (trim && at_ < s_.size() && s_[at_] == '\n') {
      ++line_;
      ++at_;
    }
    line_start_ = at_ > begin && s_[at_ - 1] == '\n';
  }

  Status comment() {
    const size_t end = s_.find("#}", at_);
    if (end == std::string::npos) return wrong("the end of a comment, #}", "the end of the template");
    line_ += static_cast<int>(
        std::count(s_.begin() + static_cast<std::ptrdiff_t>(at_), s_.begin() + static_cast<std::ptrdiff_t>(end), '\n'));
    const char sign = end > 0 ? s_[end - 1] : ' ';
    at_ = end + 2;
    after(sign == '-', sign != '+');
    return {};
  }

  Status inside(bool block) {
    push(block ? TokenType::kBlockBegin : TokenType::kPrintBegin, "");
    int open = 0;
    const size_t first = tokens_.size();
    const std::string_view end = block ? "%}" : "}}";
    while (true) {
      while (at_ < s_.size() && is_ascii_space(s_[at_])) line_ += s_[at_++] == '\n';
      if (at_ >= s_.size()) return wrong(fmt::format("the end of a tag, {}", end), "the end of the template");
      if (tokens_.size() - first > kMaxTagTokens)
        return wrong(fmt::format("a tag of at most {} tokens", kMaxTagTokens), "a longer one");
      const std::string_view rest = std::string_view(s_).substr(at_);
      const bool sign = (rest[0] == '-' || (rest[0] == '+' && block)) && rest.substr(1).starts_with(end);
      if (open == 0 && (sign || rest.starts_with(end))) {
        push(block ? TokenType::kBlockEnd : TokenType::kPrintEnd, "");
        at_ += sign ? 3 : 2;
        after(sign && rest[0] == '-', block && !sign);
        return {};
      }
      const char c = rest[0];
      open += c == '(' || c == '[' || c == '{' ? 1 : c == ')' || c == ']' || c == '}' ? -1 : 0;
      if (open < 0) return wrong("brackets in pairs", std::string(1, c));
      SLIP_TRY_(token(rest));
    }
  }

  Status token(std::string_view rest) {
    const char c = rest[0];
    if (c == '"' || c == '\'') return string(c);
    size_t n = 1;
    if (is_digit(c)) {
      while (n < rest.size() && (is_digit(rest[n]) || rest[n] == '_')) ++n;
      const bool fraction = n + 1 < rest.size() && rest[n] == '.' && is_digit(rest[n + 1]);
      if (fraction)
        for (++n; n < rest.size() && is_digit(rest[n]);) ++n;
      if (n < rest.size() && is_letter(rest[n])) return wrong("a number", std::string(rest.substr(0, n + 1)));
      if (n > 18) return wrong("a number of at most 18 digits", std::string(rest.substr(0, n)));
      std::string digits(rest.substr(0, n));
      std::erase(digits, '_');
      push(fraction ? TokenType::kFloat : TokenType::kInteger, std::move(digits));
    } else if (is_letter(c)) {
      while (n < rest.size() && (is_letter(rest[n]) || is_digit(rest[n]))) ++n;
      push(TokenType::kName, std::string(rest.substr(0, n)));
    } else {
      for (const std::string_view two : {"==", "!=", "<=", ">=", "//", "**"})
        if (rest.starts_with(two)) n = 2;
      if (n == 1 && std::string_view("+-*/%~|.,:()[]{}<>=").find(c) == std::string_view::npos) {
        const auto u = static_cast<unsigned char>(c);
        return wrong("an expression", u < 0x20 || u > 0x7E ? fmt::format("byte {:#x}", u) : std::string(1, c));
      }
      push(TokenType::kOperator, std::string(rest.substr(0, n)));
    }
    at_ += n;
    return {};
  }

  Status string(char quote) {
    std::string text;
    const int line = line_;
    for (size_t i = at_ + 1; i < s_.size(); ++i) {
      const char c = s_[i];
      if (c == quote) {
        tokens_.push_back({TokenType::kString, std::move(text), line});
        at_ = i + 1;
        return {};
      }
      line_ += c == '\n';
      if (c != '\\') {
        text += c;
        continue;
      }
      SLIP_TRY_(escape(i, text));
    }
    line_ = line;
    return wrong("the end of a string", "the end of the template");
  }

  // `i` is at the backslash, afterwards at the escape's last character. Python leaves what it does not know as it is.
  Status escape(size_t& i, std::string& text) {
    if (++i >= s_.size()) return {};
    static constexpr std::string_view kFrom = "nrtbfva\\'\"", kTo = "\n\r\t\b\f\v\a\\'\"";
    const char c = s_[i];
    if (const size_t known = kFrom.find(c); known != std::string_view::npos) {
      text += kTo[known];
    } else if (c == '\n') {
      ++line_;  // a line that goes on
    } else if (c >= '0' && c <= '7') {
      uint32_t code = 0;
      size_t digits = 0;
      for (; digits < 3 && i + digits < s_.size() && s_[i + digits] >= '0' && s_[i + digits] <= '7'; ++digits)
        code = code * 8 + static_cast<uint32_t>(s_[i + digits] - '0');
      append_utf8(text, code);
      i += digits - 1;
    } else if (c == 'x' || c == 'u' || c == 'U') {
      const size_t digits = c == 'x' ? 2 : c == 'u' ? 4 : 8;
      uint32_t code = 0;
      for (size_t k = 1; k <= digits; ++k) {
        const char h = i + k < s_.size() ? s_[i + k] : ' ';
        const size_t value = std::string_view("0123456789abcdef").find(static_cast<char>(h | (h >= 'A' ? 0x20 : 0)));
        if (value == std::string_view::npos) return wrong(fmt::format("{} hexadecimal digits", digits), std::string(1, h));
        code = code * 16 + static_cast<uint32_t>(value);
      }
      if (code >= 0xD800 && code < 0xE000) return wrong("a character", fmt::format("the half \\u{:04x}", code));
      if (code > kLastCharacter) return wrong("a character of at most U+10FFFF", fmt::format("U+{:X}", code));
      append_utf8(text, code);
      i += digits;
    } else if (c == 'N' || static_cast<unsigned char>(c) >= 0x80) {  // by name; Python spells the bytes of others
      return unsupported("{}: line {}: expected an escape that is done, got {}", where_, line_,
                         c == 'N' ? "\\N" : "one of a character outside ASCII");
    } else {
      text += '\\';
      text += c;
    }
    return {};
  }

  std::string_view where_;
  std::string s_;
  size_t at_ = 0;
  int line_ = 1;
  bool line_start_ = true;  // the text at at_ begins a line
  std::vector<Token> tokens_;
};

}  // namespace

Result<std::vector<Token>> tokenize(std::string_view source, std::string_view where) { return Lexer(source, where).run(); }

}  // namespace slip::jinja
