// SPDX-License-Identifier: Apache-2.0
// Span rules of the masks; contracts in visibility.h.
#include "lm/visibility.h"

#include "base/check.h"

namespace slip {

void append_range(IndexRanges& ranges, int32_t begin, int32_t end) {
  if (begin >= end) return;
  if (!ranges.empty() && ranges.back().end == begin) {
    ranges.back().end = end;
  } else {
    ranges.push_back({begin, end});
  }
}

IndexRanges causal_row(int32_t row) { return {{0, row + 1}}; }

IndexRanges draft_row(int32_t block_begin, int32_t block_end) {
  IndexRanges ranges;
  append_range(ranges, 0, block_begin);
  append_range(ranges, block_begin, block_end);
  return ranges;
}

std::vector<IndexRanges> block_causal(std::span<const int32_t> block_of_row) {
  const auto n = static_cast<int32_t>(block_of_row.size());
  std::vector<IndexRanges> sees(block_of_row.size());
  for (int32_t i = 0; i < n; ++i) {
    const int32_t own = block_of_row[static_cast<size_t>(i)];
    for (int32_t j = 0; j < n; ++j) {
      const int32_t other = block_of_row[static_cast<size_t>(j)];
      const bool visible = other < 0 ? j <= i : own >= 0 && other <= own;
      if (visible) append_range(sees[static_cast<size_t>(i)], j, j + 1);
    }
  }
  return sees;
}

std::vector<int32_t> turns_of_blocks(std::span<const int32_t> block_of_token) {
  std::vector<int32_t> turns(block_of_token.size(), 0);
  for (size_t i = 1; i < turns.size(); ++i) turns[i] = turns[i - 1] + (block_of_token[i] != block_of_token[i - 1]);
  return turns;
}

std::vector<IndexRanges> dual_stream(std::span<const int32_t> turn_of_token) {
  const auto n = static_cast<int32_t>(turn_of_token.size());
  std::vector<IndexRanges> sees(2 * turn_of_token.size());
  for (int32_t i = 0; i < n; ++i) {
    const int32_t turn = turn_of_token[static_cast<size_t>(i)];
    IndexRanges& noisy = sees[static_cast<size_t>(i)];
    for (int32_t j = 0; j < n; ++j)
      if (turn_of_token[static_cast<size_t>(j)] < turn) append_range(noisy, n + j, n + j + 1);
    for (int32_t j = 0; j < n; ++j)
      if (turn_of_token[static_cast<size_t>(j)] == turn) append_range(noisy, j, j + 1);
    append_range(sees[static_cast<size_t>(n + i)], n, n + i + 1);
  }
  return sees;
}

std::vector<uint8_t> dense_mask(std::span<const IndexRanges> sees, int32_t columns) {
  std::vector<uint8_t> mask(sees.size() * static_cast<size_t>(columns), 0);
  for (size_t row = 0; row < sees.size(); ++row) {
    for (const IndexRange r : sees[row]) {
      SLIP_CHECK(0 <= r.begin && r.end <= columns, "ranges name rows of this pass");
      for (int32_t c = r.begin; c < r.end; ++c) mask[row * static_cast<size_t>(columns) + static_cast<size_t>(c)] = 1;
    }
  }
  return mask;
}

}  // namespace slip
