// SPDX-License-Identifier: Apache-2.0
// Where every plain text leads on (the inside of most strings) the tokens of plain text are copied, not walked [llguidance's slices], and
// only the few thousand others are looked at. Elsewhere plain tokens are walked by the kinds of their characters, 10,000 nodes in place of
// Qwen2.5's 324,000, and byte by byte only where the automaton tells characters of a kind apart. In both trees a branch from whose state
// any text of its height leads on is taken as a whole. Tests: TokenAutomaton.*
#include "form/automaton/token_language.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>

namespace slip {
namespace {

constexpr size_t kMostKept = size_t{16} << 20;  // bytes of masks; more are made anew when asked for
constexpr size_t kMostApart = 256;     // tokens that are tried one by one; where there are more the tree of bytes is walked
constexpr int32_t kMostListed = 2048;  // 8 kB as a list, where 150,000 ids take 19 as bits
constexpr int32_t kFewBelow = 16;      // ids: so many are walked before it is asked whether all are allowed

/// std::popcount without an instruction for it is a call per word here; this is arithmetic on many at once.
constexpr int32_t ones(uint64_t x) {
  x -= x >> 1 & 0x5555555555555555U;
  x = (x & 0x3333333333333333U) + (x >> 2 & 0x3333333333333333U);
  x = (x + (x >> 4)) & 0x0F0F0F0F0F0F0F0FU;
  x += x >> 8;
  x += x >> 16;
  return static_cast<int32_t>((x + (x >> 32)) & 0x7F);
}

}  // namespace

/// One mask on its way. Every token lies in one tree alone and is met once, so that counting needs no look at the bits.
struct TokenLanguage::Walk {
  int32_t q = 0, left = 0, count = 0;
  std::vector<uint64_t>& bits;
  std::vector<int32_t>& state;  // by depth
  void set(TokenId id) {
    bits[static_cast<size_t>(id.value) / 64] |= uint64_t{1} << (id.value % 64);
    ++count;
  }
  void set(std::span<const TokenId> ids) {
    for (const TokenId id : ids) bits[static_cast<size_t>(id.value) / 64] |= uint64_t{1} << (id.value % 64);
    count += static_cast<int32_t>(ids.size());
  }
  void clear(std::span<const TokenId> ids) {
    for (const TokenId id : ids) bits[static_cast<size_t>(id.value) / 64] &= ~(uint64_t{1} << (id.value % 64));
    count -= static_cast<int32_t>(ids.size());
  }
  void add(std::span<const uint64_t> many, int32_t n) {
    for (size_t w = 0; w < many.size(); ++w) bits[w] |= many[w];
    count += n;
  }
};

bool TokenMask::contains(TokenId id) const {
  if (bits.empty()) return std::binary_search(listed.begin(), listed.end(), id);
  return id.value >= 0 && static_cast<size_t>(id.value) / 64 < bits.size() &&
         (bits[static_cast<size_t>(id.value) / 64] >> (id.value % 64) & 1) != 0;
}

void TokenMask::take(std::span<const uint64_t> from, int32_t set) {
  count = set;
  listed.clear();
  bits.clear();
  if (count > kMostListed) {
    bits.assign(from.begin(), from.end());
    return;
  }
  listed.reserve(static_cast<size_t>(count));
  for (size_t w = 0; w < from.size(); ++w)
    for (uint64_t x = from[w]; x != 0; x &= x - 1) listed.push_back({static_cast<int32_t>(w) * 64 + std::countr_zero(x)});
}

void TokenMask::take(const TokenMask& from, std::span<const TokenId> more, int32_t vocab) {
  bits = from.bits;
  listed = from.listed;
  count = from.count;
  for (const TokenId id : more) {
    if (id.value < 0 || id.value >= vocab || contains(id)) continue;
    ++count;
    if (bits.empty())
      listed.insert(std::lower_bound(listed.begin(), listed.end(), id), id);
    else
      bits[static_cast<size_t>(id.value) / 64] |= uint64_t{1} << (id.value % 64);
  }
}

const TokenMask* KeptMasks::find(uint64_t key, bool& room) const {
  const std::shared_lock lock(mutex_);
  room = bytes_ < kMostKept;
  const auto at = masks_.find(key);
  return at == masks_.end() ? nullptr : at->second.get();
}

const TokenMask& KeptMasks::keep(uint64_t key, std::unique_ptr<TokenMask> made) {
  const std::unique_lock lock(mutex_);
  const auto [at, added] = masks_.try_emplace(key, std::move(made));
  if (added) bytes_ += at->second->bits.size() * 8 + at->second->listed.size() * 4 + 64;
  return *at->second;
}

TokenMask& KeptMasks::passing() {
  thread_local std::array<TokenMask, 8> others;
  thread_local size_t turn = 0;
  return others[turn++ % others.size()];
}

size_t KeptMasks::size() const {
  const std::shared_lock lock(mutex_);
  return masks_.size();
}

TokenLanguage::TokenLanguage(ByteDfa dfa, std::shared_ptr<const TokenTrie> trie, int32_t vocab)
    : dfa_(std::move(dfa)), trie_(std::move(trie)), vocab_(vocab), far_(dfa_.distances(trie_->single_bytes())), steps_(dfa_) {
  for (int b = 0; b < 256; ++b) {
    if (!dfa_.anywhere(static_cast<uint8_t>(b))) continue;
    controls_ = controls_ || b < 0x20;
    quotes_ = quotes_ || b == '"' || b == '\\';
    beyond_ = beyond_ || b >= 0x80;
  }
  std::vector<int32_t> known = far_;
  for (int32_t& f : known)
    if (f >= ByteDfa::kFar) f = 0;
  farthest_ = dfa_.largest_ahead(known);
  find_free();
}

/// Backwards from the states where some plain character does not lead on; characters beyond ASCII that lead to several states count as that.
void TokenLanguage::find_free() {
  const size_t n = dfa_.size();
  free_.assign(n, TokenTrie::kHigh);
  std::vector<std::pair<int32_t, int32_t>> steps;  // to, from
  std::vector<int32_t> wave, to;
  for (size_t s = 0; s < n; ++s) {
    const auto q = static_cast<int32_t>(s);
    to.clear();
    bool good = true;
    for (size_t i = 0; good && i < steps_.ascii().size(); ++i) {
      const int32_t t = dfa_.next(q, steps_.ascii()[i]);
      good = t >= 0 && far_[static_cast<size_t>(t)] < ByteDfa::kFar;
      if (to.empty() || to.back() != t) to.push_back(t);
    }
    if (good) to.push_back(steps_.to(q, TokenTrie::kBeyond));
    good = good && to.back() >= 0 && far_[static_cast<size_t>(to.back())] < ByteDfa::kFar;
    if (!good) {
      free_[s] = 0;
      wave.push_back(q);
      continue;
    }
    for (const int32_t t : to) steps.emplace_back(t, q);
  }
  std::vector<int32_t> first(n + 1, 0), from(steps.size());
  for (const auto& [t, s] : steps) ++first[static_cast<size_t>(t)];
  for (size_t t = 1; t <= n; ++t) first[t] += first[t - 1];
  for (const auto& [t, s] : steps) from[static_cast<size_t>(--first[static_cast<size_t>(t)])] = s;
  for (size_t i = 0; i < wave.size(); ++i) {
    const auto t = static_cast<size_t>(wave[i]);
    if (free_[t] + 1 >= TokenTrie::kHigh) break;  // the rest is farther than any token is long, or than we can say
    for (int32_t k = first[t]; k < first[t + 1]; ++k) {
      const int32_t s = from[static_cast<size_t>(k)];
      if (free_[static_cast<size_t>(s)] != TokenTrie::kHigh) continue;
      free_[static_cast<size_t>(s)] = static_cast<uint8_t>(free_[t] + 1);
      wave.push_back(s);
    }
  }
}

const TokenMask& TokenLanguage::mask(int32_t q, int32_t left) const {
  left = std::min(left, farthest(q));
  return kept_.get(static_cast<uint64_t>(q) << 32 | static_cast<uint32_t>(left + 1), [&](TokenMask& mask) {
    thread_local std::vector<uint64_t> bits;
    thread_local std::vector<int32_t> state;
    bits.assign(trie_->words(), 0);
    state.resize(trie_->deepest() + 1);
    Walk w{.q = q, .left = left, .bits = bits, .state = state};
    if (left >= 0) {
      walk_plain(w);
      if (controls_) walk(trie_->controls(), w);
      if (quotes_) walk(trie_->quotes(), w);
      if (beyond_) walk(trie_->pieces(), w);
    }
    if (trie_->size() > vocab_) {  // rows that the head does not have
      w.count = 0;
      for (size_t i = 0; i < bits.size(); ++i) {
        if (const int64_t first = static_cast<int64_t>(i) * 64; first + 64 > vocab_)
          bits[i] &= first >= vocab_ ? 0 : (uint64_t{1} << (vocab_ % 64)) - 1;
        w.count += ones(bits[i]);
      }
    }
    mask.take(bits, w.count);
  });
}

void TokenLanguage::walk_plain(Walk& w) const {
  if (by_length(w)) return;
  Run run;
  if (w.left >= farthest(w.q)) {
    run.characters = free_[static_cast<size_t>(w.q)];
    run.all = run.characters >= std::min<int32_t>(trie_->most_characters(), TokenTrie::kHigh);
  } else {
    run = run_from(w.q, w.left);
  }
  if (run.all) return w.add(trie_->all_plain_bits(), trie_->all_plain_count());
  const int32_t n = std::min<int32_t>(run.characters, TokenTrie::kLongPlain);
  if (!run.no_longer && n < TokenTrie::kLongPlain) return walk_kinds(w);
  w.add(trie_->plain_bits(n), trie_->plain_count(n));
  if (run.no_longer) return;
  for (const TokenTrie::Long& l : trie_->long_plain())
    if (const int32_t to = dfa_.after(w.q, trie_->bytes(l.id)); to >= 0 && far(to) <= w.left) w.set(l.id);
}

/// Where all plain characters lead to the same state, and from there again, a token's number of characters says all.
bool TokenLanguage::by_length(Walk& w) const {
  thread_local std::vector<uint8_t> good;  // by number of characters
  const int32_t most = trie_->most_characters();
  good.assign(static_cast<size_t>(std::max(most, TokenTrie::kLongPlain)) + 1, 0);
  for (int32_t n = 1, s = w.q; n <= most; ++n) {
    const int32_t to = steps_.any(s);
    if (to == KindSteps::kMixed) return false;
    if (to < 0) break;
    good[static_cast<size_t>(n)] = far(to) <= w.left;
    if (to == s) {
      std::fill(good.begin() + n, good.end(), good[static_cast<size_t>(n)]);
      break;
    }
    s = to;
  }
  if (std::all_of(good.begin() + 1, good.end(), [](uint8_t g) { return g != 0; })) {
    w.add(trie_->all_plain_bits(), trie_->all_plain_count());
    return true;
  }
  for (int32_t first = 1, end = 1; first <= TokenTrie::kLongPlain; first = end) {
    const uint8_t same = good[static_cast<size_t>(first)];
    for (end = first; end <= TokenTrie::kLongPlain && good[static_cast<size_t>(end)] == same; ++end) {
    }
    if (same == 0) continue;
    const auto& upto = trie_->plain_bits(end - 1);
    const auto& below = trie_->plain_bits(first - 1);
    for (size_t i = 0; i < w.bits.size(); ++i) w.bits[i] |= upto[i] & ~below[i];
    w.count += trie_->plain_count(end - 1) - trie_->plain_count(first - 1);
  }
  for (const TokenTrie::Long& l : trie_->long_plain())
    if (good[static_cast<size_t>(l.characters)] != 0) w.set(l.id);
  return true;
}

/// For states whose ends are farther than what is left, so that `free_` does not hold.
TokenLanguage::Run TokenLanguage::run_from(int32_t q, int32_t left) const {
  constexpr size_t kMostStates = 16;  // of a set; larger ones are walked
  Run run;
  std::vector<int32_t> at{q}, seen;
  bool looped = false;
  const auto known = [&seen](int32_t s) { return std::find(seen.begin(), seen.end(), s) != seen.end(); };
  while (run.characters < TokenTrie::kLongPlain && at.size() <= kMostStates) {
    std::vector<int32_t> to;
    bool every = true, some = false, news = false;  // looped: a state came again, whose texts go on beyond this step
    for (const int32_t s : at) {
      if (known(s)) continue;
      news = true;
      seen.push_back(s);
      for (int kind = 0; kind < TokenTrie::kKinds; ++kind) {
        const int32_t t = steps_.to(s, kind);
        every = every && t >= 0 && far(t) <= left;
        some = some || t != -1;
        if (t >= 0 && std::find(to.begin(), to.end(), t) == to.end()) to.push_back(t);
      }
    }
    if (!news) return run.all = true, run;
    if (!every) {
      run.no_longer = !some && !looped;
      return run;
    }
    ++run.characters;
    // States seen before have shown where they lead; those not seen yet are the next step's.
    looped = std::erase_if(to, known) > 0 || looped;
    if (to.empty()) return run.all = true, run;
    at = std::move(to);
  }
  return run;
}

void TokenLanguage::walk_kinds(Walk& w) const {
  struct Apart {
    const TokenTrie::KindNode* node;
    int32_t state;  // before the node's character
  };
  thread_local std::vector<Apart> apart;  // branches in which characters of a kind differ
  const auto nodes = trie_->kinds();
  w.state[0] = w.q;
  apart.clear();
  size_t of_these = 0;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::KindNode& n = nodes[i];
    const int32_t before = w.state[n.depth - 1U], to = steps_.to(before, n.kind);
    if (to < 0) {
      if (to == KindSteps::kMixed) {
        apart.push_back({&n, before});
        of_these += static_cast<size_t>(n.all);
      }
      i = static_cast<size_t>(n.skip);
      continue;
    }
    w.state[n.depth] = to;
    const bool here = far(to) <= w.left;
    if (here && n.all >= kFewBelow && (free(to, w.left, n.height) || (n.kinds & ~steps_.loops(to)) == 0)) {
      if (n.all_bits >= 0)
        w.add(trie_->kind_bits(n.all_bits), n.all);
      else
        w.set(trie_->ids_below(n));
      i = static_cast<size_t>(n.skip);
      continue;
    }
    ++i;
    if (n.count == 0 || !here) continue;
    if (n.bits >= 0)
      w.add(trie_->kind_bits(n.bits), n.count);
    else
      w.set(trie_->ids(n));
  }
  if (of_these > kMostApart) {
    std::fill(w.bits.begin(), w.bits.end(), 0);
    w.count = 0;
    return walk_bytes(w);
  }
  for (const Apart& a : apart)
    for (const TokenId id : trie_->ids_below(*a.node)) {
      std::string_view bytes = trie_->bytes(id);  // the characters before lead to a.state
      for (int skip = a.node->depth; !bytes.empty() && (skip -= (static_cast<uint8_t>(bytes[0]) & 0xC0) != 0x80) > 0;)
        bytes.remove_prefix(1);
      if (const int32_t to = dfa_.after(a.state, bytes); to >= 0 && far(to) <= w.left) w.set(id);
    }
}

/// Node by node, as far as the automaton goes along; `at(node, state)`: whether to go on below it.
template <class At>
void TokenLanguage::descend(std::span<const TokenTrie::Node> nodes, Walk& w, const At& at) const {
  w.state[0] = w.q;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& n = nodes[i];
    const int32_t to = dfa_.next(w.state[n.depth - 1U], n.byte);
    if (to >= 0) w.state[n.depth] = to;
    i = to >= 0 && at(n, to) ? i + 1 : static_cast<size_t>(n.skip);
  }
}

/// Branches that are all allowed are noted, as others that are not; the fewer ids are then set, or cleared from among all.
void TokenLanguage::walk_bytes(Walk& w) const {
  thread_local std::vector<std::span<const TokenId>> good;
  good.clear();
  const auto nodes = trie_->plain();
  const auto note = [&](std::span<const TokenId> ids) {
    if (!good.empty() && good.back().data() + good.back().size() == ids.data())
      good.back() = {good.back().data(), good.back().size() + ids.size()};
    else
      good.push_back(ids);
  };
  size_t allowed = 0;
  descend(nodes, w, [&](const TokenTrie::Node& n, int32_t to) {
    const bool whole = far(to) <= w.left && free(to, w.left, n.height);
    const auto ids = whole ? trie_->ids_below(nodes, n) : far(to) <= w.left ? trie_->ids(n) : std::span<const TokenId>();
    if (!ids.empty()) note(ids);
    allowed += ids.size();
    return !whole;
  });
  if (allowed * 2 < static_cast<size_t>(trie_->all_plain_count())) {
    for (const auto& ids : good) w.set(ids);
    return;
  }
  w.add(trie_->all_plain_bits(), trie_->all_plain_count());
  const TokenId* at = trie_->all_plain_ids().data();
  for (const auto& ids : good) {
    w.clear({at, ids.data()});
    at = ids.data() + ids.size();
  }
  w.clear({at, trie_->all_plain_ids().data() + trie_->all_plain_ids().size()});
}

void TokenLanguage::walk(std::span<const TokenTrie::Node> nodes, Walk& w) const {
  descend(nodes, w, [&](const TokenTrie::Node& n, int32_t to) {
    if (n.count > 0 && far(to) <= w.left) w.set(trie_->ids(n));
    return true;
  });
}

}  // namespace slip
