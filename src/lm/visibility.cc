// SPDX-License-Identifier: Apache-2.0
// Span rules of the masks; contracts in visibility.h.
#include "lm/visibility.h"

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

}  // namespace slip
