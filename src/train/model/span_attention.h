// SPDX-License-Identifier: Apache-2.0
// Training attention over half-open key ranges, forward and backward, on the CPU. The ranges are those of lm/visibility.h;
// nothing of size rows x rows exists: consecutive rows that see nearly the same keys form a tile, and a tile is a handful of small
// matrix products over the ranges that its rows see; what a single row does not see gets no weight.
//
// Keys: R rows of this pass · Q rows that attend (all, or those a loss depends on) · H query heads · G key/value heads ·
// K head width. qkv_R_N, N = (H + 2 G) K: queries, keys, values, heads contiguous.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "lm/visibility.h"

namespace slip {

/// Rows [first, first + rows) of the output, and ranges that cover what they see, ascending. `seen` lists, row by row, ascending
/// ranges in the coordinates of those keys (0 .. key_count).
struct AttentionTile {
  int32_t first = 0, rows = 0, key_count = 0;
  std::vector<IndexRange> keys;
  std::vector<IndexRange> seen;
  std::vector<int32_t> seen_begin;  // rows + 1
  int64_t score_offset = 0;         // numbers per head before this tile
};

/// Tiles whose keys no other part sees: a sample, an image. Parts run in parallel without touching each other's gradients.
struct AttentionPart {
  std::vector<AttentionTile> tiles;
  int64_t work = 0;
};

struct AttentionPlan {
  std::vector<int32_t> query_row;  // Q: the row of qkv that output row i asks for
  std::vector<AttentionPart> parts;
  int64_t scores = 0;  // numbers per head over all tiles
  int32_t rows = 0;    // R
};

/// Appends one part: rows `query_rows` (ascending) of the pass, each seeing sees[i], where no key comes twice. All rows from the
/// first to the last that are seen must be this part's.
void append_part(AttentionPlan& plan, std::span<const int32_t> query_rows, std::span<const IndexRanges> sees);

struct AttentionShape {
  int32_t H = 0, G = 0, K = 0;
};

/// Element types: float activations, bfloat16 activations (as raw 16 bits) with float inside, or double throughout.
/// rotary_RK: cos in the first K/2 numbers of a row, sin in the rest; pairs (i, i + K/2).
/// work_RN gets the rotated, scaled queries, rotated keys and values; scores gets the softmax (H * plan.scores): both are what
/// backward needs. out_Q_HK.
template <class T, class A>
void attention_forward(const AttentionPlan& plan, AttentionShape s, const A* qkv_RN, const T* rotary_RK, T* work_RN, T* scores,
                       A* out_Q_HK);
/// d_qkv_RN is written whole. d_work_RN is scratch of R x N.
template <class T, class A>
void attention_backward(const AttentionPlan& plan, AttentionShape s, const A* d_out_Q_HK, const T* rotary_RK, const T* work_RN,
                        const T* scores, T* d_work_RN, A* d_qkv_RN);

}  // namespace slip
