// SPDX-License-Identifier: Apache-2.0
// What the three attentions share (body/attention.h: f32, body/attention_pairs.h: bf16, body/attention_quads.h: int8): walking along
// the rows' span lists a block of keys at a time, and finding the rows that see the same block, so that it is read and rearranged once
// for all of them.
//
// Contract W: a row's keys are cut into blocks of 64 counted along its own span list. A score is one chain over the
// head width; a value sum is one chain over the keys of the block that this row sees; a block's probabilities are added
// in one order over 64 places, absent keys giving +0. So it does not matter with which rows a block was shared.
#pragma once

namespace slip {
namespace {

constexpr int64_t kMaxRows = kMaxQueries;
constexpr int64_t kLineQueries = kMaxQueries + 2 * kLanes;  // whole vectors are read from any query on

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

/// What an attention keeps of its queries, and where the keys of the block in hand lie. An attention is a struct derived from it, with
///   take_queries(s)                  once
///   gather(s, cursor, row)           a block of keys, which `row` sees whole
///   add_queries(s, begin, end, n)    queries [begin, end), which all see the first n of the gathered keys
/// Not zeroed: for 450 KiB that would cost more than a row.
struct AttentionState {
  static void* operator new(size_t, void* scratch) { return scratch; }
  explicit AttentionState(const AttendArgs& args)
      : a(args), walk(args), queries(walk.rows * args.head_count), padded((args.width + kLanes - 1) / kLanes * kLanes) {}
  const AttendArgs& a;
  Walk walk;
  const int64_t queries, padded;  // padded: head width in whole vectors
  float top[kLineQueries], total[kLineQueries];
  alignas(64) float sums[kMaxQueries * kMaxHeadWidth];
  int64_t at[kKeyBlock + kLanes];
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
void write_out(const AttentionState& s) {
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

template <class S>
void attend(const AttendArgs& a) {
  S& s = *new (a.scratch) S(a);
  take_queries(s);
  for (int64_t i = 0; i < kLineQueries; i++) {
    s.top[i] = -__builtin_inff();
    s.total[i] = 0;
  }
  __builtin_memset(s.sums, 0, static_cast<size_t>(s.queries * s.padded) * sizeof(float));
  while (step(s)) {
  }
  write_out(s);
}

/// Head h of row t of the piece, and what its q_scale_T says.
struct Query {
  const float* x;
  float scale;
};
inline Query query_of(const AttendArgs& a, int64_t t, int64_t h) {
  return {a.q_THK + (a.row_begin + t) * a.ldq + (a.head_begin + h) * a.width, a.q_scale_T ? a.q_scale_T[a.row_begin + t] : 1.0F};
}

/// The numbers of kLanes rows from k on that make no whole square. Apart, or its vectors would stand wherever rows are transposed.
[[gnu::noinline]] void transpose_rest(const float* const* rows, int64_t k, int64_t n, float* out, int64_t ldo) {
  for (; k < n; k++)
    for (int64_t i = 0; i < kLanes; i++) out[k * ldo + i] = rows[i][k];
}
/// out[k][i] = rows[i][k] for kLanes rows of n numbers.
inline void transpose(const float* const* rows, int64_t n, float* out, int64_t ldo) {
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) transpose_square(rows, k, out + k * ldo, ldo);
  if (k < n) transpose_rest(rows, k, n, out, ldo);
}

/// Cuts the weighing of values into tiles of `m` vectors of numbers, as many as there are sums for, and of the queries that fill the
/// registers then: f(v, m, r, n) for vectors [v, v + m) and queries [r, r + n).
template <class F>
inline void for_value_tiles(int64_t vectors, int64_t queries, F&& f) {
  constexpr int64_t kWide = kTileVectors == 4 ? 2 : 1;  // vectors at which 8 queries fill the registers
  for (int64_t v = 0; v < vectors;) {
    const int64_t left = vectors - v, m = left >= kTileVectors && left != kTileVectors + 1 ? kTileVectors : left < 2 ? 1 : 2;
    const int64_t rows_each = m <= kWide ? 8 : 4;
    for (int64_t r = 0; r < queries; r += rows_each) f(v, m, r, queries - r < rows_each ? queries - r : rows_each);
    v += m;
  }
}

}  // namespace
}  // namespace slip
