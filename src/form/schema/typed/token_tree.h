// SPDX-License-Identifier: Apache-2.0
// Inside of open_form.cc: the texts that may stand behind a field.
#pragma once
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/ids.h"

namespace slip {

/// The texts behind a field, as a tree of tokens.
struct TokenTree {
  struct Node {
    std::vector<std::pair<TokenId, int32_t>> below;  // ascending
    std::optional<int32_t> leaf;                     // a text ends here: the slot behind it, or Shape::kEnd
  };
  std::vector<Node> nodes{1};

  /// False where two texts are one.
  bool add(const std::vector<TokenId>& ids, int32_t to) {
    int32_t at = 0;
    for (const TokenId id : ids) {
      auto& below = nodes[static_cast<size_t>(at)].below;
      auto next = std::lower_bound(below.begin(), below.end(), id, [](const auto& a, TokenId b) { return a.first < b; });
      if (next == below.end() || next->first != id) {
        next = below.insert(next, {id, static_cast<int32_t>(nodes.size())});
        at = next->second;
        nodes.emplace_back();
      } else {
        at = next->second;
      }
    }
    Node& n = nodes[static_cast<size_t>(at)];
    if (n.leaf && n.leaf != to) return false;
    n.leaf = to;
    return true;
  }
};

}  // namespace slip
