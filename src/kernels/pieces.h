// SPDX-License-Identifier: Apache-2.0
// Inside of kernels/: how a product with packed weights is cut into pieces of (some column blocks) x (up to 64 rows). A piece's sums
// live on the stack, so that bias, scales, gates and argmax are applied to finished numbers and ragged columns need no second path.
#pragma once
#include <algorithm>

#include "kernels/isa/ops.h"
#include "kernels/kernels.h"
#include "kernels/packed_layout.h"

namespace slip {

// Workspace slots of the kernels are 59 and up.
constexpr int kSlotAttend = 59, kSlotWords = 60, kSlotScales = 61, kSlotStats = 62;

constexpr int64_t kPieceBytes = 256 << 10;  // weights per piece when rows are few: 0.25-0.5 MB hides the counter's cost
constexpr int64_t kFewStripes = 4, kFewStripesInCache = 16, kInCacheBytes = 2 << 20, kSplitRows = 16;
constexpr int64_t kCallerWork =
    150'000;  // about 2 us: handing out and meeting again takes 0.2 to 0.9 us, as cores lie to each other

/// Activations in words, packed where the type or a norm asks for it.
struct PackedInput {
  const Word* x;
  int64_t ldx, chunk;  // as in ProductArgs
  const float* scales;
};
PackedInput pack_input(const PackedMatrix& w, const PackedLayout& layout, const ProductInput& in, ThreadPool& pool,
                       Workspace& workspace);

/// Sums of one block; `next` is the block that this thread reads afterwards, or negative.
void block_sums(const PackedMatrix& w, const PackedLayout& layout, const PackedInput& x, int64_t block, int64_t next, int64_t t,
                int64_t rows, Word* sums);
/// Where their finished numbers go is left to the caller.
FinishArgs finish_args(const PackedMatrix& w, const PackedLayout& layout, const PackedInput& x, int64_t block, int64_t t,
                       int64_t rows, const Word* sums);

/// Calls piece(first_unit, last_unit, after, first_row, rows) over all units and rows, from any thread; a unit is one block or some
/// that belong together. `after`: the unit that this thread will probably begin with next, or -1; worth a prefetch.
template <class Piece>
void run_pieces(int64_t units, int64_t unit_bytes, int64_t unit_numbers, int64_t rows, ThreadPool& pool, const Piece& piece) {
  const int64_t fair = std::max<int64_t>(1, units / (4 * pool.threads()));
  const int64_t units_each = std::clamp<int64_t>(kPieceBytes / unit_bytes, 1, fair);
  const int64_t stripes = (units + units_each - 1) / units_each;
  // Where one stripe more or less is a lot (224 columns are 2 and 1.5 blocks for two threads), rows are cut as well. Weights are then
  // read more than once, which costs 5 % at 32 rows where they come from memory (docs/lab/0007).
  const int64_t few_of = units * unit_bytes <= kInCacheBytes ? kFewStripesInCache : kFewStripes;
  const int64_t turns = (stripes + pool.threads() - 1) / pool.threads();
  const bool uneven = stripes <= few_of * pool.threads() || 16 * turns * pool.threads() > 17 * stripes;
  const bool few = pool.threads() > 1 && uneven;
  const int64_t rows_each = few && rows >= 2 * kSplitRows ? kSplitRows : kGroupRows;
  const int64_t groups = (rows + rows_each - 1) / rows_each;
  const auto one = [&](int64_t i) {
    const int64_t first = i / groups * units_each, t = i % groups * rows_each, after = (i + pool.threads()) / groups * units_each;
    piece(first, std::min(first + units_each, units), after < units ? after : -1, t, std::min(rows_each, rows - t));
  };
  const int64_t pieces = stripes * groups;
  if (pool.threads() == 1 || pieces == 1 || units * unit_numbers * (4 + rows) / 4 < kCallerWork) {
    for (int64_t i = 0; i < pieces; i++) one(i);
  } else {
    pool.run(pieces, one);
  }
}

}  // namespace slip
