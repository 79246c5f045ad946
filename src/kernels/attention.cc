// SPDX-License-Identifier: Apache-2.0
// Span attention cut into pieces of (neighbouring rows) x (query heads of one key/value head), at most kMaxQueries queries each; and
// what leads up to it: rotation, and storing keys and values.
#include <algorithm>

#include "base/check.h"
#include "kernels/isa/ops.h"
#include "kernels/kernels.h"
#include "kernels/pieces.h"

namespace slip {
namespace {

/// The cut that ends first: threads take pieces in turn, and a piece costs its queries and, for gathering its key blocks, as much as
/// kGather more.
int64_t rows_of_a_piece(int64_t rows, int64_t parts, int64_t heads, int64_t threads) {
  constexpr int64_t kGather = 5;
  int64_t best = 1, least = INT64_MAX;
  for (int64_t each = std::min(kMaxQueries / heads, rows); each > 0; each--) {
    const int64_t pieces = (rows + each - 1) / each * parts, turns = (pieces + threads - 1) / threads;
    const int64_t cost = turns * (each * heads + kGather);
    if (cost < least) least = cost, best = each;
  }
  return best;
}

void check(const AttentionArgs& a) {
  SLIP_CHECK(a.head_width > 0 && a.head_width <= kMaxHeadWidth, "the reader of configs refuses wider heads");
  SLIP_CHECK(a.kv_heads > 0 && a.heads % a.kv_heads == 0, "every key/value head serves the same number of query heads");
  SLIP_CHECK(a.scale > 0, "absent keys are -inf before scaling");
  SLIP_CHECK(static_cast<int64_t>(a.row_spans.size()) >= a.rows, "one span list per row");
  SLIP_CHECK(a.kv_type == KvType::kF32 || a.head_width % 2 == 0, "bf16 keys are pairs");
  SLIP_CHECK(a.kv_type != KvType::kI8 || (a.head_width % 4 == 0 && a.slot_stride % a.head_width == 0 &&
                                          a.head_stride % a.head_width == 0 && a.key_scales_SG && a.value_scales_SG),
             "int8 keys are quads, with a scale for each");
}

}  // namespace

void attention(const AttentionArgs& a, ThreadPool& pool, Workspace& workspace) {
  if (a.rows <= 0) return;
  check(a);
  const auto attend = ops().attend[static_cast<int>(a.kv_type)];
  const int64_t scratch_bytes = ops().attend_bytes[static_cast<int>(a.kv_type)];  // whole lines, as the type is aligned
  const int64_t group = a.heads / a.kv_heads;
  int64_t parts = (group + kMaxQueries - 1) / kMaxQueries;
  // A single row is shared by heads; each part gathers the keys anew, which costs a fifth of a row.
  if (a.rows * a.kv_heads * parts < pool.threads())
    parts = std::min<int64_t>(group, (pool.threads() + a.rows * a.kv_heads - 1) / (a.rows * a.kv_heads));
  const int64_t heads_each = (group + parts - 1) / parts;
  parts = (group + heads_each - 1) / heads_each;
  const int64_t rows_each = rows_of_a_piece(a.rows, a.kv_heads * parts, heads_each, pool.threads());
  const int64_t groups = (a.rows + rows_each - 1) / rows_each;
  const int64_t pieces = groups * a.kv_heads * parts;
  const bool alone = pool.threads() == 1 || pieces == 1;
  auto* scratch = workspace.get<std::byte>(kSlotAttend, static_cast<size_t>(scratch_bytes * (alone ? 1 : pool.threads())));
  const auto piece = [&](int64_t i, int thread) {
    const int64_t part = i % parts, g = i / parts % a.kv_heads, r = i / parts / a.kv_heads;
    attend({.q_THK = a.q_THK,
            .ldq = a.ldq ? a.ldq : int64_t{a.heads} * a.head_width,
            .keys_SGK = a.keys_SGK,
            .values_SGK = a.values_SGK,
            .key_scales_SG = a.key_scales_SG,
            .value_scales_SG = a.value_scales_SG,
            .out_THK = a.out_THK,
            .slot_stride = a.slot_stride ? a.slot_stride : int64_t{a.kv_heads} * a.head_width,
            .head_stride = a.head_stride ? a.head_stride : a.head_width,
            .heads = a.heads,
            .width = a.head_width,
            .scale = a.scale,
            .row_spans = a.row_spans.data(),
            .spans = a.spans.data(),
            .q_scale_T = a.q_scale_T,
            .row_begin = r * rows_each,
            .row_end = std::min((r + 1) * rows_each, a.rows),
            .head_begin = g * group + part * heads_each,
            .head_count = std::min(heads_each, group - part * heads_each),
            .kv_head = g,
            .scratch = scratch + scratch_bytes * thread});
  };
  if (alone) {
    for (int64_t i = 0; i < pieces; i++) piece(i, 0);
  } else {
    pool.run(pieces, piece);
  }
}

namespace {

/// One head's key and value, `at` numbers into the cache.
void store_head(const Ops& o, const RotateStoreArgs& a, int64_t at, const float* key, const float* value) {
  const int64_t width = a.head_width;
  if (a.kv_type == KvType::kI8) {
    o.to_bytes(key, width, true, static_cast<uint8_t*>(a.keys) + at, a.key_scales + at / width);
    o.to_bytes(value, width, false, static_cast<uint8_t*>(a.values) + at, a.value_scales + at / width);
    return;
  }
  const auto store = o.to_kv[static_cast<int>(a.kv_type)];
  const auto size = static_cast<int64_t>(size_of(a.kv_type));
  store(key, width, static_cast<char*>(a.keys) + at * size);
  store(value, width, static_cast<char*>(a.values) + at * size);
}

}  // namespace

void rotate_store(const RotateStoreArgs& a, ThreadPool& pool) {
  constexpr int64_t kTaskNumbers = 32 << 10;  // of a task: 3 us; a smaller one costs more to hand out (0.3 to 1 us)
  const int64_t width = a.head_width, q = a.heads * width, kv = a.kv_heads * width, line = q + 2 * kv;
  const int64_t each = std::max<int64_t>(1, kTaskNumbers / line), tasks = (a.rows + each - 1) / each;
  const Ops& o = ops();
  const auto task = [&](int64_t i) {
    const int64_t first = i * each, last = std::min(first + each, a.rows);
    for (int64_t t = first; a.q_gain_K && t < last; t++) {
      float* row = a.qkv_TE + t * line;
      o.rms_norm(row, a.heads, width, a.q_gain_K, a.eps, row);
      o.rms_norm(row + q, a.kv_heads, width, a.k_gain_K, a.eps, row + q);
    }
    o.rotate({.x_THK = a.qkv_TE + first * line,
              .rows = last - first,
              .ldx = line,
              .heads = a.heads + a.kv_heads,
              .width = width,
              .half = a.half,
              .cos_TK2 = a.cos_TK2 + first * a.half,
              .sin_TK2 = a.sin_TK2 + first * a.half});
    for (int64_t t = first; t < last; t++)
      for (int64_t g = 0; g < a.kv_heads; g++) {
        const float* k = a.qkv_TE + t * line + q + g * width;
        store_head(o, a, a.slots_T[t] * a.slot_stride + g * a.head_stride, k, k + kv);
      }
  };
  if (tasks == 1 || pool.threads() == 1) {
    for (int64_t i = 0; i < tasks; i++) task(i);
  } else {
    pool.run(tasks, task);
  }
}

void to_kv(KvType type, const float* x, int64_t n, void* out) {
  SLIP_CHECK(type != KvType::kI8, "bytes have a scale: to_kv_i8");
  ops().to_kv[static_cast<int>(type)](x, n, out);
}

void to_kv_i8(const float* x, int64_t n, bool key, uint8_t* out, float* scale) { ops().to_bytes(x, n, key, out, scale); }

}  // namespace slip
