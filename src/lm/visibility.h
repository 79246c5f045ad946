// SPDX-License-Identifier: Apache-2.0
// Who sees whom in a form, and the masks of chains as the trainer and rows files (models/rows_file.h) write them. The engine lists spans of
// slots itself where it lays out rows (PassBuilder::add_spans); trainer_engine_test holds its rows against the trainer's. A graph's rule is
// one for both: graph_visibility.h.
// Everything is a list of half-open ranges over row indices, in the order in which the keys are added: what is finished
// first, what is being drafted last. (Order only moves rounding; a dense mask may ignore it.)
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.h"

namespace slip {

/// Who sees whom in a form. Chain: every value sees everything before it. Graph: a value sees the fixed tokens before it and the fields
/// that its own depends on (graph_visibility.h). A model is decoded with the visibility that it was trained for.
enum class Visibility : uint8_t { kChain, kGraph };
inline std::string_view words(Visibility v) { return v == Visibility::kChain ? "chain" : "graph"; }

/// Half-open range of row indices; never empty in the lists that this header returns.
struct IndexRange {
  int32_t begin = 0, end = 0;
  bool operator==(const IndexRange&) const = default;
};
using IndexRanges = std::vector<IndexRange>;

/// A causal row sees all rows up to itself: {[0, row + 1)}.
IndexRanges causal_row(int32_t row);

/// Turn number of each token: goes up by one whenever `block` changes along the sequence; the first turn is 0.
std::vector<int32_t> turns_of_blocks(std::span<const int32_t> block_of_token);

/// Training's dual stream, rows [noisy 0 .. n-1 | clean 0 .. n-1], clean i is row n + i. Noisy row i: clean rows of earlier
/// turns, then the noisy rows of its own turn, both ways. Clean row i: clean rows 0 .. i. Clean never sees noisy.
/// `turn_of_token` need not be contiguous; "earlier" means a smaller turn.
std::vector<IndexRanges> dual_stream(std::span<const int32_t> turn_of_token);

/// Appends [begin, end) to a list, joining it with the last range when they touch; an empty range is dropped.
void append_range(IndexRanges& ranges, int32_t begin, int32_t end);

}  // namespace slip
