// SPDX-License-Identifier: Apache-2.0
// Added tokens: words that are found in the text before anything else cuts it. One matcher per pass (raw text, normalised
// text); matching is leftmost-longest over all contents of the pass.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace slip {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool single_word = false;  // no word character may touch it
  bool lstrip = false;       // swallows blanks on its left
  bool rstrip = false;       // and on its right
  bool normalized = false;   // is looked for in the normalised text
  bool special = false;      // is left out by skip_special
};

class AddedTokenMatcher {
 public:
  AddedTokenMatcher();
  /// Looks for `content` (the token's own, or its normalised form). A content that comes twice means the later token.
  void add(std::string_view content, const AddedToken& token);
  bool empty() const { return tokens_.empty(); }
  /// Calls back for each part in order: a token, or a non-empty piece of text (token null).
  void split(std::string_view text, const std::function<void(std::string_view piece, const AddedToken* token)>& part) const;

 private:
  struct Node {
    int token = -1;
    std::map<uint8_t, int> next;
  };
  // Index of the longest content that starts at `at` (-1: none), and its end.
  int longest(std::string_view text, size_t at, size_t& end) const;

  std::vector<AddedToken> tokens_;
  std::vector<Node> nodes_;
  std::array<int, 256> root_;  // most bytes start no token: one look
};

}  // namespace slip
