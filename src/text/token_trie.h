// SPDX-License-Identifier: Apache-2.0
// A vocabulary's tokens by their bytes: a tree in depth-first order, so that a walk which leaves a branch out jumps over it. What forms
// ask when they look for the tokens that may come next. Special and added tokens are not in it.
//
// Tokens of plain text (whole characters of UTF-8, no controls, no quote, no backslash) lie in a tree of their own: where any text may
// stand, all of them may, and nobody needs to walk there.
#pragma once
#include <bitset>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace slip {

class Tokenizer;

class TokenTrie {
 public:
  struct Node {
    uint8_t byte = 0;
    uint16_t depth = 0;            // from 1
    int32_t skip = 0;              // the next node that is not below this one
    int32_t first = 0, count = 0;  // ids that end here
  };
  explicit TokenTrie(const Tokenizer& tokenizer);

  /// All tokens but those of plain text, and those.
  std::span<const Node> others() const { return others_; }
  std::span<const Node> plain() const { return plain_; }
  std::span<const TokenId> ids(const Node& n) const {
    return std::span(ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.count));
  }
  /// Bits of the tokens of plain text of at most `characters`, from 0 to the longest; the last one holds all.
  std::span<const std::vector<uint64_t>> plain_bits() const { return plain_bits_; }
  /// A token's bytes; empty for those that are not in the tree.
  std::string_view bytes(TokenId id) const {
    const auto i = static_cast<size_t>(id.value);
    return id.value < 0 || id.value >= size_ ? std::string_view()
                                             : std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i]);
  }
  /// Bytes that are a token by themselves, with one such token each.
  const std::bitset<256>& single_bytes() const { return single_; }
  int32_t size() const { return size_; }  // ids of the vocabulary
  size_t deepest() const { return deepest_; }
  size_t words() const { return (static_cast<size_t>(size_) + 63) / 64; }

 private:
  struct Entry;
  void build(std::span<const Entry> sorted, std::vector<Node>& nodes);
  std::vector<Node> others_, plain_;
  std::vector<TokenId> ids_;
  std::string text_;           // of all tokens, by id
  std::vector<size_t> begin_;  // by id, and the end
  std::vector<std::vector<uint64_t>> plain_bits_;
  std::bitset<256> single_;
  int32_t size_ = 0;
  size_t deepest_ = 0;
};

}  // namespace slip
