// SPDX-License-Identifier: Apache-2.0
// PCRE2 behind split_regex.h.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "text/split_regex.h"

#include <pcre2.h>

namespace slip {

namespace {

constexpr std::string_view kWhiteSpace =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";

// \s and \S outside and \s inside a character class; \S inside one stays PCRE2's.
std::string with_white_space(std::string_view pattern) {
  std::string out;
  bool in_class = false;
  for (size_t i = 0; i < pattern.size(); ++i) {
    const char c = pattern[i];
    if (c == '\\' && i + 1 < pattern.size()) {
      const char escaped = pattern[++i];
      if (escaped == 's') {
        out += in_class ? std::string(kWhiteSpace) : fmt::format("[{}]", kWhiteSpace);
      } else if (escaped == 'S' && !in_class) {
        out += fmt::format("[^{}]", kWhiteSpace);
      } else {
        out += c;
        out += escaped;
      }
      continue;
    }
    if (c == '[') in_class = true;
    if (c == ']') in_class = false;
    out += c;
  }
  return out;
}

std::string message_of(int code) {
  PCRE2_UCHAR buffer[256];
  pcre2_get_error_message(code, buffer, sizeof buffer);
  return reinterpret_cast<const char*>(buffer);
}

}  // namespace

Result<SplitRegex> SplitRegex::compile(std::string_view pattern, bool matches_only, std::string_view where) {
  const std::string rewritten = with_white_space(pattern);
  int code = 0;
  PCRE2_SIZE at = 0;
  pcre2_code* compiled = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(rewritten.data()), rewritten.size(),
                                       PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &code, &at, nullptr);
  if (!compiled)
    return unsupported("{}: split pattern: expected one that PCRE2 takes, got: {} in {}", where, message_of(code), pattern);
  SplitRegex out;
  out.matches_only_ = matches_only;
  out.code_ = std::shared_ptr<void>(compiled, [](void* p) { pcre2_code_free(static_cast<pcre2_code*>(p)); });
  pcre2_jit_compile(compiled, PCRE2_JIT_COMPLETE);  // without JIT (no memory to execute) matching is slower, not wrong
  return out;
}

Status SplitRegex::split(std::string_view text, std::vector<std::string_view>& out) const {
  const auto* code = static_cast<const pcre2_code*>(code_.get());
  const std::unique_ptr<pcre2_match_data, void (*)(pcre2_match_data*)> match(pcre2_match_data_create(1, nullptr),
                                                                             pcre2_match_data_free);
  if (!match) return resource_error("text: expected memory for a match, got none");
  const PCRE2_SIZE* span = pcre2_get_ovector_pointer(match.get());
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  size_t done = 0, at = 0;
  while (at < text.size()) {
    int rc = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, match.get(), nullptr);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT) {  // the interpreter keeps its stack on the heap
      rc = pcre2_match(code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | PCRE2_NO_JIT, match.get(), nullptr);
    }
    if (rc == PCRE2_ERROR_NOMATCH) break;
    if (rc < 0) return bad_input("text: expected the split pattern to match at byte {}, got: {}", at, message_of(rc));
    if (span[0] > done && !matches_only_) out.push_back(text.substr(done, span[0] - done));
    out.push_back(text.substr(span[0], span[1] - span[0]));
    done = at = span[1];
  }
  if (done < text.size() && !matches_only_) out.push_back(text.substr(done));
  return {};
}

}  // namespace slip
