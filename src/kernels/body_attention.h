// SPDX-License-Identifier: Apache-2.0
// Span attention for up to 64 queries (rows x heads of one key/value head): 64 keys at a time are gathered and
// transposed once for all queries that see them, then scores and weighted values are the products of body_product.h
// with a running softmax in between [Dao et al., FlashAttention, for the running maximum].
//
// Contract W: a row's keys are cut into blocks of 64 counted along its own span list. A score is one chain over the
// head width; a value sum is one chain over the keys of the block that this row sees; a block's probabilities are added
// in one order over 64 places, absent keys giving +0. So it does not matter with which rows a block was shared.
#pragma once

namespace slip {
namespace {

constexpr int64_t kMaxRows = kMaxQueries;

/// Where a row stands in its span list, and the slots of its current key block.
struct Cursor {
  uint32_t span = 0;
  int32_t offset = 0;
  int32_t count = 0;
  int32_t slots[kKeyBlock];
};

struct Attend {
  explicit Attend(const AttendArgs& args) : a(args) {}  // the scratch stays as it is: zeroing 300 KiB costs more than a row
  const AttendArgs& a;
  int64_t rows, queries, padded;  // padded: head width in whole vectors
  Cursor cursor[kMaxRows];
  bool pending[kMaxRows];
  float top[kMaxQueries], total[kMaxQueries];
  alignas(64) float q[kMaxQueries * kMaxHeadWidth];
  alignas(64) float sums[kMaxQueries * kMaxHeadWidth];
  alignas(64) float scores[kMaxQueries * kKeyBlock];
  alignas(64) float keys_KS[kMaxHeadWidth * kKeyBlock];
  alignas(64) float values_SK[kKeyBlock * kMaxHeadWidth];
  const float* values;  // of the block in hand: values_SK, or in place
  int64_t ldv;
};

void next_block(const AttendArgs& a, int64_t t, Cursor& c) {
  const RowSpans list = a.row_spans[t];
  c.count = 0;
  while (c.count < kKeyBlock && c.span < list.count) {
    const SlotSpan s = a.spans[list.first + c.span];
    const int32_t left = s.end - s.begin - c.offset;
    const int32_t room = static_cast<int32_t>(kKeyBlock) - c.count, n = left < room ? left : room;
    for (int32_t i = 0; i < n; i++) c.slots[c.count + i] = s.begin + c.offset + i;
    if (n > 0) c.count += n;
    c.offset += n > 0 ? n : 0;
    if (n == left || left <= 0) {
      c.span++;
      c.offset = 0;
    }
  }
}

/// Keys transposed, columns up to the next whole vector repeat the last key (finite, and never used).
void gather(Attend& s, const Cursor& c) {
  const int64_t width = s.a.width, stride = s.a.kv_heads * width;
  const float* keys = s.a.keys_SGK + s.a.kv_head * width;
  for (int64_t j = 0; j < c.count; j += kLanes) {
    const float* rows[kLanes];
    for (int64_t i = 0; i < kLanes; i++) rows[i] = keys + c.slots[j + i < c.count ? j + i : c.count - 1] * stride;
    int64_t k = 0;
    for (; k + kLanes <= width; k += kLanes) transpose_square(rows, k, s.keys_KS + k * kKeyBlock + j, kKeyBlock);
    for (; k < width; k++)
      for (int64_t i = 0; i < kLanes; i++) s.keys_KS[k * kKeyBlock + j + i] = rows[i][k];
  }
  const float* values = s.a.values_SGK + s.a.kv_head * width;
  if (c.slots[c.count - 1] - c.slots[0] == c.count - 1 && s.padded == width) {
    bool in_order = true;
    for (int32_t j = 1; j < c.count; j++) in_order &= c.slots[j] == c.slots[0] + j;
    if (in_order) {
      s.values = values + c.slots[0] * stride;
      s.ldv = stride;
      return;
    }
  }
  for (int64_t j = 0; j < c.count; j++) {
    __builtin_memcpy(s.values_SK + j * s.padded, values + c.slots[j] * stride, static_cast<size_t>(width) * sizeof(float));
    for (int64_t k = width; k < s.padded; k++) s.values_SK[j * s.padded + k] = 0;
  }
  s.values = s.values_SK;
  s.ldv = s.padded;
}

/// Scores of one query become probabilities relative to its running maximum; what was summed before is scaled down.
void soften(Attend& s, int64_t i, int64_t count) {
  float* p = s.scores + i * kKeyBlock;
  for (int64_t j = count; j < kKeyBlock; j++) p[j] = -__builtin_inff();
  const Floats scale = splat(s.a.scale);
  Floats tops = splat(s.top[i]);
  for (int64_t j = 0; j < kKeyBlock; j += kLanes) {
    const Floats v = mul_v(load(p + j), scale);
    store(p + j, v);
    tops = max_v(tops, v);
  }
  const float top = max_lanes(tops);
  for (int64_t j = 0; j < kKeyBlock; j++) p[j] = exp_s(p[j] - top);
  Floats sum = load(p);
  for (int64_t j = kLanes; j < kKeyBlock; j += kLanes) sum = add_v(sum, load(p + j));
  const float keep = exp_s(s.top[i] - top);
  s.top[i] = top;
  s.total[i] = s.total[i] * keep + sum_lanes(sum);
  if (keep == 1.0F) return;
  const Floats factor = splat(keep);
  float* sums = s.sums + i * s.padded;
  for (int64_t k = 0; k < s.padded; k += kLanes) store(sums + k, mul_v(load(sums + k), factor));
}

/// Rows [begin, end), neighbours that all see a prefix of the gathered block.
void add_block(Attend& s, int64_t begin, int64_t end, int64_t gathered) {
  const int64_t heads = s.a.head_count, first = begin * heads, n = (end - begin) * heads;
  const int64_t vectors = (gathered + kLanes - 1) / kLanes;
  float* scores = s.scores + first * kKeyBlock;
  __builtin_memset(scores, 0, static_cast<size_t>(n * kKeyBlock) * sizeof(float));
  multiply<DotF32>(reinterpret_cast<Word*>(scores), kKeyBlock, n, vectors, reinterpret_cast<const Word*>(s.q + first * s.a.width),
                   s.a.width, reinterpret_cast<const Word*>(s.keys_KS), kKeyBlock, s.a.width);
  for (int64_t t = begin; t < end; t++)
    for (int64_t h = 0; h < heads; h++) soften(s, t * heads + h, s.cursor[t].count);
  for (int64_t t = begin; t < end;) {
    int64_t u = t + 1;
    while (u < end && s.cursor[u].count == s.cursor[t].count) u++;
    multiply<DotF32>(reinterpret_cast<Word*>(s.sums + t * heads * s.padded), s.padded, (u - t) * heads, s.padded / kLanes,
                     reinterpret_cast<const Word*>(s.scores + t * heads * kKeyBlock), kKeyBlock,
                     reinterpret_cast<const Word*>(s.values), s.ldv, s.cursor[t].count);
    t = u;
  }
}

/// One key block of every row that still has one: the longest list leads, rows whose list is a prefix of it go along.
bool step(Attend& s) {
  bool any = false;
  for (int64_t t = 0; t < s.rows; t++) {
    next_block(s.a, s.a.row_begin + t, s.cursor[t]);
    s.pending[t] = s.cursor[t].count > 0;
    any |= s.pending[t];
  }
  for (;;) {
    int64_t lead = -1;
    for (int64_t t = 0; t < s.rows; t++)
      if (s.pending[t] && (lead < 0 || s.cursor[t].count > s.cursor[lead].count)) lead = t;
    if (lead < 0) return any;
    const Cursor& c = s.cursor[lead];
    gather(s, c);
    const auto goes_along = [&](int64_t t) {
      return s.pending[t] &&
             __builtin_memcmp(s.cursor[t].slots, c.slots, static_cast<size_t>(s.cursor[t].count) * sizeof(int32_t)) == 0;
    };
    for (int64_t t = 0; t < s.rows;) {
      if (!goes_along(t)) {
        t++;
        continue;
      }
      int64_t u = t;
      for (; u < s.rows && goes_along(u); u++) s.pending[u] = false;
      add_block(s, t, u, c.count);
      t = u;
    }
  }
}

void attend(const AttendArgs& a) {
  Attend s(a);
  s.rows = a.row_end - a.row_begin;
  s.queries = s.rows * a.head_count;
  s.padded = (a.width + kLanes - 1) / kLanes * kLanes;
  for (int64_t t = 0; t < s.rows; t++) {
    s.cursor[t].span = 0;
    s.cursor[t].offset = 0;
    const float factor = a.q_scale_T ? a.q_scale_T[a.row_begin + t] : 1.0F;
    for (int64_t h = 0; h < a.head_count; h++) {
      const float* q = a.q_THK + ((a.row_begin + t) * a.heads + a.head_begin + h) * a.width;
      float* out = s.q + (t * a.head_count + h) * a.width;
      for (int64_t k = 0; k < a.width; k++) out[k] = q[k] * factor;
    }
  }
  for (int64_t i = 0; i < s.queries; i++) {
    s.top[i] = -__builtin_inff();
    s.total[i] = 0;
  }
  __builtin_memset(s.sums, 0, static_cast<size_t>(s.queries * s.padded) * sizeof(float));
  while (step(s)) {
  }
  for (int64_t i = 0; i < s.queries; i++) {
    float* out = a.out_THK + ((a.row_begin + i / a.head_count) * a.heads + a.head_begin + i % a.head_count) * a.width;
    const bool blind = s.top[i] == -__builtin_inff() && s.total[i] == 0;
    for (int64_t k = 0; k < a.width; k++) out[k] = blind ? 0.0F : s.sums[i * s.padded + k] / s.total[i];
  }
}

}  // namespace
}  // namespace slip
