// SPDX-License-Identifier: Apache-2.0
// A vocabulary's tokens by their bytes: a tree in depth-first order, so that a walk which leaves a branch out jumps over it. What forms
// ask when they look for the tokens that may come next. Special and added tokens are not in it, nor are those of more than
// 4,096 bytes.
//
// Tokens of plain text (whole characters of UTF-8, no controls, no quote, no backslash) lie in a tree of their own: where any text may
// stand, all of them may, and nobody needs to walk there. They lie in a second tree by the kinds of their characters (small letters,
// capitals, digits ...): where an automaton treats all of a kind alike, 145,000 words are 5,000 ways of writing one.
#pragma once
#include <array>
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
    uint8_t height = 0;            // of plain text: characters of the longest way from here, this one included
    uint16_t depth = 0;            // from 1
    int32_t skip = 0;              // the next node that is not below this one
    int32_t first = 0, count = 0;  // ids that end here; those below follow
  };
  static constexpr uint8_t kHigh = 255;  // so many characters or more
  /// Kinds of plain characters: small letters, capitals, digits, all beyond ASCII, and every other one by itself.
  static constexpr int kKinds = 36;
  static constexpr int kSmall = 0, kCapital = 1, kDigit = 2, kBeyond = 3;
  /// Of a plain character by its first byte.
  static int kind_of(uint8_t first);
  /// Tokens of plain text whose characters are of these kinds.
  struct KindNode {
    uint8_t kind = 0;
    uint8_t height = 0;
    uint16_t depth = 0;            // characters, from 1
    int32_t skip = 0;              // as above
    int32_t first = 0, count = 0;  // ids that end here; those below follow
    int32_t bits = -1;             // where many ids end here: the number of their bitmap among kind_bits
    int32_t all = 0;               // ids that end here or below
    int32_t all_bits = -1;         // the same of `all`, where that is another bitmap
    uint64_t kinds = 0;            // that stand below
  };
  explicit TokenTrie(const Tokenizer& tokenizer);

  std::span<const Node> plain() const { return plain_; }
  std::span<const TokenId> all_plain_ids() const {  // in the order of the tree
    return plain_.empty() ? std::span<const TokenId>() : std::span(ids_).subspan(static_cast<size_t>(plain_.front().first));
  }
  /// The others: those with a control character, those of the rest with a quote or a backslash, and those that begin or end inside of a
  /// character.
  std::span<const Node> controls() const { return others_[0]; }
  std::span<const Node> quotes() const { return others_[1]; }
  std::span<const Node> pieces() const { return others_[2]; }
  std::span<const TokenId> ids(const Node& n) const {
    return std::span(ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.count));
  }
  /// Of a tree: ids that end at the node or below.
  std::span<const TokenId> ids_below(std::span<const Node> tree, const Node& n) const {
    const size_t end = static_cast<size_t>(n.skip) < tree.size() ? static_cast<size_t>(tree[static_cast<size_t>(n.skip)].first)
                                                                 : static_cast<size_t>(tree.back().first + tree.back().count);
    return std::span(ids_).subspan(static_cast<size_t>(n.first), end - static_cast<size_t>(n.first));
  }
  std::span<const KindNode> kinds() const { return kinds_; }
  /// Ids that end at a node, and those that end there or below.
  std::span<const TokenId> ids(const KindNode& n) const {
    return std::span(kind_ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.count));
  }
  std::span<const TokenId> ids_below(const KindNode& n) const {
    return std::span(kind_ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.all));
  }
  std::span<const uint64_t> kind_bits(int32_t which) const { return kind_bits_[static_cast<size_t>(which)]; }
  /// Bits of the tokens of plain text of at most `characters`, from 0 to kLongPlain; those of all of them; and the ids of longer ones.
  static constexpr int kLongPlain = 32;
  const std::vector<uint64_t>& plain_bits(int characters) const { return plain_bits_[static_cast<size_t>(characters)]; }
  const std::vector<uint64_t>& all_plain_bits() const { return plain_bits_.back(); }
  /// How many tokens these are.
  int32_t plain_count(int characters) const { return plain_counts_[static_cast<size_t>(characters)]; }
  int32_t all_plain_count() const { return plain_counts_.back(); }
  struct Long {
    TokenId id;
    int32_t characters = 0;
  };
  std::span<const Long> long_plain() const { return long_plain_; }
  int32_t most_characters() const { return most_characters_; }  // of a token of plain text
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
  void build_kinds(std::span<const Entry> plain);
  int32_t keep_bits(std::span<const TokenId> ids);
  void close_kind(KindNode& n, KindNode* above);
  std::vector<Node> plain_;
  std::array<std::vector<Node>, 3> others_;
  std::vector<KindNode> kinds_;
  std::vector<TokenId> ids_, kind_ids_;
  std::vector<Long> long_plain_;
  int32_t most_characters_ = 0;
  std::vector<std::vector<uint64_t>> kind_bits_;
  std::string text_;           // of all tokens, by id
  std::vector<size_t> begin_;  // by id, and the end
  std::vector<std::vector<uint64_t>> plain_bits_;
  std::vector<int32_t> plain_counts_;
  std::bitset<256> single_;
  int32_t size_ = 0;
  size_t deepest_ = 0;
};

}  // namespace slip
