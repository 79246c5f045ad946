// SPDX-License-Identifier: Apache-2.0
// How two vocabularies name the same tokens.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/ids.h"

namespace slip {

/// Per id of one vocabulary the id by which another names the same token; none where that has no such token.
class VocabularyMap {
 public:
  VocabularyMap() = default;
  /// None of so many ids has another yet.
  explicit VocabularyMap(int32_t ids) : to_(static_cast<size_t>(ids), kNone) {}
  int32_t size() const { return static_cast<int32_t>(to_.size()); }
  std::optional<TokenId> operator[](TokenId id) const {
    const int32_t to = to_[static_cast<size_t>(id.value)];
    return to == kNone ? std::nullopt : std::optional(TokenId{to});
  }
  void set(TokenId id, std::optional<TokenId> to) { to_[static_cast<size_t>(id.value)] = to ? to->value : kNone; }

 private:
  static constexpr int32_t kNone = -1;
  std::vector<int32_t> to_;  // as numbers: a drafter's logits are sent through it id by id
};

}  // namespace slip
