// SPDX-License-Identifier: Apache-2.0
// Norms, gates and rotations: rows are handed out in runs of about a microsecond of work or more.
#include <algorithm>

#include "base/check.h"
#include "kernels/isa/ops.h"
#include "kernels/kernels.h"

namespace slip {
namespace {

constexpr int64_t kPieceNumbers = 16 << 10;
constexpr int64_t kPieceExponentials = 4 << 10;  // a number with an exponential in it takes about four times as long

/// Calls f(first_row, rows) over all rows.
template <class F>
void for_rows(int64_t rows, int64_t width, ThreadPool& pool, const F& f, int64_t numbers = kPieceNumbers) {
  if (rows <= 0 || width <= 0) return;
  const int64_t each = std::max<int64_t>(1, numbers / width), pieces = (rows + each - 1) / each;
  if (pool.threads() == 1 || rows * width < 2 * numbers) return f(int64_t{0}, rows);
  pool.run(pieces, [&](int64_t i) { f(i * each, std::min(each, rows - i * each)); });
}

}  // namespace

void rms_norm(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, float eps, float* out_TD, ThreadPool& pool) {
  for_rows(rows, width, pool,
           [&](int64_t t, int64_t n) { ops().rms_norm(x_TD + t * width, n, width, gain_D, eps, out_TD + t * width); });
}

void layer_norm(const float* x_TD, int64_t rows, int64_t width, const float* gain_D, const float* bias_D, float eps, float* out_TD,
                ThreadPool& pool) {
  for_rows(rows, width, pool,
           [&](int64_t t, int64_t n) { ops().layer_norm(x_TD + t * width, n, width, gain_D, bias_D, eps, out_TD + t * width); });
}

void add(float* x_TD, const float* y_TD, int64_t rows, int64_t width, ThreadPool& pool) {
  for_rows(rows, width, pool, [&](int64_t t, int64_t n) { ops().add(x_TD + t * width, y_TD + t * width, n * width); });
}

void swiglu(const float* gate_TF, const float* up_TF, int64_t rows, int64_t width, int64_t ldg, float* out_TF, ThreadPool& pool) {
  const auto some = [&](int64_t first, int64_t n) {
    for (int64_t t = first; t < first + n; t++) ops().swiglu(gate_TF + t * ldg, up_TF + t * ldg, width, out_TF + t * width);
  };
  // In place in a fused gate|up buffer, row t lands on rows that are read before it: right only in ascending order.
  const bool overlaps = out_TF + rows * width > gate_TF && out_TF < std::max(gate_TF, up_TF) + rows * ldg;
  if (overlaps && ldg != width) return some(0, rows);
  for_rows(rows, width, pool, some, kPieceExponentials);
}

void gelu(float* x_TF, int64_t rows, int64_t width, bool tanh_form, ThreadPool& pool) {
  for_rows(
      rows, width, pool, [&](int64_t t, int64_t n) { ops().gelu(x_TF + t * width, n * width, tanh_form); }, kPieceExponentials);
}

void rotate(float* x_THK, int64_t rows, int64_t ldx, int32_t heads, int32_t head_width, int32_t half, const float* cos_TK2,
            const float* sin_TK2, ThreadPool& pool) {
  SLIP_CHECK(2 * half <= head_width, "pairs lie inside a head");
  for_rows(rows, int64_t{heads} * head_width, pool, [&](int64_t t, int64_t n) {
    ops().rotate({.x_THK = x_THK + t * ldx,
                  .rows = n,
                  .ldx = ldx,
                  .heads = heads,
                  .width = head_width,
                  .half = half,
                  .cos_TK2 = cos_TK2 + t * half,
                  .sin_TK2 = sin_TK2 + t * half});
  });
}

}  // namespace slip
