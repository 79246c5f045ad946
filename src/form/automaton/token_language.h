// SPDX-License-Identifier: Apache-2.0
// A language over a vocabulary: which tokens lead on from the states of its automaton, and what is found out about these states once,
// however many fields have the language. What a state allows is found by walking the vocabulary as a tree [Willard, Louf 2307.09702; as
// XGrammar and llguidance do it], when it is first asked for, and kept.
#pragma once
#include <memory>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "form/automaton/byte_dfa.h"
#include "form/automaton/kind_steps.h"
#include "text/token_trie.h"

namespace slip {

/// Ids that may come next: a list, or where they are many bits by id.
struct TokenMask {
  std::vector<uint64_t> bits;
  std::vector<TokenId> listed;  // ascending; empty where there are bits
  int32_t count = 0;
  bool kept = true;  // as long as the automaton
  bool contains(TokenId id) const;
  void take(std::span<const uint64_t> from, int32_t set);  // so many of the bits are
  /// Another with some ids more, those below `vocab` alone.
  void take(const TokenMask& from, std::span<const TokenId> more, int32_t vocab);
};

/// Masks by what they are asked for, up to a number of bytes; those that find no room are made anew each time. For several threads.
class KeptMasks {
 public:
  /// `make` fills a mask.
  template <typename Make>
  const TokenMask& get(uint64_t key, const Make& make);
  size_t size() const;

 private:
  const TokenMask* find(uint64_t key, bool& room) const;
  const TokenMask& keep(uint64_t key, std::unique_ptr<TokenMask> made);
  /// One of this thread's, in turn: valid until a few more are asked for.
  static TokenMask& passing();
  mutable std::shared_mutex mutex_;
  std::unordered_map<uint64_t, std::unique_ptr<TokenMask>> masks_;
  size_t bytes_ = 0;
};

template <typename Make>
const TokenMask& KeptMasks::get(uint64_t key, const Make& make) {
  bool room = true;
  if (const TokenMask* known = find(key, room)) return *known;
  if (!room) {
    TokenMask& m = passing();
    make(m);
    m.kept = false;
    return m;
  }
  auto made = std::make_unique<TokenMask>();
  make(*made);
  return keep(key, std::move(made));
}

/// Const members may be called from several threads at once.
class TokenLanguage {
 public:
  TokenLanguage(ByteDfa dfa, std::shared_ptr<const TokenTrie> trie, int32_t vocab);
  TokenLanguage(const TokenLanguage&) = delete;
  TokenLanguage& operator=(const TokenLanguage&) = delete;
  ~TokenLanguage() = default;

  const ByteDfa& dfa() const { return dfa_; }
  const TokenTrie& trie() const { return *trie_; }
  int32_t vocab() const { return vocab_; }
  /// Most tokens that the nearest end takes; ByteDfa::kFar where the vocabulary cannot spell one.
  int32_t far(int32_t q) const { return far_[static_cast<size_t>(q)]; }
  /// The farthest of the states that q leads to: having more tokens left makes no difference.
  int32_t farthest(int32_t q) const { return farthest_[static_cast<size_t>(q)]; }
  /// Tokens that lead from q on to a state from which `left` tokens reach an end. Where `kept`, valid as long as this.
  const TokenMask& mask(int32_t q, int32_t left) const;
  size_t masks() const { return kept_.size(); }

 private:
  struct Run {
    int32_t characters = 0;  // any plain text of so many, and fewer, leads on
    bool all = false;        // and of any number
    bool no_longer = false;  // and none of more
  };
  struct Walk;
  void find_free();
  Run run_from(int32_t q, int32_t left) const;
  bool by_length(Walk& w) const;
  void walk_plain(Walk& w) const;
  void walk_kinds(Walk& w) const;
  void walk_bytes(Walk& w) const;
  void walk(std::span<const TokenTrie::Node> nodes, Walk& w) const;
  template <class At>
  void descend(std::span<const TokenTrie::Node> nodes, Walk& w, const At& at) const;
  /// Any plain text of so many characters leads on from s.
  bool free(int32_t s, int32_t left, int height) const {
    return free_[static_cast<size_t>(s)] >= height && left >= farthest_[static_cast<size_t>(s)];
  }

  ByteDfa dfa_;
  std::shared_ptr<const TokenTrie> trie_;
  int32_t vocab_ = 0;
  std::vector<int32_t> far_, farthest_;
  std::vector<uint8_t> free_;  // per state: as many plain characters lead on, whichever; kHigh: any number
  KindSteps steps_;
  bool controls_ = false, quotes_ = false, beyond_ = false;  // such bytes stand somewhere in the language
  mutable KeptMasks kept_;
};

}  // namespace slip
