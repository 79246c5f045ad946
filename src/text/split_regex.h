// SPDX-License-Identifier: Apache-2.0
// A pre-tokenizer's split pattern on PCRE2 (JIT, UTF). \s and \S are rewritten to White_Space: PCRE2's own \s also takes
// U+180E, which stopped being a space in Unicode 6.3.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

class SplitRegex {
 public:
  /// `where` opens the error message; kUnsupported for a pattern that PCRE2 does not compile.
  static Result<SplitRegex> compile(std::string_view pattern, bool matches_only, std::string_view where);
  /// Cuts valid UTF-8 into matches and, unless `matches_only`, what lies between them, in order, appended to `out`. Thread-safe.
  Status split(std::string_view text, std::vector<std::string_view>& out) const;

 private:
  std::shared_ptr<void> code_;
  bool matches_only_ = false;
};

}  // namespace slip
