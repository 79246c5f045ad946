// SPDX-License-Identifier: Apache-2.0
// Which rows of a pass want what, and what its output is before anything is computed: the same for every Lm with an arena.
#pragma once
#include <cstdint>
#include <vector>

#include "lm/lm.h"

namespace slip {

/// Indices of the rows that want something, each list ascending. Kept from pass to pass: allocates only while passes grow.
struct RowsByWant {
  std::vector<int32_t> wanted_N, argmax_N, logits_N;  // the first: all of them
  std::vector<int32_t> likely_N;  // of an Lm that keeps its logits elsewhere: rows that want kLikely; else they are in logits_N
  void sort(const Pass& pass, bool keeps = false);
};

/// E: numbers of a row of PassOutput::taps_NE.
inline int64_t taps_width(const LmInfo& info) { return int64_t{info.hidden_size} * static_cast<int64_t>(info.tap_layers.size()); }

/// Nothing of the pass before is left in `out`, and what has a line for every row has its size; taps' numbers are undefined.
void begin_output(const Pass& pass, const LmInfo& info, PassOutput& out);
/// A line of `out.vocab` numbers in `out.logits_NV` for every row that wants logits, all of them `fill`; other rows have none.
void lay_out_logits(const Pass& pass, float fill, PassOutput& out);

}  // namespace slip
