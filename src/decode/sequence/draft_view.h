// SPDX-License-Identifier: Apache-2.0
// What a policy on draft lengths may know of a strand and set in it: neither an id nor anything that leads to one. A policy's file sees no Strand.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "form/form.h"

namespace slip {

struct Strand;

/// What such a policy may know of a draft: how it came about, never which token it is (no anticipation).
struct DraftFacts {
  float top = 1, margin = 1;     // probability of the draft's first choice, and its lead over the second
  int32_t ahead = 0;             // drafts before it in this round
  std::optional<int32_t> field;  // its place; not the state of the field's rules, which spells what was drafted before it
  int32_t index = 0;
  int32_t rows = 0;  // of the strand, before it (DraftToken::rows)
  bool sure = false;
};

/// No bound of a window.
inline constexpr int32_t kNoEnd = std::numeric_limits<int32_t>::max();

/// A strand as such a policy sees it: where it stands, and the window that it is to have. A pointer; valid as long as the strand.
class DraftView {
 public:
  explicit DraftView(Strand& strand) : strand_(&strand) {}
  std::optional<int32_t> field() const;  // along a graph
  bool done() const;                     // no draw is left
  int32_t position() const;              // form position of what comes next; in free text the number of the token
  int32_t index() const;                 // of the next draw in its field; 0 where a fixed token comes first
  int32_t rows() const;                  // tokens that are known
  int32_t cached() const;                // of these: rows whose keys are final
  bool drafted_to_end() const;           // between drafting and the verifying pass: its drafts leave no draw
  bool missed() const;                   // a draft has last missed in the field that comes next
  /// Behind the drafts, before the verifying pass: the index of a further draw, if there is one. Along a graph this tells whether END was
  /// drafted; it sets masks of the next round alone, so that no draft is dropped for its value.
  std::optional<int32_t> next_index() const;

  /// Most drafts to propose (sure ones not counted), and the form position where the window ends.
  void set_window(int32_t drafts, int32_t end);
  /// The window is a block of the form.
  void set_block(Block block);
  /// Drafts that the verifying pass shall make for the next round.
  void set_masks(int32_t masks);

 private:
  Strand* strand_;
};

/// The strands of a round.
class DraftViews {
 public:
  explicit DraftViews(std::span<Strand* const> strands) : strands_(strands) {}
  class Iterator {
   public:
    explicit Iterator(Strand* const* at) : at_(at) {}
    DraftView operator*() const { return DraftView(**at_); }
    Iterator& operator++() {
      ++at_;
      return *this;
    }
    bool operator==(const Iterator&) const = default;

   private:
    Strand* const* at_;
  };
  Iterator begin() const { return Iterator(strands_.data()); }
  Iterator end() const { return Iterator(strands_.data() + strands_.size()); }
  size_t size() const { return strands_.size(); }
  DraftView operator[](size_t i) const { return DraftView(*strands_[i]); }

 private:
  std::span<Strand* const> strands_;
};

}  // namespace slip
