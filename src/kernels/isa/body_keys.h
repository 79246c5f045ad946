// SPDX-License-Identifier: Apache-2.0
// What the two attentions share (body_attention.h: f32, body_attention_pairs.h: bf16): walking along the rows' span lists a block
// of keys at a time, and finding the rows that see the same block, so that it is read and rearranged once for all of them.
//
// Contract W: a row's keys are cut into blocks of 64 counted along its own span list. A score is one chain over the
// head width; a value sum is one chain over the keys of the block that this row sees; a block's probabilities are added
// in one order over 64 places, absent keys giving +0. So it does not matter with which rows a block was shared.
#pragma once

namespace slip {
namespace {

constexpr int64_t kMaxRows = kMaxQueries;
constexpr int64_t kTileQueries = 8;  // whose scores (2 KiB) are in work at a time

struct Run {
  int32_t begin, count;
};

/// Where a row stands in its span list, and the slots of its current key block as runs of neighbours, as long as they go.
struct Cursor {
  uint32_t span = 0;
  int32_t offset = 0;
  int32_t count = 0, runs = 0;  // slots, runs
  Run run[kKeyBlock];
};

/// The rows of a piece and where they stand.
struct Walk {
  explicit Walk(const AttendArgs& args) : a(args), rows(args.row_end - args.row_begin) {
    for (int64_t t = 0; t < rows; t++) {
      cursor[t].span = 0;
      cursor[t].offset = 0;
    }
  }
  const AttendArgs& a;
  const int64_t rows;
  Cursor cursor[kMaxRows];
  bool pending[kMaxRows];
};

void next_block(const AttendArgs& a, int64_t t, Cursor& c) {
  const RowSpans list = a.row_spans[t];
  c.count = c.runs = 0;
  while (c.count < kKeyBlock && c.span < list.count) {
    const SlotSpan s = a.spans[list.first + c.span];
    const int32_t begin = s.begin + c.offset, left = s.end - begin;
    const int32_t room = static_cast<int32_t>(kKeyBlock) - c.count, n = left < room ? left : room;
    if (n > 0) {
      Run& last = c.run[c.runs - (c.runs > 0)];
      if (c.runs > 0 && last.begin + last.count == begin)
        last.count += n;
      else
        c.run[c.runs++] = {begin, n};
      c.count += n;
    }
    if (n == left || left <= 0) {
      c.span++;
      c.offset = 0;
    } else {
      c.offset += n;
    }
  }
}

/// Whether a's block is the beginning of b's: the same runs, the last perhaps shorter.
bool is_prefix(const Cursor& a, const Cursor& b) {
  if (a.count > b.count || a.runs > b.runs) return false;
  for (int32_t i = 0; i + 1 < a.runs; i++)
    if (a.run[i].begin != b.run[i].begin || a.run[i].count != b.run[i].count) return false;
  const Run x = a.run[a.runs - 1], y = b.run[a.runs - 1];
  return x.begin == y.begin && x.count <= y.count;
}

/// Where the slots of a block lie, in units of one slot's stride, up to the next whole vector; those after the last repeat it.
int64_t slots_of(const Cursor& c, int64_t stride, int64_t* at) {
  int64_t filled = 0;
  for (int32_t i = 0; i < c.runs; i++)
    for (int64_t j = 0; j < c.run[i].count; j++) at[filled++] = (c.run[i].begin + j) * stride;
  for (; filled % kLanes != 0; filled++) at[filled] = at[c.count - 1];
  return filled;
}

/// Rows [begin, end), neighbours that all see a prefix of the gathered block.
template <class S>
void add_block(S& s, int64_t begin, int64_t end) {
  const Cursor* cursor = s.walk.cursor;
  for (int64_t t = begin; t < end;) {
    int64_t u = t + 1;
    while (u < end && cursor[u].count == cursor[t].count) u++;
    add_queries(s, t * s.a.head_count, u * s.a.head_count, cursor[t].count);
    t = u;
  }
}

/// One key block of every row that still has one: the longest list leads, rows whose list is a prefix of it go along.
template <class S>
bool step(S& s) {
  Walk& w = s.walk;
  bool any = false;
  for (int64_t t = 0; t < w.rows; t++) {
    next_block(w.a, w.a.row_begin + t, w.cursor[t]);
    w.pending[t] = w.cursor[t].count > 0;
    any |= w.pending[t];
  }
  for (;;) {
    int64_t lead = -1;
    for (int64_t t = 0; t < w.rows; t++)
      if (w.pending[t] && (lead < 0 || w.cursor[t].count > w.cursor[lead].count)) lead = t;
    if (lead < 0) return any;
    const Cursor& c = w.cursor[lead];
    gather(s, c, lead);
    const auto goes_along = [&](int64_t t) { return w.pending[t] && is_prefix(w.cursor[t], c); };
    for (int64_t t = 0; t < w.rows;) {
      if (!goes_along(t)) {
        t++;
        continue;
      }
      int64_t u = t;
      for (; u < w.rows && goes_along(u); u++) w.pending[u] = false;
      add_block(s, t, u);
      t = u;
    }
  }
}

/// What every query has after its last block: sums / total, zeros where nothing was seen.
template <class S>
void write_out(const S& s) {
  const AttendArgs& a = s.a;
  for (int64_t i = 0; i < s.queries; i++) {
    float* out = a.out_THK + ((a.row_begin + i / a.head_count) * a.heads + a.head_begin + i % a.head_count) * a.width;
    const float *sums = s.sums + i * s.padded, total = s.total[i];
    if (s.top[i] == -__builtin_inff() && total == 0) {
      __builtin_memset(out, 0, static_cast<size_t>(a.width) * sizeof(float));
      continue;
    }
#pragma GCC ivdep
    for (int64_t k = 0; k < a.width; k++) out[k] = sums[k] / total;
  }
}

/// The query of row t, head h of the piece.
inline const float* query_of(const AttendArgs& a, int64_t t, int64_t h) {
  return a.q_THK + (a.row_begin + t) * a.ldq + (a.head_begin + h) * a.width;
}

}  // namespace
}  // namespace slip
