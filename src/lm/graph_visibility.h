// SPDX-License-Identifier: Apache-2.0
// Graph visibility: who sees whom when the fields of a form are decoded along their graph [FastDriveCoT; docs/design.md]. One
// source for the engine's spans and the trainer's masks, free of slots and row numbers: it speaks of form positions and fields.
//
//   scaffold row u   the fixed token at form position u, run once with the prompt: sees the prompt and scaffold rows up to itself
//   row (v, 0)       the hand-off row of field v: the fixed token before it again, at the same position
//   row (v, i)       token i - 1 of the field, at position start + i - 1
// Of a field that may be absent (Field::hand_off) the whole fixed text before it, h tokens, is its hand-off and no scaffold row: rows
// (v, 0) .. (v, h - 1), then token i in row (v, h + i), and row (v, h - 1 + i) gives its law. A field that is absent has no rows.
// A row of field v sees the prompt; then, in order of position, the scaffold rows before the field's start without the originals
// of the hand-off tokens of v and of v's ancestors, and all rows of all ancestors; then v's own rows up to itself. So it sees
// every position once. Row (v, i) gives the law of token i, END included. Positions behind a field's last token stay empty.
//
// Where the shape depends on values (Field::exits): a scaffold row sees the fixed tokens that every way to it passes. A field sees those
// that every way to it passes, and of the others before it those that its ancestors' choices lead through; fields and fixed tokens that
// they lead past are seen by nobody.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "form/form.h"

namespace slip {

class GraphVisibility {
 public:
  explicit GraphVisibility(const Form& form);

  /// A stretch of what a field's rows see before their own: scaffold rows [begin, end) by form position (fixed tokens only),
  /// or, with a field, all rows of that field, hand-off first (then begin and end are 0).
  struct Segment {
    std::optional<int32_t> field;
    int32_t begin = 0, end = 0;
    std::optional<int32_t> piece;  // scaffold that is there only if this piece is passed; none: always
    bool operator==(const Segment&) const = default;
  };
  /// A field with exits, and the piece that one of them leads to.
  struct Opening {
    int32_t field = 0, piece = 0;
  };
  /// The nearest exits from which a piece is passed; none where every answer passes it.
  std::span<const Opening> openings(int32_t piece) const { return openings_[static_cast<size_t>(piece)]; }
  std::span<const Opening> openings_of_field(int32_t field) const { return openings(piece_of_[static_cast<size_t>(field)]); }
  /// What the scaffold row at form position u sees of the scaffold: stretches of form positions, up to u itself. Empty: all before it.
  std::vector<Segment> scaffold_before(int32_t u) const;
  std::span<const Segment> context(int32_t field) const { return contexts_[static_cast<size_t>(field)]; }
  /// Fields that are reachable through parents, ascending, the field itself left out.
  std::span<const int32_t> ancestors(int32_t field) const { return ancestors_[static_cast<size_t>(field)]; }
  /// Fields that name this one as a parent, ascending.
  std::span<const int32_t> children(int32_t field) const { return children_[static_cast<size_t>(field)]; }
  /// Fields, parents before children, in the form's order where the graph leaves a choice.
  std::span<const int32_t> order() const { return order_; }
  /// Passes of the longest path of fields that take `passes[field]` each: max over fields of finish(v) = passes(v) + max finish(parents).
  int64_t longest_path(std::span<const int32_t> passes) const;
  /// The longest path from each field, itself included, to the end of the graph: the priority where passes are short of rows.
  std::vector<int64_t> remaining_path(std::span<const int32_t> passes) const;

 private:
  const Form* form_;
  std::vector<std::vector<Segment>> contexts_;
  std::vector<std::vector<int32_t>> ancestors_, children_;
  std::vector<int32_t> order_;
  void find_ways();
  std::vector<Segment> context_with_choices(int32_t field) const;
  std::vector<std::optional<int32_t>> dominator_;  // by piece: the last one that every way to it passes; none before the first
  std::vector<int32_t> piece_of_, piece_at_;       // by field; by position
  std::vector<std::vector<Opening>> openings_;
  std::vector<std::vector<int32_t>> before_;  // by piece: those that lead to it
};

}  // namespace slip
