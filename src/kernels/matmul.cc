// SPDX-License-Identifier: Apache-2.0
// Products with packed weights, cut into pieces of (some column blocks) x (up to 64 rows). A piece's sums live on the
// stack, so that bias, scales and argmax are applied to finished numbers and ragged columns need no second path.
#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "kernels/kernels.h"
#include "kernels/ops.h"
#include "kernels/packed_layout.h"

namespace slip {
namespace {

constexpr int kSlotWords = 60, kSlotScales = 61, kSlotBest = 62;  // workspace slots of the kernels: 60 and up
constexpr int64_t kPieceBytes = 256 << 10;  // weights per piece when rows are few: 0.25-0.5 MB hides the counter's cost
constexpr int64_t kFewStripes = 16, kSplitRows = 16;
constexpr int64_t kCallerWork =
    150'000;  // about 2 us: handing out and meeting again takes 0.2 to 0.9 us, as cores lie to each other
constexpr int64_t kPackNumbers = 32 << 10;  // of activations in a piece: 1.7 us

struct Best {
  float value;
  int32_t id;
};

/// Activations in words, packed where the type asks for it.
struct Words {
  const Word* x;
  int64_t ldx;
  const float* scales;
};

Words pack_activations(const PackedMatrix& w, const PackedLayout& layout, const float* x_TK, int64_t rows, int64_t ldx,
                       ThreadPool& pool, Workspace& workspace) {
  const auto pack = ops().pack_x[static_cast<int>(w.type())];
  if (pack == nullptr) return {reinterpret_cast<const Word*>(x_TK), ldx, nullptr};
  Word* words = workspace.get<Word>(kSlotWords, static_cast<size_t>(rows * layout.steps));
  float* scales = workspace.get<float>(kSlotScales, static_cast<size_t>(rows));
  const int64_t piece = std::max<int64_t>(1, kPackNumbers / w.k()), pieces = (rows + piece - 1) / piece;
  const auto some = [&](int64_t i) {
    const int64_t t = i * piece;
    pack(x_TK + t * ldx, std::min(piece, rows - t), w.k(), ldx, words + t * layout.steps, layout.steps, scales + t);
  };
  if (pieces == 1)
    some(0);
  else
    pool.run(pieces, some);
  return {words, layout.steps, scales};
}

/// Calls take(block, first_row, rows, sums) for every column block and row group, from any thread.
template <class Take>
void for_each_block(const PackedMatrix& w, const PackedLayout& layout, const Words& x, int64_t rows, ThreadPool& pool,
                    const Take& take) {
  const auto product = ops().product[static_cast<int>(w.type())];
  const Word* data = static_cast<const Word*>(w.data());
  const int64_t per_block = layout.block_words * static_cast<int64_t>(sizeof(Word));
  const int64_t fair = std::max<int64_t>(1, layout.blocks / (4 * pool.threads()));
  const int64_t blocks_each = std::clamp<int64_t>(kPieceBytes / per_block, 1, fair);
  const int64_t stripes = (layout.blocks + blocks_each - 1) / blocks_each;
  // With few stripes one more or less is a lot (224 columns are 2 and 1.5 blocks for two threads): rows are cut as well. Weights
  // are then read more than once, but neighbouring pieces run at about the same time, and 16 rows keep the dot products busy.
  const bool few = pool.threads() > 1 && stripes <= kFewStripes * pool.threads();
  const int64_t rows_each = few && rows >= 2 * kSplitRows ? kSplitRows : kGroupRows;
  const int64_t groups = (rows + rows_each - 1) / rows_each;
  const auto piece = [&](int64_t i) {
    const int64_t first = i / groups * blocks_each, last = std::min(first + blocks_each, layout.blocks);
    const int64_t t = i % groups * rows_each, n = std::min(rows_each, rows - t);
    alignas(64) Word sums[kGroupRows * kBlockColumns];
    for (int64_t b = first; b < last; b++) {
      product({.x = x.x + t * x.ldx,
               .ldx = x.ldx,
               .rows = n,
               .steps = layout.steps,
               .columns = std::min(kBlockColumns, w.n() - b * kBlockColumns),
               .w = data + b * layout.block_words,
               .w_end = data + last * layout.block_words,
               .sums = sums});
      take(b, t, n, sums);
    }
  };
  const int64_t pieces = stripes * groups;
  if (pool.threads() == 1 || pieces == 1 || w.n() * w.k() * (4 + rows) / 4 < kCallerWork) {
    for (int64_t i = 0; i < pieces; i++) piece(i);
  } else {
    pool.run(pieces, piece);
  }
}

FinishArgs finish_args(const PackedMatrix& w, const PackedLayout& layout, const Words& x, int64_t block, int64_t t, int64_t rows,
                       const Word* sums) {
  FinishArgs f{.sums = sums, .rows = rows, .columns = std::min(kBlockColumns, w.n() - block * kBlockColumns)};
  if (w.type() == WeightType::kI8) {
    f.x_scales = x.scales + t;
    f.w_scales = w.scales() + block * kBlockColumns;
    f.w_sums = reinterpret_cast<const int32_t*>(static_cast<const Word*>(w.data()) + layout.sums_at) + block * kBlockColumns;
  }
  return f;
}

void take_better(Best& best, float value, int32_t id) {
  if (std::isnan(value)) return;
  if (best.id < 0 || value > best.value || (value == best.value && id < best.id)) best = {value, id};
}

}  // namespace

void matmul(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, const float* bias_N, float* out_TN, int64_t ldo,
            ThreadPool& pool, Workspace& workspace) {
  if (rows <= 0) return;
  SLIP_CHECK(ldx >= w.k() || rows == 1, "rows of x do not overlap");
  SLIP_CHECK(ldo >= w.n() || rows == 1, "rows of out do not overlap");
  const PackedLayout layout(w.type(), w.n(), w.k());
  const Words x = pack_activations(w, layout, x_TK, rows, ldx, pool, workspace);
  const auto finish = ops().finish[static_cast<int>(w.type())];
  for_each_block(w, layout, x, rows, pool, [&](int64_t block, int64_t t, int64_t n, const Word* sums) {
    FinishArgs f = finish_args(w, layout, x, block, t, n, sums);
    f.bias = bias_N ? bias_N + block * kBlockColumns : nullptr;
    f.out = out_TN + t * ldo + block * kBlockColumns;
    f.ldo = ldo;
    finish(f);
  });
}

void matmul_argmax(const PackedMatrix& w, const float* x_TK, int64_t rows, int64_t ldx, TokenId* out_T, float* best_T,
                   ThreadPool& pool, Workspace& workspace) {
  if (rows <= 0) return;
  const PackedLayout layout(w.type(), w.n(), w.k());
  const Words x = pack_activations(w, layout, x_TK, rows, ldx, pool, workspace);
  const auto finish = ops().finish[static_cast<int>(w.type())];
  Best* best_TB = workspace.get<Best>(kSlotBest, static_cast<size_t>(rows * layout.blocks));
  for_each_block(w, layout, x, rows, pool, [&](int64_t block, int64_t t, int64_t n, const Word* sums) {
    alignas(64) float values[kGroupRows * kBlockColumns];
    FinishArgs f = finish_args(w, layout, x, block, t, n, sums);
    f.out = values;
    f.ldo = kBlockColumns;
    finish(f);
    for (int64_t r = 0; r < n; r++) {
      const int64_t id = argmax({values + r * kBlockColumns, static_cast<size_t>(f.columns)});
      best_TB[(t + r) * layout.blocks + block] =
          id < 0 ? Best{NAN, -1} : Best{values[r * kBlockColumns + id], static_cast<int32_t>(block * kBlockColumns + id)};
    }
  });
  for (int64_t t = 0; t < rows; t++) {
    Best best{NAN, -1};
    for (int64_t b = 0; b < layout.blocks; b++)
      take_better(best, best_TB[t * layout.blocks + b].value, best_TB[t * layout.blocks + b].id);
    out_T[t] = TokenId{best.id};
    if (best_T) best_T[t] = best.value;
  }
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
