// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/pass_builder.h"

#include <algorithm>

namespace slip {

void PassBuilder::reserve(size_t rows) {
  rows_.reserve(rows);
  spans_.reserve(rows);
}

void PassBuilder::clear() {
  rows_.clear();
  spans_.clear();
  comparisons_.clear();
  taps_ = adapter_ = false;
}

PassBuilder::Sees PassBuilder::add_spans(std::span<const SlotSpan> context, SlotSpan own) {
  Sees sees{static_cast<uint32_t>(spans_.size()), 0};
  const auto append = [&](SlotSpan s) {
    if (s.begin >= s.end) return;
    if (sees.count > 0 && spans_.back().end == s.begin) {
      spans_.back().end = s.end;
      return;
    }
    spans_.push_back(s);
    ++sees.count;
  };
  for (const SlotSpan& s : context) append(s);
  append(own);
  return sees;
}

size_t PassBuilder::add_row(TokenId token, int32_t position, int32_t slot, Sees sees, Want want) {
  return add_row(RowInput(token), Position::text(position), slot, sees, want);
}

size_t PassBuilder::add_row(RowInput input, Position position, int32_t slot, Sees sees, Want want) {
  rows_.push_back({input, position, slot, sees.first, sees.count, want});
  return rows_.size() - 1;
}

void PassBuilder::want_too(size_t row, Want want, std::optional<int32_t> allowed) {
  Row& r = rows_[row];
  if (r.want == Want::kNothing) {
    r.want = want;
    r.allowed = allowed;
  } else if (r.want != want || r.allowed != allowed) {  // two questions of one row: its logits answer both
    r.want = std::max({r.want, want, Want::kLikely});
    r.allowed.reset();
  }
}

void PassBuilder::compare(const Comparison& comparison) {
  rows_[comparison.row].want = Want::kLogits;
  rows_[comparison.row].allowed.reset();
  comparisons_.push_back(comparison);
}

}  // namespace slip
