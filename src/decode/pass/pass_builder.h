// SPDX-License-Identifier: Apache-2.0
// The pass that is being laid out: its rows, what each of them sees, and what it must deliver. When it has run, it stays as it is until
// the next one begins, so that outputs can be read by its rows.
#pragma once
#include <optional>
#include <span>
#include <vector>

#include "lm/lm.h"

namespace slip {

class PassBuilder {
 public:
  void reserve(size_t rows);
  void clear();

  /// Spans for rows that follow; joined where they touch. `own` may be empty.
  struct Sees {
    uint32_t first = 0, count = 0;
  };
  Sees add_spans(std::span<const SlotSpan> context, SlotSpan own);
  /// Their index among the pass's rows is returned.
  size_t add_row(TokenId token, int32_t position, int32_t slot, Sees sees, Want want);
  size_t add_row(RowInput input, Position position, int32_t slot, Sees sees, Want want);
  size_t rows() const { return rows_.size(); }
  const Row& row(size_t i) const { return rows_[i]; }

  void want(size_t row, Want want) { rows_[row].want = want; }
  /// A row shall deliver this beside what it is asked already; kArgmax: among a list of ids that the pass brings (Row::allowed).
  void want_too(size_t row, Want want, std::optional<int32_t> allowed);
  /// DecodeOptions::log_forced: what the row says is next, beside the token that the form forces at a position.
  struct Comparison {
    size_t row;
    int32_t position;
    TokenId forced;
  };
  void compare(const Comparison& comparison);
  std::span<const Comparison> comparisons() const { return comparisons_; }
  void want_taps() { taps_ = true; }
  void use_adapter() { adapter_ = true; }

  Pass pass(const FeatureView& features, std::span<const std::span<const TokenId>> allowed) const {
    return {rows_, spans_, features, adapter_, taps_, allowed};
  }

 private:
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  std::vector<Comparison> comparisons_;
  bool taps_ = false, adapter_ = false;
};

}  // namespace slip
