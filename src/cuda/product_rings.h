// SPDX-License-Identifier: Apache-2.0
// What a product's blocks go through, and how it gets to them: the cuts of a matrix into runs, rings of tiles in shared memory, and the warps that
// fill these. For product.cu alone.
#pragma once
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"

namespace slip::cuda {

using namespace gpu;  // NOLINT: for kernels alone

constexpr int kGroupThreads = 128,
              kProducerThreads = 128;  // two of four warps fill rings; registers are given away by 128 threads at once
constexpr int kLineBytes = kInnerStep * 2;
constexpr int kMostStages = 16;
constexpr int kMostRows = 192;  // of a block; their sums leave no registers for the error function
constexpr int kGroupWarps = kGroupThreads / 32;
constexpr size_t kPartOfProcessor = size_t{85} << 10, kHalfProcessor = size_t{112} << 10, kWholeProcessor = size_t{227} << 10;

struct ProductPlan {
  ProductArgs a;
  int32_t weight_stages, row_stages;
  int32_t first_row;   // run by run
  int32_t row_blocks;  // tile by tile
};

/// Where the runs of a matrix begin. A tile of few is cut into equal parts, so that a run has one tile; many tiles lie in a line.
struct Cuts {
  int steps, total, parts, runs;  // steps of a tile and of all; of a tile, or 0; of the matrix
  __host__ __device__ Cuts(const Tiles& w) : steps(w.steps), total(w.steps * w.tiles), parts(kRuns / w.tiles) {
    if (parts > steps) parts = steps;
    if (parts < 2) parts = 0;
    runs = parts > 0 ? w.tiles * parts : total < kRuns ? total : kRuns;
  }
  // 132 times the steps fit 32 bits for matrices of up to 66 billion numbers.
  __device__ int begin(int run) const { return parts > 0 ? run / parts * steps + run % parts * steps / parts : run * total / runs; }
  __device__ int run_of(int step) const {
    return parts > 0 ? step / steps * parts + ((step % steps + 1) * parts - 1) / steps : ((step + 1) * runs - 1) / total;
  }
};

/// A tile's sums as choices are made among them: rows of two halves of 32 channels, apart so that 32 threads that walk a half each
/// meet 32 banks.
constexpr int kHalfTile = kTileChannels / 2, kHalfStride = kHalfTile + 1, kScoreStride = 2 * kHalfStride;

template <int kGroups, int kRows, bool kBytes>
struct Rings {
  static constexpr int kTileBytes = kTileNumbers * (kBytes ? 1 : 2);
  static constexpr int kWeightBytes = kGroups * kTileBytes, kRowBytes = kRows * kLineBytes;
  unsigned char *weights, *rows;
  Signal *weights_full, *weights_empty, *rows_full, *rows_empty;
  int* last;
  float* scores;
  __device__ Rings(const ProductPlan& p) {
    weights = shared();
    rows = weights + p.weight_stages * kWeightBytes;
    weights_full = reinterpret_cast<Signal*>(rows + p.row_stages * kRowBytes);
    weights_empty = weights_full + kMostStages;
    rows_full = weights_empty + kMostStages;
    rows_empty = rows_full + kMostStages;
    last = reinterpret_cast<int*>(rows_empty + kMostStages);
    scores = reinterpret_cast<float*>(last + 4);
  }
  static constexpr size_t fixed_bytes(Then then) {
    return 4 * kMostStages * sizeof(Signal) + 16 + (then == Then::kChoice ? kRows * kScoreStride * sizeof(float) : 0);
  }
};

/// A place in a ring of `stages`.
struct Place {
  int stage = 0;
  uint32_t parity = 0;
  __device__ void next(int stages) {
    if (++stage < stages) return;
    stage = 0;
    parity ^= 1;
  }
  __device__ int before(int back, int stages) const { return stage >= back ? stage - back : stage - back + stages; }
};

/// A stretch of steps: `count` from `first` on for the first group, and from one tile further for the next; and the first of its rows.
struct Work {
  int first, count, row;
};

/// A block's stretches one after the other: its run; or, tile by tile, every so-many-th.
template <int kGroups, int kRows>
struct Works {
  int next, end;
  __device__ Works(const ProductPlan& p) : next(block_x()), end(kGroups == 1 ? next + 1 : p.a.w.tiles / kGroups * p.row_blocks) {}
  __device__ bool more() const { return next < end; }
  __device__ Work take(const ProductPlan& p, const Cuts& cuts) {
    const int i = next;
    next += blocks_x();
    if (kGroups == 1) {
      const int first = cuts.begin(i);
      return {first, cuts.begin(i + 1) - first, p.first_row};
    }
    // Rows first: the blocks that run at a time read few weights.
    return {kGroups * (i / p.row_blocks) * cuts.steps, cuts.steps, i % p.row_blocks * kRows};
  }
};

template <int kGroups, int kRows, bool kBytes>
__device__ inline void fill_weights(const ProductPlan& p, const Rings<kGroups, kRows, kBytes>& rings, const Cuts& cuts) {
  const char* w = static_cast<const char*>(p.a.w.data);
  Place at;
  int filled = 0;
  for (Works<kGroups, kRows> works(p); works.more();) {
    const Work work = works.take(p, cuts);
    for (int i = 0; i < work.count; ++i, at.next(p.weight_stages)) {
      if (++filled > p.weight_stages) signal_wait(rings.weights_empty + at.stage, at.parity ^ 1);
      Signal* full = rings.weights_full + at.stage;
      begin_fill(full, rings.kWeightBytes);
#pragma unroll
      for (int g = 0; g < kGroups; ++g)
        fill(rings.weights + at.stage * rings.kWeightBytes + g * rings.kTileBytes,
             w + static_cast<size_t>(work.first + g * cuts.steps + i) * rings.kTileBytes, rings.kTileBytes, full);
      end_fill(full);
    }
  }
}

template <int kGroups, int kRows, bool kBytes>
__device__ inline void fill_rows(const ProductPlan& p, const Rings<kGroups, kRows, kBytes>& rings, const Cuts& cuts) {
  const size_t step_bytes = static_cast<size_t>(p.a.x_TK.room) * kLineBytes;
  Place at;
  int filled = 0;
  for (Works<kGroups, kRows> works(p); works.more();) {
    const Work work = works.take(p, cuts);
    const char* x = reinterpret_cast<const char*>(p.a.x_TK.data) + static_cast<size_t>(work.row) * kLineBytes;
    int k = work.first % cuts.steps;
    for (int i = 0; i < work.count; ++i, at.next(p.row_stages)) {
      if (++filled > p.row_stages) signal_wait(rings.rows_empty + at.stage, at.parity ^ 1);
      Signal* full = rings.rows_full + at.stage;
      begin_fill(full, rings.kRowBytes);
      fill(rings.rows + at.stage * rings.kRowBytes, x + static_cast<size_t>(k) * step_bytes, rings.kRowBytes, full);
      end_fill(full);
      if (++k == cuts.steps) k = 0;
    }
  }
}

}  // namespace slip::cuda
