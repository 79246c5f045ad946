// SPDX-License-Identifier: Apache-2.0
#include "text/token_trie.h"

#include <algorithm>
#include <string_view>

#include "text/tokenizer.h"

namespace slip {
namespace {

// Tokens of more characters than this are rare; they count as of this many, and are walked where that matters.
constexpr size_t kMostCharacters = 16;

bool is_plain(std::string_view bytes) {
  return std::none_of(bytes.begin(), bytes.end(),
                      [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\'; }) &&
         is_valid_utf8(bytes);
}

size_t characters(std::string_view bytes) {
  return static_cast<size_t>(
      std::count_if(bytes.begin(), bytes.end(), [](char c) { return (static_cast<uint8_t>(c) & 0xC0) != 0x80; }));
}

}  // namespace

struct TokenTrie::Entry {
  std::string_view bytes;
  TokenId id;
};

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : size_(tokenizer.size()) {
  std::vector<Entry> plain, others;
  plain_bits_.assign(kMostCharacters + 1, std::vector<uint64_t>(words(), 0));
  for (int32_t id = 0; id < size_; ++id) {
    const std::string_view bytes = tokenizer.token_bytes({id});
    begin_.push_back(text_.size());
    if (bytes.empty() || tokenizer.is_special({id}) || tokenizer.is_added({id})) continue;
    text_ += bytes;
    deepest_ = std::max(deepest_, bytes.size());
    if (bytes.size() == 1) single_.set(static_cast<uint8_t>(bytes[0]));
    if (!is_plain(bytes)) {
      others.push_back({bytes, {id}});
      continue;
    }
    plain.push_back({bytes, {id}});
    const size_t n = characters(bytes);
    const uint64_t bit = uint64_t{1} << (id % 64);
    for (size_t k = std::min(n, kMostCharacters); k <= kMostCharacters; ++k)
      if (n <= k || k == kMostCharacters) plain_bits_[k][static_cast<size_t>(id) / 64] |= bit;
  }
  begin_.push_back(text_.size());
  const auto less = [](const Entry& a, const Entry& b) { return a.bytes != b.bytes ? a.bytes < b.bytes : a.id < b.id; };
  std::sort(plain.begin(), plain.end(), less);
  std::sort(others.begin(), others.end(), less);
  build(others, others_);
  build(plain, plain_);
}

/// Entries in order of bytes are the tree's nodes in depth-first order.
void TokenTrie::build(std::span<const Entry> sorted, std::vector<Node>& nodes) {
  std::vector<int32_t> open;  // the way to the last entry
  std::string_view last;
  const auto close = [&](size_t depth) {
    for (; open.size() > depth; open.pop_back()) nodes[static_cast<size_t>(open.back())].skip = static_cast<int32_t>(nodes.size());
  };
  for (const Entry& e : sorted) {
    const size_t common = static_cast<size_t>(
        std::mismatch(last.begin(), last.begin() + static_cast<ptrdiff_t>(std::min(last.size(), e.bytes.size())), e.bytes.begin())
            .first -
        last.begin());
    close(common);
    for (size_t d = common; d < e.bytes.size(); ++d) {
      open.push_back(static_cast<int32_t>(nodes.size()));
      nodes.push_back({.byte = static_cast<uint8_t>(e.bytes[d]), .depth = static_cast<uint16_t>(d + 1)});
    }
    Node& n = nodes[static_cast<size_t>(open.back())];
    if (n.count == 0) n.first = static_cast<int32_t>(ids_.size());
    ++n.count;
    ids_.push_back(e.id);
    last = e.bytes;
  }
  close(0);
}

}  // namespace slip
