// SPDX-License-Identifier: Apache-2.0
// Products with packed weights, plain and fused (pieces.h says how they are cut).
#include <unistd.h>

#include "base/check.h"
#include "base/clock/operation_clock.h"
#include "kernels/pieces.h"

namespace slip {
namespace {

constexpr int64_t kPackNumbers = 32 << 10;  // of activations in a piece: 1.7 us
constexpr int64_t kAloneNumbers = 8 << 10;  // below, the gates of all rows cost less than handing them out
constexpr int kSlotGateUp = 63;             // of matmul_swiglu where blocks of gate and up do not match

int64_t l1_bytes() {
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  static const int64_t bytes = ::sysconf(_SC_LEVEL1_DCACHE_SIZE);
  return bytes;
#else
  return 0;
#endif
}

void check_input(const PackedMatrix& w, const ProductInput& x) {
  SLIP_CHECK(x.ldx >= w.k() || x.rows == 1, "rows of x do not overlap");
}

/// Gate and up columns of the same 64 places lie in whole blocks, `f / 64` apart.
void swiglu_in_blocks(const PackedMatrix& w, const ProductInput& in, const float* bias_2F, float* out_TF, int64_t ldo,
                      ThreadPool& pool, Workspace& workspace) {
  const PackedLayout layout(w.type(), w.n(), w.k());
  const PackedInput x = pack_input(w, layout, in, pool, workspace);
  const int64_t units = layout.blocks / 2;
  const Ops& o = ops();
  const auto finish = o.finish[static_cast<int>(w.type())];
  run_pieces(units, 2 * layout.block_bytes, 2 * kBlockColumns * w.k(), in.rows, pool,
             [&](int64_t first, int64_t last, int64_t after, int64_t t, int64_t n) {
               alignas(64) Word sums[kGroupRows * kBlockColumns];
               alignas(64) float gate[kGroupRows * kBlockColumns], up[kGroupRows * kBlockColumns];
               for (int64_t u = first; u < last; u++) {
                 for (const bool second : {false, true}) {
                   const int64_t block = second ? units + u : u, next = !second ? units + u : u + 1 < last ? u + 1 : after;
                   block_sums(w, layout, x, block, next, t, n, sums);
                   FinishArgs f = finish_args(w, layout, x, block, t, n, sums);
                   f.bias = bias_2F ? bias_2F + block * kBlockColumns : nullptr;
                   f.out = second ? up : gate;
                   f.ldo = kBlockColumns;
                   finish(f);
                 }
                 const OperationScope gating("activation");
                 for (int64_t r = 0; r < n; r++)
                   o.swiglu(gate + r * kBlockColumns, up + r * kBlockColumns, kBlockColumns,
                            out_TF + (t + r) * ldo + u * kBlockColumns);
               }
             });
}

}  // namespace

PackedInput pack_input(const PackedMatrix& w, const PackedLayout& layout, const ProductInput& in, ThreadPool& pool,
                       Workspace& workspace) {
  if (w.type() == WeightType::kF32 && in.gain_K == nullptr)
    return {reinterpret_cast<const Word*>(in.x_TK), in.ldx, kChunkSteps, nullptr};
  const OperationScope packing("norm and packing");
  const int64_t line = kChunkSteps * ops().x_words[static_cast<int>(w.type())], chunk = in.rows * line;
  const int64_t chunks = (layout.steps + kChunkSteps - 1) / kChunkSteps;
  Word* words = workspace.get<Word>(kSlotWords, static_cast<size_t>(chunks * chunk));
  float* scales = workspace.get<float>(kSlotScales, static_cast<size_t>(in.rows));
  const auto pack = ops().pack_x[static_cast<int>(w.type())];
  const int64_t piece = std::max<int64_t>(1, kPackNumbers / w.k()), pieces = (in.rows + piece - 1) / piece;
  const auto some = [&](int64_t i) {
    const int64_t t = i * piece;
    pack({.x_TK = in.x_TK + t * in.ldx,
          .rows = std::min(piece, in.rows - t),
          .k = w.k(),
          .ldx = in.ldx,
          .gain_K = in.gain_K,
          .eps = in.eps,
          .words = words + t * line,
          .steps = layout.steps,
          .chunk = chunk,
          .scales_T = scales + t});
  };
  if (pieces == 1)
    some(0);
  else
    pool.run(pieces, some);
  return {words, line, chunk, scales};
}

void block_sums(const PackedMatrix& w, const PackedLayout& layout, const PackedInput& x, int64_t block, int64_t next, int64_t t,
                int64_t rows, Word* sums) {
  const std::byte* data = static_cast<const std::byte*>(w.data());
  ops().product[static_cast<int>(w.type())]({.x = x.x + t * x.ldx,
                                             .ldx = x.ldx,
                                             .chunk = x.chunk,
                                             .rows = rows,
                                             .steps = layout.steps,
                                             .columns = std::min(kBlockColumns, w.n() - block * kBlockColumns),
                                             .w = data + block * layout.block_bytes,
                                             .next = next < 0 ? nullptr : data + next * layout.block_bytes,
                                             .l1_bytes = l1_bytes(),
                                             .sums = sums});
}

FinishArgs finish_args(const PackedMatrix& w, const PackedLayout& layout, const PackedInput& x, int64_t block, int64_t t,
                       int64_t rows, const Word* sums) {
  FinishArgs f{.sums = sums, .rows = rows, .columns = std::min(kBlockColumns, w.n() - block * kBlockColumns)};
  if (is_integer(w.type())) {
    const std::byte* data = static_cast<const std::byte*>(w.data());
    f.x_scales = x.scales + t;
    f.w_scales = reinterpret_cast<const float*>(data + layout.scales_at) + block * kBlockColumns;
    f.w_sums = reinterpret_cast<const int32_t*>(data + layout.sums_at) + block * kBlockColumns;
  }
  return f;
}

void matmul(const PackedMatrix& w, const ProductInput& in, const ProductOutput& out, ThreadPool& pool, Workspace& workspace) {
  if (in.rows <= 0) return;
  check_input(w, in);
  SLIP_CHECK(out.ldo >= w.n() || in.rows == 1, "rows of out do not overlap");
  const PackedLayout layout(w.type(), w.n(), w.k());
  const PackedInput x = pack_input(w, layout, in, pool, workspace);
  const auto finish = ops().finish[static_cast<int>(w.type())];
  run_pieces(layout.blocks, layout.block_bytes, kBlockColumns * w.k(), in.rows, pool,
             [&](int64_t first, int64_t last, int64_t after, int64_t t, int64_t n) {
               alignas(64) Word sums[kGroupRows * kBlockColumns];
               for (int64_t b = first; b < last; b++) {
                 block_sums(w, layout, x, b, b + 1 < last ? b + 1 : after, t, n, sums);
                 FinishArgs f = finish_args(w, layout, x, b, t, n, sums);
                 f.bias = out.bias_N ? out.bias_N + b * kBlockColumns : nullptr;
                 f.out = out.out_TN + t * out.ldo + b * kBlockColumns;
                 f.ldo = out.ldo;
                 f.accumulate = out.accumulate;
                 finish(f);
               }
             });
}

void matmul(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, const float* bias_N, float* out_TN, int64_t ldo,
            ThreadPool& pool, Workspace& workspace) {
  matmul(w, {.x_TK = x_TK, .rows = rows, .ldx = ldx}, {.out_TN = out_TN, .ldo = ldo, .bias_N = bias_N}, pool, workspace);
}

void matmul_swiglu(const PackedMatrix& gate_up, const ProductInput& x, const float* bias_2F, float* out_TF, int64_t ldo,
                   ThreadPool& pool, Workspace& workspace) {
  if (x.rows <= 0) return;
  const int64_t f = gate_up.n() / 2;
  check_input(gate_up, x);
  SLIP_CHECK(gate_up.n() % 2 == 0 && (ldo >= f || x.rows == 1), "gate and up are of one size, rows of out do not overlap");
  if (f % kBlockColumns == 0) return swiglu_in_blocks(gate_up, x, bias_2F, out_TF, ldo, pool, workspace);
  float* both = workspace.get<float>(kSlotGateUp, static_cast<size_t>(x.rows * 2 * f));
  matmul(gate_up, x, {.out_TN = both, .ldo = 2 * f, .bias_N = bias_2F}, pool, workspace);
  const OperationScope gating("activation");
  const int64_t each = std::max<int64_t>(1, kAloneNumbers / f), pieces = (x.rows + each - 1) / each;
  const auto some = [&](int64_t i) {
    for (int64_t t = i * each; t < std::min(x.rows, (i + 1) * each); t++)
      ops().swiglu(both + t * 2 * f, both + t * 2 * f + f, f, out_TF + t * ldo);
  };
  if (pieces == 1)
    some(0);
  else
    pool.run(pieces, some);
}

}  // namespace slip
