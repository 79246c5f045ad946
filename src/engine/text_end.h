// SPDX-License-Identifier: Apache-2.0
// Texts that end free text: where the first of them stands, while tokens come and when all are there.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace slip {

/// Where the first of `stops` begins; npos where none is in the text.
size_t first_stop(std::string_view text, std::span<const std::string> stops);

/// Does the newest of these tokens complete one of the stops? Looks at the last tokens alone, and keeps nothing between calls.
bool stop_is_complete(const Tokenizer& tokenizer, std::span<const TokenId> tokens, std::span<const std::string> stops);

/// Text that is shown while it grows: what may yet become a stop is held back.
class HeldText {
 public:
  explicit HeldText(std::vector<std::string> stops) : stops_(std::move(stops)) {}
  /// What can be shown now.
  std::string push(std::string_view fresh);
  /// The rest, where no stop came.
  std::string flush();

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

/// The text without the bytes at its end that only begin a character.
std::string_view whole_characters(std::string_view text);

}  // namespace slip
