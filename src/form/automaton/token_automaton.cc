// SPDX-License-Identifier: Apache-2.0
// Where every plain text leads on (the inside of most strings) the tokens of plain text are copied, not walked [llguidance's slices], and
// only the few thousand others are looked at. Elsewhere plain tokens are walked by the kinds of their characters, 10,000 nodes in place of
// Qwen2.5's 324,000, and one by one only where the automaton tells characters of a kind apart. Tests: TokenAutomaton.*
#include "form/automaton/token_automaton.h"

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>

namespace slip {
namespace {

constexpr size_t kMostKept = size_t{32} << 20;  // bytes of one automaton's masks; more are made anew when asked for
constexpr size_t kMostApart = 4096;    // tokens that are tried one by one; where there are more the tree of bytes is walked
constexpr int32_t kMostListed = 2048;  // 8 kB as a list, where 150,000 ids take 19 as bits

void set_bit(std::vector<uint64_t>& bits, TokenId id) {
  bits[static_cast<size_t>(id.value) / 64] |= uint64_t{1} << (id.value % 64);
}

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

bool TokenMask::contains(TokenId id) const {
  if (bits.empty()) return std::binary_search(listed.begin(), listed.end(), id);
  return id.value >= 0 && static_cast<size_t>(id.value) / 64 < bits.size() &&
         (bits[static_cast<size_t>(id.value) / 64] >> (id.value % 64) & 1) != 0;
}

Result<std::shared_ptr<const TokenAutomaton>> TokenAutomaton::make(ByteDfa language, std::shared_ptr<const TokenTrie> trie,
                                                                   int32_t vocab, std::vector<TokenId> ends,
                                                                   std::vector<TokenId> start_ends, int32_t budget) {
  std::shared_ptr<TokenAutomaton> a(new TokenAutomaton());
  a->dfa_ = std::move(language);
  a->trie_ = std::move(trie);
  a->vocab_ = vocab;
  a->ends_ = std::move(ends);
  a->start_ends_ = std::move(start_ends);
  a->budget_ = budget;
  a->width_ = budget + 1;
  a->far_ = a->dfa_.distances(a->trie_->single_bytes());
  if (a->far_[0] >= ByteDfa::kFar) return bad_input("expected a vocabulary that can spell a value, got one without its bytes");
  if (a->far_[0] > budget) return bad_input("expected a budget of at least {} tokens, got {}", a->far_[0], budget);
  constexpr int64_t kMostPlaces = int64_t{1} << 30;
  if (static_cast<int64_t>(a->dfa_.size()) * a->width_ > kMostPlaces)
    return unsupported("expected at most {} states times tokens, got {} times {}", kMostPlaces, a->dfa_.size(), budget);
  for (int b = 0; b < 256; ++b) {
    if (!a->dfa_.anywhere(static_cast<uint8_t>(b))) continue;
    a->controls_ = a->controls_ || b < 0x20;
    a->quotes_ = a->quotes_ || b == '"' || b == '\\';
    a->beyond_ = a->beyond_ || b >= 0x80;
  }
  std::vector<int32_t> known = a->far_;
  for (int32_t& f : known)
    if (f >= ByteDfa::kFar) f = 0;
  a->farthest_ = a->dfa_.largest_ahead(known);
  return std::shared_ptr<const TokenAutomaton>(std::move(a));
}

int32_t TokenAutomaton::next(int32_t state, TokenId id) const {
  const int32_t left = budget_ - used(state) - 1;
  const std::string_view bytes = trie_->bytes(id);
  if (left < 0 || bytes.empty() || id.value >= vocab_) return -1;
  const int32_t to = dfa_.after(state / width_, bytes);
  return to < 0 || far_[static_cast<size_t>(to)] > left ? -1 : to * width_ + used(state) + 1;
}

const TokenMask& TokenAutomaton::mask(int32_t state) const {
  const int32_t q = state / width_;
  const int32_t left = std::min(budget_ - used(state) - 1, farthest_[static_cast<size_t>(q)]);  // more makes no difference
  const bool start = state == 0 && !start_ends_.empty();
  const uint64_t key = static_cast<uint64_t>(q) << 32 | static_cast<uint32_t>(left + 1) | static_cast<uint64_t>(start) << 63;
  bool room = true;
  {
    const std::shared_lock lock(mutex_);
    if (const auto at = masks_.find(key); at != masks_.end()) return *at->second;
    room = kept_bytes_ < kMostKept;
  }
  if (!room) {
    thread_local std::array<TokenMask, 4> others;
    thread_local size_t turn = 0;
    TokenMask& m = others[turn++ % others.size()];
    fill(q, left, start, m);
    m.kept = false;
    return m;
  }
  auto made = std::make_unique<TokenMask>();
  fill(q, left, start, *made);
  const std::unique_lock lock(mutex_);
  const auto [at, added] = masks_.try_emplace(key, std::move(made));
  if (added) kept_bytes_ += at->second->bits.size() * 8 + at->second->listed.size() * 4 + 64;
  return *at->second;
}

size_t TokenAutomaton::masks() const {
  const std::shared_lock lock(mutex_);
  return masks_.size();
}

std::optional<TokenId> TokenAutomaton::only(int32_t state) const {
  const TokenMask& m = mask(state);
  return m.count == 1 && m.bits.empty() ? std::optional(m.listed.front()) : std::nullopt;
}

void TokenAutomaton::warm(double most_ms) const {
  const auto begin = std::chrono::steady_clock::now();
  for (int32_t q = 0; q < static_cast<int32_t>(dfa_.size()); ++q) {
    if (std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count() > most_ms) return;
    if (far_[static_cast<size_t>(q)] < ByteDfa::kFar) mask(q * width_);
  }
}

void TokenAutomaton::fill(int32_t q, int32_t left, bool start, TokenMask& mask) const {
  thread_local std::vector<uint64_t> bits;
  bits.assign(trie_->words(), 0);
  if (left >= 0) {
    const Run run = run_from(q, left);
    if (run.all) {
      bits = trie_->all_plain_bits();
    } else if (run.no_longer || run.most) {
      bits = trie_->plain_bits(run.characters);
      if (run.most) try_each(trie_->long_plain(), q, left, bits);
    } else {
      walk_kinds(q, left, bits);
    }
    if (controls_) walk(trie_->controls(), q, left, bits);
    if (quotes_) walk(trie_->quotes(), q, left, bits);
    if (beyond_) walk(trie_->pieces(), q, left, bits);
  }
  if (dfa_.accepts(q))
    for (const TokenId id : ends_) set_bit(bits, id);
  if (start)
    for (const TokenId id : start_ends_) set_bit(bits, id);
  for (size_t w = static_cast<size_t>(std::max(vocab_, 0)) / 64; w < bits.size(); ++w)  // rows that the head does not have
    bits[w] &= static_cast<int64_t>(w) * 64 >= vocab_ ? 0 : (uint64_t{1} << (vocab_ % 64)) - 1;
  mask.count = 0;
  for (const uint64_t w : bits) mask.count += ones(w);
  mask.listed.clear();
  mask.bits.clear();
  if (mask.count > kMostListed) {
    mask.bits = bits;
    return;
  }
  mask.listed.reserve(static_cast<size_t>(mask.count));
  for (size_t w = 0; w < bits.size(); ++w)
    for (uint64_t x = bits[w]; x != 0; x &= x - 1) mask.listed.push_back({static_cast<int32_t>(w) * 64 + std::countr_zero(x)});
}

TokenAutomaton::Run TokenAutomaton::run_from(int32_t q, int32_t left) const {
  constexpr size_t kMostStates = 16;  // of a set; larger ones are walked
  const KindSteps& steps = this->steps();
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
        const int32_t t = steps.to(s, kind);
        every = every && t >= 0 && far_[static_cast<size_t>(t)] <= left;
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
  run.most = run.characters == TokenTrie::kLongPlain;
  return run;
}

const KindSteps& TokenAutomaton::steps() const {
  std::call_once(steps_made_, [this] { steps_ = std::make_unique<const KindSteps>(dfa_); });
  return *steps_;
}

void TokenAutomaton::walk_kinds(int32_t q, int32_t left, std::vector<uint64_t>& bits) const {
  thread_local std::vector<int32_t> state;
  thread_local std::vector<std::span<const TokenId>> apart;  // tokens in which characters of a kind differ
  const KindSteps& steps = this->steps();
  const auto nodes = trie_->kinds();
  state.resize(trie_->deepest() + 1);
  state[0] = q;
  apart.clear();
  size_t of_these = 0;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::KindNode& n = nodes[i];
    const int32_t to = steps.to(state[n.depth - 1U], n.kind);
    if (to < 0) {
      if (to == KindSteps::kMixed) {
        apart.push_back(trie_->ids_below(n));
        of_these += apart.back().size();
        if (of_these > kMostApart) return walk(trie_->plain(), q, left, bits);
      }
      i = static_cast<size_t>(n.skip);
      continue;
    }
    state[n.depth] = to;
    ++i;
    if (n.count == 0 || far_[static_cast<size_t>(to)] > left) continue;
    if (n.bits >= 0) {
      const auto many = trie_->kind_bits(n);
      for (size_t w = 0; w < many.size(); ++w) bits[w] |= many[w];
    } else {
      for (const TokenId id : trie_->ids(n)) set_bit(bits, id);
    }
  }
  for (const auto& ids : apart) try_each(ids, q, left, bits);
}

void TokenAutomaton::try_each(std::span<const TokenId> ids, int32_t q, int32_t left, std::vector<uint64_t>& bits) const {
  for (const TokenId id : ids)
    if (const int32_t to = dfa_.after(q, trie_->bytes(id)); to >= 0 && far_[static_cast<size_t>(to)] <= left) set_bit(bits, id);
}

void TokenAutomaton::walk(std::span<const TokenTrie::Node> nodes, int32_t q, int32_t left, std::vector<uint64_t>& bits) const {
  thread_local std::vector<int32_t> state;
  state.resize(trie_->deepest() + 1);
  state[0] = q;
  for (size_t i = 0; i < nodes.size();) {
    const TokenTrie::Node& n = nodes[i];
    const int32_t to = dfa_.next(state[n.depth - 1U], n.byte);
    if (to < 0) {
      i = static_cast<size_t>(n.skip);
      continue;
    }
    state[n.depth] = to;
    if (n.count > 0 && far_[static_cast<size_t>(to)] <= left)
      for (const TokenId id : trie_->ids(n)) set_bit(bits, id);
    ++i;
  }
}

}  // namespace slip
