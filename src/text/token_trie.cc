// SPDX-License-Identifier: Apache-2.0
#include "text/token_trie.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>
#include <utility>

#include "text/tokenizer.h"

namespace slip {
namespace {

/// 0 .. 2: the tree of `others`; 3: plain text.
size_t tree_of(std::string_view bytes) {
  if (std::any_of(bytes.begin(), bytes.end(), [](char c) { return static_cast<unsigned char>(c) < 0x20; })) return 0;
  if (bytes.find_first_of("\"\\") != std::string_view::npos) return 1;
  return is_valid_utf8(bytes) ? 3 : 2;
}

/// The first eight bytes as a number that compares as they do, so that sorting looks at few texts.
uint64_t head_of(std::string_view bytes) {
  uint64_t head = 0;
  for (size_t i = 0; i < 8; ++i) head = head << 8 | (i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0U);
  return head;
}

constexpr auto kKindOf = [] {
  std::array<uint8_t, 256> of{};
  uint8_t next = TokenTrie::kBeyond + 1;
  for (size_t b = 0; b < 256; ++b) {
    if (b >= 0x80)
      of[b] = TokenTrie::kBeyond;
    else if (b >= 'a' && b <= 'z')
      of[b] = TokenTrie::kSmall;
    else if (b >= 'A' && b <= 'Z')
      of[b] = TokenTrie::kCapital;
    else if (b >= '0' && b <= '9')
      of[b] = TokenTrie::kDigit;
    else if (b >= 0x20 && b != '"' && b != '\\')
      of[b] = next++;
  }
  return of;
}();
static_assert(kKindOf[0x7F] == TokenTrie::kKinds - 1);

constexpr size_t kLongest = 4096;  // bytes of a token; depths are 16 bits
constexpr size_t kManyIds = 1536;  // that end at a node: their bits are kept, 19 kB at 150,000 ids; fewer are set one by one sooner
constexpr int32_t kManyBelow = 1536;

/// A byte inside of a character of UTF-8, behind its first.
bool goes_on(char c) { return (static_cast<uint8_t>(c) & 0xC0) == 0x80; }

size_t characters(std::string_view bytes) {
  return static_cast<size_t>(std::count_if(bytes.begin(), bytes.end(), [](char c) { return !goes_on(c); }));
}

}  // namespace

int TokenTrie::kind_of(uint8_t first) { return kKindOf[first]; }

struct TokenTrie::Entry {
  uint64_t head = 0;
  std::string_view bytes;
  TokenId id;
};

TokenTrie::TokenTrie(const Tokenizer& tokenizer) : size_(tokenizer.size()) {
  std::array<std::vector<Entry>, 4> trees;
  trees[3].reserve(static_cast<size_t>(size_));
  constexpr size_t kAll = kLongPlain + 1;
  plain_bits_.assign(kAll + 1, std::vector<uint64_t>(words(), 0));
  plain_counts_.assign(kAll + 1, 0);
  for (int32_t id = 0; id < size_; ++id) {
    const std::string_view bytes = tokenizer.token_bytes({id});
    begin_.push_back(text_.size());
    if (bytes.empty() || bytes.size() > kLongest || tokenizer.is_special({id}) || tokenizer.is_added({id})) continue;
    text_ += bytes;
    deepest_ = std::max(deepest_, bytes.size());
    if (bytes.size() == 1) single_.set(static_cast<uint8_t>(bytes[0]));
    const size_t tree = tree_of(bytes);
    trees[tree].push_back({.head = head_of(bytes), .id = {id}});
    if (tree != 3) continue;
    const size_t all = characters(bytes), n = std::min(all, kAll);
    most_characters_ = std::max(most_characters_, static_cast<int32_t>(all));
    if (n == kAll) long_plain_.push_back({{id}, static_cast<int32_t>(all)});
    ++plain_counts_[n];
    plain_bits_[n][static_cast<size_t>(id) / 64] |= uint64_t{1} << (id % 64);
  }
  begin_.push_back(text_.size());
  for (size_t n = 1; n <= kAll; ++n) {  // those of n characters, and all shorter ones
    plain_counts_[n] += plain_counts_[n - 1];
    for (size_t w = 0; w < words(); ++w) plain_bits_[n][w] |= plain_bits_[n - 1][w];
  }
  const auto less = [](const Entry& a, const Entry& b) {
    return a.head != b.head ? a.head < b.head : std::tie(a.bytes, a.id) < std::tie(b.bytes, b.id);
  };
  for (auto& tree : trees) {
    for (Entry& e : tree)
      e.bytes = this->bytes(e.id);  // one text behind another: what follows looks at them in the order of their bytes
    std::sort(tree.begin(), tree.end(), less);
  }
  for (size_t i = 0; i < others_.size(); ++i) build(trees[i], others_[i]);
  build(trees[3], plain_);
  build_kinds(trees[3]);
}

/// A tree by insertion, whose nodes are then put in depth-first order with their ids behind each other.
void TokenTrie::build_kinds(std::span<const Entry> plain) {
  struct Growing {
    uint8_t kind = 0;
    int32_t child = -1, sibling = -1, last = -1, count = 0;  // `last`: of the ids that end here, by their place in `plain`
  };
  std::vector<Growing> tree(1);
  std::vector<int32_t> before(plain.size(), -1);  // the id that ended at the same node before
  const auto below = [&tree](int32_t at, uint8_t kind) {
    int32_t child = tree[static_cast<size_t>(at)].child;
    while (child >= 0 && tree[static_cast<size_t>(child)].kind != kind) child = tree[static_cast<size_t>(child)].sibling;
    if (child >= 0) return child;
    tree.push_back({.kind = kind, .sibling = tree[static_cast<size_t>(at)].child});
    return tree[static_cast<size_t>(at)].child = static_cast<int32_t>(tree.size()) - 1;
  };
  std::vector<int32_t> way{0};  // of the last word: the nodes behind each of its characters
  std::string_view last;
  for (size_t i = 0; i < plain.size(); ++i) {
    const std::string_view bytes = plain[i].bytes;
    size_t same = static_cast<size_t>(std::mismatch(last.begin(), last.end(), bytes.begin(), bytes.end()).first - last.begin());
    while (same > 0 && same < bytes.size() && goes_on(bytes[same])) --same;  // whole characters alone
    way.resize(characters(bytes.substr(0, same)) + 1);
    for (const char c : bytes.substr(same))
      if (!goes_on(c)) way.push_back(below(way.back(), kKindOf[static_cast<uint8_t>(c)]));
    last = bytes;
    const int32_t at = way.back();
    Growing& g = tree[static_cast<size_t>(at)];
    before[i] = std::exchange(g.last, static_cast<int32_t>(i));
    ++g.count;
  }
  std::vector<std::pair<int32_t, int32_t>> open;  // the way down: nodes of both trees
  for (int32_t at = tree[0].child; at >= 0;) {
    const Growing& g = tree[static_cast<size_t>(at)];
    KindNode n{.kind = g.kind, .depth = static_cast<uint16_t>(open.size() + 1)};
    n.first = static_cast<int32_t>(kind_ids_.size());
    n.count = g.count;
    for (int32_t i = g.last; i >= 0; i = before[static_cast<size_t>(i)]) kind_ids_.push_back(plain[static_cast<size_t>(i)].id);
    if (static_cast<size_t>(n.count) >= kManyIds) n.bits = keep_bits(ids(n));
    open.emplace_back(at, static_cast<int32_t>(kinds_.size()));
    kinds_.push_back(n);
    at = g.child;
    while (at < 0 && !open.empty()) {
      KindNode& done = kinds_[static_cast<size_t>(open.back().second)];
      at = tree[static_cast<size_t>(open.back().first)].sibling;
      open.pop_back();
      close_kind(done, open.empty() ? nullptr : &kinds_[static_cast<size_t>(open.back().second)]);
    }
  }
}

/// All that lies below the node is there.
void TokenTrie::close_kind(KindNode& n, KindNode* above) {
  n.skip = static_cast<int32_t>(kinds_.size());
  n.all = static_cast<int32_t>(kind_ids_.size()) - n.first;
  if (n.all >= kManyBelow && n.all >= 2 * n.count) n.all_bits = keep_bits(ids_below(n));
  if (!above) return;
  above->kinds |= n.kinds | uint64_t{1} << n.kind;
  above->height = std::max(above->height, static_cast<uint8_t>(std::min<int>(n.height + 1, kHigh)));
}

int32_t TokenTrie::keep_bits(std::span<const TokenId> ids) {
  auto& bits = kind_bits_.emplace_back(words(), 0);
  for (const TokenId id : ids) bits[static_cast<size_t>(id.value) / 64] |= uint64_t{1} << (id.value % 64);
  return static_cast<int32_t>(kind_bits_.size()) - 1;
}

/// Entries in order of bytes are the tree's nodes in depth-first order.
void TokenTrie::build(std::span<const Entry> sorted, std::vector<Node>& nodes) {
  struct Open {
    int32_t node;
    bool inside;  // of a character
  };
  std::vector<Open> open;  // the way to the last entry
  std::string_view last;
  const auto close = [&](size_t depth) {
    while (open.size() > depth) {
      const Open at = open.back();
      Node& n = nodes[static_cast<size_t>(at.node)];
      n.skip = static_cast<int32_t>(nodes.size());
      open.pop_back();
      if (open.empty()) continue;
      Node& above = nodes[static_cast<size_t>(open.back().node)];
      above.height = std::max(above.height, static_cast<uint8_t>(std::min<int>(n.height + (at.inside ? 0 : 1), kHigh)));
    }
  };
  for (const Entry& e : sorted) {
    const size_t common = static_cast<size_t>(
        std::mismatch(last.begin(), last.begin() + static_cast<ptrdiff_t>(std::min(last.size(), e.bytes.size())), e.bytes.begin())
            .first -
        last.begin());
    close(common);
    for (size_t d = common; d < e.bytes.size(); ++d) {
      open.push_back({static_cast<int32_t>(nodes.size()), d + 1 < e.bytes.size() && goes_on(e.bytes[d + 1])});
      nodes.push_back({.byte = static_cast<uint8_t>(e.bytes[d]),
                       .depth = static_cast<uint16_t>(d + 1),
                       .first = static_cast<int32_t>(ids_.size())});
    }
    ++nodes[static_cast<size_t>(open.back().node)].count;
    ids_.push_back(e.id);
    last = e.bytes;
  }
  close(0);
}

}  // namespace slip
