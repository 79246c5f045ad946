// SPDX-License-Identifier: Apache-2.0
// Attention over key ranges, forward and backward; contracts in span_attention.h. Inside a task (one part, one key/value head)
// everything runs in one order, so results do not depend on the number of threads.
#include "train/model/span_attention.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "core/dtype.h"
#include "train/model/row_ops.h"

extern "C" {
// The two routines of CBLAS that are needed (102 column-major is not used: 101 row-major; 111 as is, 112 transposed).
void cblas_sgemm(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                 int ldb, float beta, float* c, int ldc);
void cblas_dgemm(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const double* a, int lda, const double* b,
                 int ldb, double beta, double* c, int ldc);
}

namespace slip {
namespace {

constexpr int32_t kTileRows = 64;  // a causal tile wastes half of its last 64 columns; 64 rows x 2 heads fill the products

enum class Op : int { kAsIs = 111, kTransposed = 112 };

void gemm(Op a_op, Op b_op, int m, int n, int k, const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(101, static_cast<int>(a_op), static_cast<int>(b_op), m, n, k, 1.0F, a, lda, b, ldb, beta, c, ldc);
}
void gemm(Op a_op, Op b_op, int m, int n, int k, const double* a, int lda, const double* b, int ldb, double beta, double* c,
          int ldc) {
  cblas_dgemm(101, static_cast<int>(a_op), static_cast<int>(b_op), m, n, k, 1.0, a, lda, b, ldb, beta, c, ldc);
}

bool joins(const IndexRanges& previous, const IndexRanges& next) {
  if (previous.size() != next.size() || next.empty()) return false;
  for (size_t i = 0; i + 1 < next.size(); ++i)
    if (!(previous[i] == next[i])) return false;
  return previous.back().begin == next.back().begin && previous.back().end <= next.back().end;
}

float value(float v) { return v; }
double value(double v) { return v; }
float value(BF16 v) { return to_float(v); }
void put(float& to, float v) { to = v; }
void put(double& to, double v) { to = v; }
void put(BF16& to, float v) { to = to_bf16(v); }

/// (a, b) -> (a cos - b sin, b cos + a sin) by `direction` +1, its inverse by -1.
template <class T, class In, class Out>
void rotate(const In* from, Out* to, const T* rotary, int32_t K, T direction, T scale) {
  const int32_t half = K / 2;
  for (int32_t i = 0; i < half; ++i) {
    const T a = value(from[i]), b = value(from[i + half]), c = rotary[i] * scale, s = rotary[i + half] * direction * scale;
    put(to[i], a * c - b * s);
    put(to[i + half], b * c + a * s);
  }
}

template <class T>
struct TileBuffers {
  std::vector<T> q, out, d_scores, d_q;
};

/// One tile of one key/value head: pointers to head g's columns, row length N.
template <class T>
struct HeadView {
  const AttentionPlan& plan;
  AttentionShape s;
  int32_t g;
  int64_t N() const { return int64_t{s.H + 2 * s.G} * s.K; }
  int32_t group() const { return s.H / s.G; }
  int64_t query_column(int32_t h) const { return int64_t{g * group() + h} * s.K; }
  int64_t key_column() const { return int64_t{s.H + g} * s.K; }
  int64_t value_column() const { return int64_t{s.H + s.G + g} * s.K; }
};

/// Rows (head of the group, row of the tile) x K.
template <class T, class From>
void gather(const HeadView<T>& v, const AttentionTile& tile, const From* from, int64_t line, bool by_query_row,
            std::vector<T>& to) {
  const int32_t K = v.s.K;
  to.resize(static_cast<size_t>(v.group()) * static_cast<size_t>(tile.rows) * static_cast<size_t>(K));
  T* out = to.data();
  for (int32_t h = 0; h < v.group(); ++h) {
    for (int32_t i = 0; i < tile.rows; ++i, out += K) {
      const int64_t row = by_query_row ? v.plan.query_row[static_cast<size_t>(tile.first + i)] : tile.first + i;
      const From* src = from + row * line + v.query_column(h);
      for (int32_t k = 0; k < K; ++k) out[k] = value(src[k]);
    }
  }
}

template <class T, class A>
void tile_forward(const HeadView<T>& v, const AttentionTile& tile, const T* work, T* scores, A* out, TileBuffers<T>& buffers) {
  const int32_t K = v.s.K, M = v.group() * tile.rows, S = tile.key_count;
  const auto N = static_cast<int>(v.N());
  gather(v, tile, work, v.N(), true, buffers.q);
  for (int32_t at = 0; const IndexRange r : tile.keys) {
    const int n = r.end - r.begin;
    gemm(Op::kAsIs, Op::kTransposed, M, n, K, buffers.q.data(), K, work + r.begin * v.N() + v.key_column(), N, 0, scores + at, S);
    at += n;
  }
  for (int32_t m = 0; m < M; ++m) {
    const auto i = static_cast<size_t>(m % tile.rows);
    softmax_ranges(scores + int64_t{m} * S, S, tile.seen.data() + tile.seen_begin[i], tile.seen_begin[i + 1] - tile.seen_begin[i]);
  }
  buffers.out.resize(static_cast<size_t>(M) * static_cast<size_t>(K));
  for (int32_t at = 0; const IndexRange r : tile.keys) {
    const int n = r.end - r.begin;
    gemm(Op::kAsIs, Op::kAsIs, M, K, n, scores + at, S, work + r.begin * v.N() + v.value_column(), N, at == 0 ? T(0) : T(1),
         buffers.out.data(), K);
    at += n;
  }
  const int64_t line = int64_t{v.s.H} * K;
  for (int32_t m = 0; m < M; ++m) {
    A* to = out + int64_t{tile.first + m % tile.rows} * line + v.query_column(m / tile.rows);
    for (int32_t k = 0; k < K; ++k)
      put(to[k], buffers.out[static_cast<size_t>(m) * static_cast<size_t>(K) + static_cast<size_t>(k)]);
  }
}

template <class T, class A>
void tile_backward(const HeadView<T>& v, const AttentionTile& tile, const A* d_out, const T* work, const T* scores, T* d_work,
                   TileBuffers<T>& buffers) {
  const int32_t K = v.s.K, M = v.group() * tile.rows, S = tile.key_count;
  const auto N = static_cast<int>(v.N());
  gather(v, tile, work, v.N(), true, buffers.q);
  gather(v, tile, d_out, int64_t{v.s.H} * K, false, buffers.out);
  buffers.d_scores.resize(static_cast<size_t>(M) * static_cast<size_t>(S));
  buffers.d_q.resize(static_cast<size_t>(M) * static_cast<size_t>(K));
  T* d_scores = buffers.d_scores.data();
  for (int32_t at = 0; const IndexRange r : tile.keys) {
    const int n = r.end - r.begin;
    gemm(Op::kAsIs, Op::kTransposed, M, n, K, buffers.out.data(), K, work + r.begin * v.N() + v.value_column(), N, 0, d_scores + at,
         S);
    gemm(Op::kTransposed, Op::kAsIs, n, K, M, scores + at, S, buffers.out.data(), K, 1, d_work + r.begin * v.N() + v.value_column(),
         N);
    at += n;
  }
  for (int32_t m = 0; m < M; ++m) softmax_backward_row(S, scores + int64_t{m} * S, d_scores + int64_t{m} * S);
  for (int32_t at = 0; const IndexRange r : tile.keys) {
    const int n = r.end - r.begin;
    gemm(Op::kAsIs, Op::kAsIs, M, K, n, d_scores + at, S, work + r.begin * v.N() + v.key_column(), N, at == 0 ? T(0) : T(1),
         buffers.d_q.data(), K);
    gemm(Op::kTransposed, Op::kAsIs, n, K, M, d_scores + at, S, buffers.q.data(), K, 1, d_work + r.begin * v.N() + v.key_column(),
         N);
    at += n;
  }
  for (int32_t m = 0; m < M; ++m) {
    const int64_t row = v.plan.query_row[static_cast<size_t>(tile.first + m % tile.rows)];
    std::copy_n(buffers.d_q.data() + int64_t{m} * K, K, d_work + row * v.N() + v.query_column(m / tile.rows));
  }
}

/// f(part, g) for all pairs, longest parts first.
template <class F>
void for_tasks(const AttentionPlan& plan, int32_t G, F&& f) {
  std::vector<int32_t> order(plan.parts.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    return plan.parts[static_cast<size_t>(a)].work > plan.parts[static_cast<size_t>(b)].work;
  });
  const auto tasks = static_cast<int64_t>(order.size()) * G;
#pragma omp parallel for schedule(dynamic, 1)
  for (int64_t task = 0; task < tasks; ++task)
    f(plan.parts[static_cast<size_t>(order[static_cast<size_t>(task / G)])], static_cast<int32_t>(task % G));
}

template <class T, class A>
void forward_all(const AttentionPlan& plan, AttentionShape s, const A* qkv, const T* rotary, T* work, T* scores, A* out) {
  const int64_t N = int64_t{s.H + 2 * s.G} * s.K;
  const T scale = T(1) / std::sqrt(T(s.K));
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < plan.rows; ++r) {
    const A* from = qkv + r * N;
    T* to = work + r * N;
    for (int32_t h = 0; h < s.H + s.G; ++h)
      rotate(from + h * s.K, to + h * s.K, rotary + r * s.K, s.K, T(1), h < s.H ? scale : T(1));
    for (int64_t i = int64_t{s.H + s.G} * s.K; i < N; ++i) to[i] = value(from[i]);
  }
  for_tasks(plan, s.G, [&](const AttentionPart& part, int32_t g) {
    TileBuffers<T> buffers;
    const HeadView<T> v{plan, s, g};
    for (const AttentionTile& tile : part.tiles)
      tile_forward(v, tile, work, scores + (tile.score_offset * s.H + int64_t{tile.rows} * tile.key_count * g * v.group()), out,
                   buffers);
  });
}

template <class T, class A>
void backward_all(const AttentionPlan& plan, AttentionShape s, const A* d_out, const T* rotary, const T* work, const T* scores,
                  T* d_work, A* d_qkv) {
  const int64_t N = int64_t{s.H + 2 * s.G} * s.K;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < plan.rows; ++r) std::fill_n(d_work + r * N, N, T(0));
  for_tasks(plan, s.G, [&](const AttentionPart& part, int32_t g) {
    TileBuffers<T> buffers;
    const HeadView<T> v{plan, s, g};
    for (const AttentionTile& tile : part.tiles)
      tile_backward(v, tile, d_out, work, scores + (tile.score_offset * s.H + int64_t{tile.rows} * tile.key_count * g * v.group()),
                    d_work, buffers);
  });
  const T scale = T(1) / std::sqrt(T(s.K));
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < plan.rows; ++r) {
    const T* from = d_work + r * N;
    A* to = d_qkv + r * N;
    for (int32_t h = 0; h < s.H + s.G; ++h)
      rotate(from + h * s.K, to + h * s.K, rotary + r * s.K, s.K, T(-1), h < s.H ? scale : T(1));
    for (int64_t i = int64_t{s.H + s.G} * s.K; i < N; ++i) put(to[i], from[i]);
  }
}

/// Rows that become a tile, and the keys that at least one of them sees: ascending, apart from each other.
struct Draft {
  int32_t first = 0, rows = 0;
  IndexRanges keys;
};

/// A range costs six calls of a product, each as much as some 150 scores of 7 heads x 32 numbers.
constexpr int64_t kRangeCost = 150;
int64_t cost(const Draft& d) {
  int64_t n = 0;
  for (const IndexRange r : d.keys) n += r.end - r.begin;
  return d.rows * n + kRangeCost * static_cast<int64_t>(d.keys.size());
}

bool by_begin(IndexRange a, IndexRange b) { return a.begin < b.begin; }

/// Union of two lists, as for tiles of `rows` rows: a hole that costs less than a range more is filled.
IndexRanges united(const IndexRanges& a, const IndexRanges& b, int32_t rows) {
  IndexRanges all(a), out;
  all.insert(all.end(), b.begin(), b.end());
  std::sort(all.begin(), all.end(), by_begin);
  for (const IndexRange r : all) {
    if (!out.empty() && (r.begin <= out.back().end || int64_t{r.begin - out.back().end} * rows <= kRangeCost))
      out.back().end = std::max(out.back().end, r.end);
    else
      out.push_back(r);
  }
  return out;
}

/// The longest run of rows from `first` on that see the same, the last range growing.
Draft run_of(std::span<const IndexRanges> sees, int32_t first) {
  const auto n = static_cast<int32_t>(sees.size());
  int32_t end = first + 1;
  while (end < n && end - first < kTileRows && joins(sees[static_cast<size_t>(end - 1)], sees[static_cast<size_t>(end)])) ++end;
  return {first, end - first, united(sees[static_cast<size_t>(end - 1)], {}, end - first)};
}

void finish_tile(AttentionPlan& plan, AttentionPart& part, std::span<const IndexRanges> sees, Draft d, int32_t first_out) {
  AttentionTile tile;
  tile.first = first_out + d.first;
  tile.rows = d.rows;
  tile.keys = std::move(d.keys);
  for (const IndexRange r : tile.keys) tile.key_count += r.end - r.begin;
  tile.seen_begin.push_back(0);
  for (int32_t i = d.first; i < d.first + d.rows; ++i) {
    IndexRanges own = sees[static_cast<size_t>(i)];
    std::sort(own.begin(), own.end(), by_begin);
    IndexRanges seen;
    int32_t at = 0, last = 0;
    for (size_t k = 0; const IndexRange r : own) {  // both ascend, and every range lies within one of the tile's
      SLIP_CHECK(r.begin >= last, "a row names a key once");
      last = r.end;
      for (; tile.keys[k].end < r.end; ++k) at += tile.keys[k].end - tile.keys[k].begin;
      append_range(seen, at + r.begin - tile.keys[k].begin, at + r.end - tile.keys[k].begin);
    }
    tile.seen.insert(tile.seen.end(), seen.begin(), seen.end());
    tile.seen_begin.push_back(static_cast<int32_t>(tile.seen.size()));
  }
  tile.score_offset = plan.scores;
  plan.scores += int64_t{tile.rows} * tile.key_count;
  part.work += int64_t{tile.rows} * tile.key_count;
  part.tiles.push_back(std::move(tile));
}

}  // namespace

void append_part(AttentionPlan& plan, std::span<const int32_t> query_rows, std::span<const IndexRanges> sees) {
  SLIP_CHECK(query_rows.size() == sees.size(), "one list per row");
  const auto first_out = static_cast<int32_t>(plan.query_row.size());
  plan.query_row.insert(plan.query_row.end(), query_rows.begin(), query_rows.end());
  AttentionPart part;
  const auto n = static_cast<int32_t>(sees.size());
  for (const IndexRanges& own : sees) SLIP_CHECK(!own.empty(), "a row sees at least one key");
  // Neighbouring runs share a tile where that is cheaper than two: the rows of many short fields see nearly the same keys.
  Draft open;
  for (int32_t at = 0; at < n;) {
    Draft next = run_of(sees, at);
    at += next.rows;
    if (open.rows > 0 && open.rows + next.rows <= kTileRows) {
      Draft both{open.first, open.rows + next.rows, united(open.keys, next.keys, open.rows + next.rows)};
      if (cost(both) <= cost(open) + cost(next)) {
        open = std::move(both);
        continue;
      }
    }
    if (open.rows > 0) finish_tile(plan, part, sees, std::move(open), first_out);
    open = std::move(next);
  }
  if (open.rows > 0) finish_tile(plan, part, sees, std::move(open), first_out);
  plan.parts.push_back(std::move(part));
}

#define SLIP_ATTENTION(T, A)                                                                                                   \
  template <>                                                                                                                  \
  void attention_forward<T, A>(const AttentionPlan& plan, AttentionShape s, const A* qkv, const T* rotary, T* work, T* scores, \
                               A* out) {                                                                                       \
    forward_all<T, A>(plan, s, qkv, rotary, work, scores, out);                                                                \
  }                                                                                                                            \
  template <>                                                                                                                  \
  void attention_backward<T, A>(const AttentionPlan& plan, AttentionShape s, const A* d_out, const T* rotary, const T* work,   \
                                const T* scores, T* d_work, A* d_qkv) {                                                        \
    backward_all<T, A>(plan, s, d_out, rotary, work, scores, d_work, d_qkv);                                                   \
  }
SLIP_ATTENTION(float, float)
SLIP_ATTENTION(float, BF16)
SLIP_ATTENTION(double, double)
#undef SLIP_ATTENTION

}  // namespace slip
