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
    uint16_t depth = 0;            // from 1
    int32_t skip = 0;              // the next node that is not below this one
    int32_t first = 0, count = 0;  // ids that end here
  };
  /// Kinds of plain characters: small letters, capitals, digits, all beyond ASCII, and every other one by itself.
  static constexpr int kKinds = 36;
  static constexpr int kSmall = 0, kCapital = 1, kDigit = 2, kBeyond = 3;
  /// Of a plain character by its first byte.
  static int kind_of(uint8_t first);
  /// Tokens of plain text whose characters are of these kinds.
  struct KindNode {
    uint8_t kind = 0;
    uint16_t depth = 0;            // characters, from 1
    int32_t skip = 0;              // as above
    int32_t first = 0, count = 0;  // ids that end here; those below follow
    int32_t bits = -1;             // where they are many: kind_bits
  };
  explicit TokenTrie(const Tokenizer& tokenizer);

  std::span<const Node> plain() const { return plain_; }
  /// The others: those with a control character, those of the rest with a quote or a backslash, and those that begin or end inside of a
  /// character.
  std::span<const Node> controls() const { return others_[0]; }
  std::span<const Node> quotes() const { return others_[1]; }
  std::span<const Node> pieces() const { return others_[2]; }
  std::span<const TokenId> ids(const Node& n) const {
    return std::span(ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.count));
  }
  std::span<const KindNode> kinds() const { return kinds_; }
  /// Ids that end at a node, and those that end there or below.
  std::span<const TokenId> ids(const KindNode& n) const {
    return std::span(kind_ids_).subspan(static_cast<size_t>(n.first), static_cast<size_t>(n.count));
  }
  std::span<const TokenId> ids_below(const KindNode& n) const {
    const size_t end = static_cast<size_t>(n.skip) < kinds_.size() ? static_cast<size_t>(kinds_[static_cast<size_t>(n.skip)].first)
                                                                   : kind_ids_.size();
    return std::span(kind_ids_).subspan(static_cast<size_t>(n.first), end - static_cast<size_t>(n.first));
  }
  std::span<const uint64_t> kind_bits(const KindNode& n) const { return kind_bits_[static_cast<size_t>(n.bits)]; }
  /// Bits of the tokens of plain text of at most `characters`, from 0 to kLongPlain; those of all of them; and the ids of longer ones.
  static constexpr int kLongPlain = 32;
  const std::vector<uint64_t>& plain_bits(int characters) const { return plain_bits_[static_cast<size_t>(characters)]; }
  const std::vector<uint64_t>& all_plain_bits() const { return plain_bits_.back(); }
  std::span<const TokenId> long_plain() const { return long_plain_; }
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
  std::vector<Node> plain_;
  std::array<std::vector<Node>, 3> others_;
  std::vector<KindNode> kinds_;
  std::vector<TokenId> ids_, kind_ids_, long_plain_;
  std::vector<std::vector<uint64_t>> kind_bits_;
  std::string text_;           // of all tokens, by id
  std::vector<size_t> begin_;  // by id, and the end
  std::vector<std::vector<uint64_t>> plain_bits_;
  std::bitset<256> single_;
  int32_t size_ = 0;
  size_t deepest_ = 0;
};

}  // namespace slip
