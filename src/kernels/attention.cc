// SPDX-License-Identifier: Apache-2.0
// Span attention cut into pieces of (neighbouring rows) x (query heads of one key/value head), at most 64 queries each.
#include <algorithm>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"

namespace slip {

void attention(const AttentionArgs& a, ThreadPool& pool, Workspace&) {
  if (a.rows <= 0) return;
  SLIP_CHECK(a.head_width > 0 && a.head_width <= kMaxHeadWidth, "the reader of configs refuses wider heads");
  SLIP_CHECK(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "every key/value head serves the same number of query heads");
  SLIP_CHECK(a.scale > 0, "absent keys are -inf before scaling");
  SLIP_CHECK(static_cast<int64_t>(a.row_spans.size()) >= a.rows, "one span list per row");
  const int64_t group = a.heads / a.kv_heads;
  int64_t parts = (group + kMaxQueries - 1) / kMaxQueries;
  // A single row is shared by heads; each part gathers the keys anew, which costs a fifth of a row.
  if (a.rows * a.kv_heads * parts < pool.threads())
    parts = std::min<int64_t>(group, (pool.threads() + a.rows * a.kv_heads - 1) / (a.rows * a.kv_heads));
  const int64_t heads_each = (group + parts - 1) / parts;
  parts = (group + heads_each - 1) / heads_each;
  // As many rows as fill a piece, but enough pieces to share: gathering a key block costs as much as 8 queries on it.
  const int64_t full = kMaxQueries / heads_each;
  const int64_t wanted = pool.threads() == 1 ? 1 : 2 * pool.threads();
  const int64_t fair = std::max<int64_t>((a.rows * a.kv_heads * parts + wanted - 1) / wanted, 1);
  const int64_t rows_each = std::min(full, fair), groups = (a.rows + rows_each - 1) / rows_each;
  const auto piece = [&](int64_t i) {
    const int64_t part = i % parts, g = i / parts % a.kv_heads, r = i / parts / a.kv_heads;
    ops().attend({.q_THK = a.q_THK,
                  .keys_SGK = a.keys_SGK,
                  .values_SGK = a.values_SGK,
                  .out_THK = a.out_THK,
                  .heads = a.heads,
                  .kv_heads = a.kv_heads,
                  .width = a.head_width,
                  .scale = a.scale,
                  .row_spans = a.row_spans.data(),
                  .spans = a.spans.data(),
                  .q_scale_T = a.q_scale_T,
                  .row_begin = r * rows_each,
                  .row_end = std::min((r + 1) * rows_each, a.rows),
                  .head_begin = g * group + part * heads_each,
                  .head_count = std::min(heads_each, group - part * heads_each),
                  .kv_head = g});
  };
  const int64_t pieces = groups * a.kv_heads * parts;
  if (pool.threads() == 1 || pieces == 1) {
    for (int64_t i = 0; i < pieces; i++) piece(i);
  } else {
    pool.run(pieces, piece);
  }
}

}  // namespace slip
