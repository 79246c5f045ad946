// SPDX-License-Identifier: Apache-2.0
// The head's product with what is wanted of its logits, which are never stored: argmax, the runner-up and log-sum-exp over allowed
// ids. Contract W: a block's 64 logits give one LogitStats in one order, and a row's blocks are put together in ascending order by
// one thread, so nothing depends on how pieces were cut. Blocks without an allowed id count for nothing, computed or not.
#include <cmath>

#include "base/check.h"
#include "kernels/pieces.h"

namespace slip {
namespace {

using List = std::span<const TokenId>;

/// The blocks to compute, and per list a bit per column of each.
struct Allowed {
  int64_t used = 0;
  const int32_t* block_U = nullptr;  // null: all blocks
  const uint64_t* mask_LU = nullptr;
  int64_t lists = 0;
  int64_t block(int64_t u) const { return block_U ? block_U[u] : u; }
  /// Columns of the u-th used block that row t may take; `width`: how many the block has.
  uint64_t mask(int64_t t, int64_t u, int64_t width) const {
    const uint64_t all = width == kBlockColumns ? ~uint64_t{0} : (uint64_t{1} << width) - 1;
    return mask_LU ? mask_LU[(lists == 1 ? 0 : t) * used + u] & all : all;
  }
};

Allowed find_blocks(const PackedMatrix& w, int64_t blocks, std::span<const List> lists, uint64_t* masks, int32_t* used_blocks,
                    int32_t* index_B) {
  Allowed out{.lists = static_cast<int64_t>(lists.size())};
  std::fill_n(index_B, blocks, -1);
  for (const List& list : lists) {
    if (list.empty()) std::fill_n(index_B, blocks, 0);
    for (size_t i = 0; i < list.size(); i++) {
      SLIP_CHECK(list[i].value >= 0 && list[i].value < w.n() && (i == 0 || list[i - 1].value < list[i].value),
                 "allowed ids ascend inside the vocabulary");
      index_B[list[i].value / kBlockColumns] = 0;
    }
  }
  for (int64_t b = 0; b < blocks; b++)
    if (index_B[b] == 0) {
      index_B[b] = static_cast<int32_t>(out.used);
      used_blocks[out.used++] = static_cast<int32_t>(b);
    }
  for (size_t l = 0; l < lists.size(); l++) {
    uint64_t* mask_U = masks + static_cast<int64_t>(l) * out.used;
    std::fill_n(mask_U, out.used, lists[l].empty() ? ~uint64_t{0} : 0);
    for (const TokenId id : lists[l]) mask_U[index_B[id.value / kBlockColumns]] |= uint64_t{1} << (id.value % kBlockColumns);
  }
  out.block_U = used_blocks;
  out.mask_LU = masks;
  return out;
}

bool takes_over(const LogitStats& a, const LogitStats& best) { return a.at >= 0 && (best.at < 0 || a.largest > best.largest); }

/// All of one row's blocks, ascending.
void combine(const LogitStats* stats_U, const Allowed& allowed, int64_t t, const HeadOutput& out) {
  LogitStats best{NAN, -INFINITY, 0, -1};
  for (int64_t u = 0; u < allowed.used; u++) {
    const LogitStats& s = stats_U[u];
    if (s.at < 0) continue;
    if (takes_over(s, best)) {
      const float second = best.at < 0 ? s.second : std::max(best.largest, s.second);
      best = {s.largest, std::max(best.second, second), 0, static_cast<int32_t>(allowed.block(u) * kBlockColumns + s.at)};
    } else {
      best.second = std::max(best.second, s.largest);
    }
  }
  if (out.best_T) out.best_T[t] = TokenId{best.at};
  if (out.largest_T) out.largest_T[t] = best.largest;
  if (out.second_T) out.second_T[t] = best.second;
  if (out.log_sum_exp_T) {
    const float sum = ops().sum_of_stats(stats_U, allowed.used, best.at < 0 ? 0.0F : best.largest);
    const float top = best.at < 0 ? NAN : best.largest;
    out.log_sum_exp_T[t] = std::isinf(top) && !std::isnan(sum) ? top : top + std::log(sum);
  }
}

}  // namespace

void matmul_head(const PackedMatrix& w, const ProductInput& in, std::span<const std::span<const TokenId>> allowed_T,
                 const HeadOutput& out, ThreadPool& pool, Workspace& workspace) {
  if (in.rows <= 0) return;
  SLIP_CHECK(in.ldx >= w.k() || in.rows == 1, "rows of x do not overlap");
  SLIP_CHECK(allowed_T.size() <= 1 || static_cast<int64_t>(allowed_T.size()) == in.rows,
             "no list, one for all rows, or one per row");
  const PackedLayout layout(w.type(), w.n(), w.k());
  const PackedInput x = pack_input(w, layout, in, pool, workspace);
  // Stats of every row and block; then the lists' masks, the used blocks and their places.
  const size_t lists = allowed_T.size(), blocks = static_cast<size_t>(layout.blocks), rows = static_cast<size_t>(in.rows);
  std::byte* scratch = workspace.get<std::byte>(
      kSlotStats, rows * blocks * sizeof(LogitStats) + lists * blocks * sizeof(uint64_t) + 2 * blocks * sizeof(int32_t));
  LogitStats* stats_TU = reinterpret_cast<LogitStats*>(scratch);
  uint64_t* masks = reinterpret_cast<uint64_t*>(stats_TU + rows * blocks);
  int32_t* used = reinterpret_cast<int32_t*>(masks + lists * blocks);
  const bool restricted = std::any_of(allowed_T.begin(), allowed_T.end(), [](const List& list) { return !list.empty(); });
  Allowed allowed{.used = layout.blocks};
  if (restricted) allowed = find_blocks(w, layout.blocks, allowed_T, masks, used, used + blocks);
  const Ops& o = ops();
  const auto finish = o.finish[static_cast<int>(w.type())];
  run_pieces(allowed.used, layout.block_bytes, kBlockColumns * w.k(), in.rows, pool,
             [&](int64_t first, int64_t last, int64_t after, int64_t t, int64_t n) {
               alignas(64) Word sums[kGroupRows * kBlockColumns];
               alignas(64) float values[kGroupRows * kBlockColumns];
               for (int64_t u = first; u < last; u++) {
                 const int64_t block = allowed.block(u);
                 const int64_t next = u + 1 < last ? u + 1 : after;
                 block_sums(w, layout, x, block, next < 0 ? -1 : allowed.block(next), t, n, sums);
                 FinishArgs f = finish_args(w, layout, x, block, t, n, sums);
                 f.out = values;
                 f.ldo = kBlockColumns;
                 finish(f);
                 for (int64_t r = 0; r < n; r++)
                   o.stats({.values = values + r * kBlockColumns,
                            .allowed = allowed.mask(t + r, u, f.columns),
                            .sum = out.log_sum_exp_T != nullptr,
                            .out = &stats_TU[(t + r) * allowed.used + u]});
               }
             });
  const auto row = [&](int64_t t) { combine(stats_TU + t * allowed.used, allowed, t, out); };
  if (in.rows > 1 && allowed.used > 256)
    pool.run(in.rows, row);
  else
    for (int64_t t = 0; t < in.rows; t++) row(t);
}

void matmul_argmax(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, TokenId* out_T, float* best_T,
                   ThreadPool& pool, Workspace& workspace) {
  matmul_head(w, {.x_TK = x_TK, .rows = rows, .ldx = ldx}, {}, {.best_T = out_T, .largest_T = best_T}, pool, workspace);
}

int64_t argmax(std::span<const float> x) {
  int64_t best = -1;
  float value = NAN;
  for (size_t i = 0; i < x.size(); i++) {
    if (x[i] > value || (best < 0 && !std::isnan(x[i]))) {
      best = static_cast<int64_t>(i);
      value = x[i];
    }
  }
  return best;
}

}  // namespace slip
