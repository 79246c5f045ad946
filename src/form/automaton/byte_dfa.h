// SPDX-License-Identifier: Apache-2.0
// Automata over bytes: what the text of a value may be. A ByteNfa is put together from fragments [Thompson 1968]; ByteDfa::of makes it
// deterministic by sets of states [Rabin, Scott 1959] and drops states from which no end is reached. Sizes are bounded while they grow,
// so that no schema costs more than a known time.
#pragma once
#include <array>
#include <bitset>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace slip {

class ByteDfa;

/// States and edges; a fragment has one entry and one exit. Markers stand for the begin and the end of a text (`^`, `$`).
class ByteNfa {
 public:
  struct Fragment {
    int32_t in = 0, out = 0;
  };
  static constexpr int kBegin = 256, kEnd = 257;

  Fragment empty();
  Fragment bytes(uint8_t first, uint8_t last);
  Fragment marker(int which);  // kBegin or kEnd
  Fragment literal(std::string_view text);
  Fragment dfa(const ByteDfa& language);
  Fragment concat(std::span<const Fragment> parts);
  Fragment either(std::span<const Fragment> parts);  // none: nothing at all
  Fragment star(Fragment f);
  Fragment optional(Fragment f);

  /// kUnsupported once there are more states than any form needs.
  Status fits() const;
  size_t size() const { return edges_.size(); }

 private:
  friend class ByteDfa;
  struct Edge {
    int16_t first, last;  // -1: for nothing
    int32_t to;
  };
  int32_t state();
  void edge(int32_t from, int first, int last, int32_t to) {
    edges_[static_cast<size_t>(from)].push_back({static_cast<int16_t>(first), static_cast<int16_t>(last), to});
  }
  std::vector<std::vector<Edge>> edges_;
};

/// State 0 is the start; -1 is the state from which nothing follows. Every state leads to an accepting one, except that an empty
/// language is one state that accepts nothing.
class ByteDfa {
 public:
  ByteDfa() = default;
  static constexpr size_t kMostStates = 1 << 15;
  /// The texts w for which begin-marker, w, end-marker lead from `f.in` to `f.out`, where `marked`; otherwise those that lead there.
  static Result<ByteDfa> of(const ByteNfa& nfa, ByteNfa::Fragment f, bool marked = false);
  static Result<ByteDfa> literal(std::string_view text);
  static Result<ByteDfa> either(std::span<const ByteDfa> languages);
  static Result<ByteDfa> concat(std::span<const ByteDfa> languages);
  static Result<ByteDfa> both(const ByteDfa& a, const ByteDfa& b);        // what both accept
  static Result<ByteDfa> first_only(const ByteDfa& a, const ByteDfa& b);  // what a accepts and b does not
  /// From a table of steps: next(state, byte) over `states` states, -1 for nothing. State 0 is the start. Bytes of one number in `alike` lead
  /// to the same states; it is asked for one of them.
  static ByteDfa table(size_t states, const std::array<uint8_t, 256>& alike, const std::function<int32_t(int32_t, int)>& next,
                       const std::function<bool(int32_t)>& accepts);
  /// What this thread's automata have cost so far, in entries of tables and sets; 1 << 24 take about a tenth of a second.
  static int64_t work();

  size_t size() const { return accepts_.size(); }
  bool operator==(const ByteDfa&) const = default;  // the same table
  bool empty() const { return accepts_.empty() || (accepts_.size() == 1 && !accepts_[0] && ends_here(0)); }
  int32_t next(int32_t state, uint8_t byte) const { return next_[static_cast<size_t>(state) * classes_ + class_of_[byte]]; }
  bool accepts(int32_t state) const { return accepts_[static_cast<size_t>(state)] != 0; }
  /// Nothing may follow.
  bool ends_here(int32_t state) const;
  bool matches(std::string_view text) const;
  int32_t after(int32_t state, std::string_view text) const;

  /// Bytes of the longest text; nothing where there is no longest one.
  std::optional<int64_t> longest() const;
  /// Per state the fewest bytes to an accepting one, of `usable` bytes alone; kFar where there is no way.
  static constexpr int32_t kFar = 1 << 28;
  std::vector<int32_t> distances(const std::bitset<256>& usable) const;
  size_t classes() const { return classes_; }
  /// Does the byte stand in any text?
  bool anywhere(uint8_t byte) const;
  /// Bytes of one class lead to the same states from all states.
  uint8_t class_of(uint8_t byte) const { return class_of_[byte]; }
  const std::array<uint8_t, 256>& class_of_bytes() const { return class_of_; }
  /// Per state the largest of `values` among the states that it leads to, itself included.
  std::vector<int32_t> largest_ahead(std::span<const int32_t> values) const;

 private:
  static Result<ByteDfa> product(const ByteDfa& a, const ByteDfa& b, bool accept_in_b);
  /// Bytes that no edge tells apart become one class; a byte of each.
  std::vector<int> split_bytes(const ByteNfa& nfa);
  void trim();

  std::array<uint8_t, 256> class_of_{};
  size_t classes_ = 1;
  std::vector<int32_t> next_;
  std::vector<uint8_t> accepts_;
};

}  // namespace slip
