// SPDX-License-Identifier: Apache-2.0
// Products of a pass on a device; contracts in kernels.h. Weights come as 8 KiB tiles by bulk copies into a ring in shared memory, rows into a
// ring of their own. One warp fills each; warpgroups of 128 threads multiply, 64 channels each. Weights do not depend on what an
// earlier kernel does: their ring is full before that kernel has ended.
//
// Up to 128 rows, a block takes one of 132 runs of all tiles' steps [stream-K, Osama et al. 2023], so that every processor reads the same number of
// bytes. Tiles that runs share are summed by the last of them to arrive. Above, a block takes two tiles and 128 or 192 rows, and makes the same
// cuts in its own sums.
#include "cuda/choice.h"
#include "cuda/gpu.h"
#include "cuda/kernels.h"
#include "cuda/numbers.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kGroupThreads = 128, kProducerThreads = 128;
constexpr int kTileBytes = kTileNumbers * 2, kLineBytes = kInnerStep * 2;
constexpr int kMostStages = 16;
constexpr int kGroupWarps = kGroupThreads / 32;

struct ProductPlan {
  ProductArgs a;
  int32_t weight_stages, row_stages;
  int32_t first_row;
};

/// Where the runs of a matrix begin.
struct Cuts {
  int steps, total, runs;  // of a tile; of all tiles
  __host__ __device__ Cuts(const Tiles& w) : steps(w.steps), total(w.steps * w.tiles), runs(total < kRuns ? total : kRuns) {}
  // 132 times the steps fit 32 bits for matrices of up to 66 billion numbers.
  __device__ int begin(int run) const { return run * total / runs; }
  __device__ int run_of(int step) const { return ((step + 1) * runs - 1) / total; }
};

template <int kGroups, int kRows>
struct Rings {
  static constexpr int kWeightBytes = kGroups * kTileBytes, kRowBytes = kRows * kLineBytes;
  unsigned char *weights, *rows;
  Signal *weights_full, *weights_empty, *rows_full, *rows_empty;
  Choice* found;  // of a tile's four warps, by row
  int* last;
  __device__ Rings(const ProductPlan& p) {
    weights = shared();
    rows = weights + p.weight_stages * kWeightBytes;
    weights_full = reinterpret_cast<Signal*>(rows + p.row_stages * kRowBytes);
    weights_empty = weights_full + kMostStages;
    rows_full = weights_empty + kMostStages;
    rows_empty = rows_full + kMostStages;
    last = reinterpret_cast<int*>(rows_empty + kMostStages);
    found = reinterpret_cast<Choice*>(last + 4);
  }
  static constexpr size_t fixed_bytes() {
    return 4 * kMostStages * sizeof(Signal) + 16 + (kGroups == 1 ? kGroupWarps * kRows * sizeof(Choice) : 0);
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

/// The steps of a block: `count` from `first` on for the first group, and from one tile further for the next.
struct Work {
  int first, count;
};

template <int kGroups>
__device__ inline Work work_of(const Cuts& cuts) {
  if (kGroups > 1) return {block_x() * kGroups * cuts.steps, cuts.steps};
  const int first = cuts.begin(block_x());
  return {first, cuts.begin(block_x() + 1) - first};
}

template <int kGroups, int kRows>
__device__ inline void fill_weights(const ProductPlan& p, const Rings<kGroups, kRows>& rings, const Cuts& cuts) {
  const Work work = work_of<kGroups>(cuts);
  const char* w = static_cast<const char*>(p.a.w.data);
  Place at;
  for (int i = 0; i < work.count; ++i, at.next(p.weight_stages)) {
    if (i >= p.weight_stages) signal_wait(rings.weights_empty + at.stage, at.parity ^ 1);
    Signal* full = rings.weights_full + at.stage;
    begin_fill(full, rings.kWeightBytes);
#pragma unroll
    for (int g = 0; g < kGroups; ++g)
      fill(rings.weights + at.stage * rings.kWeightBytes + g * kTileBytes,
           w + static_cast<size_t>(work.first + g * cuts.steps + i) * kTileBytes, kTileBytes, full);
    end_fill(full);
  }
}

template <int kGroups, int kRows>
__device__ inline void fill_rows(const ProductPlan& p, const Rings<kGroups, kRows>& rings, const Cuts& cuts) {
  const Work work = work_of<kGroups>(cuts);
  const char* x = reinterpret_cast<const char*>(p.a.x_TK.data) + static_cast<size_t>(p.first_row + block_y() * kRows) * kLineBytes;
  const size_t step_bytes = static_cast<size_t>(p.a.x_TK.room) * kLineBytes;
  int k = work.first % cuts.steps;
  Place at;
  for (int i = 0; i < work.count; ++i, at.next(p.row_stages)) {
    if (i >= p.row_stages) signal_wait(rings.rows_empty + at.stage, at.parity ^ 1);
    Signal* full = rings.rows_full + at.stage;
    begin_fill(full, rings.kRowBytes);
    fill(rings.rows + at.stage * rings.kRowBytes, x + static_cast<size_t>(k) * step_bytes, rings.kRowBytes, full);
    end_fill(full);
    if (++k == cuts.steps) k = 0;
  }
}

/// Where a thread's sums belong: sum 4 j + e is row 8 j + row(e), channel channel(e) of the tile.
struct Lane {
  int warp, g, t;
  __device__ Lane() : warp(thread() / 32 % kGroupWarps), g(thread() % 32 / 4), t(thread() % 4) {}
  __device__ int row(int e) const { return 2 * t + e % 2; }
  __device__ int channel(int e) const { return 16 * warp + g + 8 * (e / 2); }
};

template <int kRows>
__device__ inline void store_sums(const ProductArgs& a, const float (&sums)[kRows / 2], int tile, int first_row, int rows) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int n = tile * kTileChannels + lane.channel(2 * half);
    if (n >= a.w.n) continue;
    const float bias = a.bias_N ? a.bias_N[n] : 0.0F;
    int row = first_row + lane.row(0);
    float* out = a.out + static_cast<size_t>(row) * static_cast<size_t>(a.ldo) + n;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j, row += 8, out += 8 * static_cast<size_t>(a.ldo))
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (row + e >= rows) continue;
        const float sum = sums[4 * j + 2 * half + e] + bias;
        float* to = e == 0 ? out : out + a.ldo;
        *to = a.then == Then::kAdd ? *to + sum : sum;
      }
  }
}

template <int kRows>
__device__ inline void store_gated(const ProductArgs& a, const float (&sums)[kRows / 2], int tile, int first_row, int rows) {
  const Lane lane;
  const int n = tile * kTileChannels + lane.channel(0), f = tile * (kTileChannels / 2) + 8 * lane.warp + lane.g;
  if (n >= a.w.n) return;  // a tile that only makes their number even
  const float gate_bias = a.bias_N ? a.bias_N[n] : 0.0F, up_bias = a.bias_N ? a.bias_N[n + 8] : 0.0F;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int row = first_row + lane.row(e);
    Bf16* out = a.gated.at(row, f);  // eight rows further it is eight lines further
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      if (row + 8 * j >= rows) break;
      const float gate = sums[4 * j + e] + gate_bias, up = sums[4 * j + e + 2] + up_bias;
      out[8 * j * kInnerStep] = to_bf16(quotient(gate, 1 + power_of_e(-gate)) * up);
    }
  }
}

template <int kRows>
__device__ inline void store_choice(const ProductArgs& a, const float (&sums)[kRows / 2], Choice* found, int tile, int first_row,
                                    int rows) {
  const Lane lane;
#pragma unroll
  for (int j = 0; j < kRows / 8; ++j) {
    if (first_row + 8 * j >= rows) break;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int at = 8 * j + lane.row(e), row = first_row + at;
      const int list = row < rows ? a.allowed.list_T[row] : -1;
      const uint32_t* bits =
          list < 0 ? nullptr : a.allowed.bits_LW + static_cast<size_t>(list) * static_cast<size_t>(a.allowed.words);
      Choice choice = no_choice();
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int id = tile * kTileChannels + lane.channel(2 * half);
        if (id < a.w.n && (bits == nullptr || (bits[id / 32] >> (id % 32) & 1u) != 0))
          choose(choice, sums[4 * j + e + 2 * half], id);
      }
      choice = join_lanes(choice, 4);
      if (lane.g == 0) found[lane.warp * kRows + at] = choice;
    }
  }
  sync_group(1, kGroupThreads);
  for (int i = thread(); i < kRows && first_row + i < rows; i += kGroupThreads) {
    Choice choice = found[i];
    for (int w = 1; w < kGroupWarps; ++w) choice = joined(choice, found[w * kRows + i]);
    a.choice_TB[static_cast<size_t>(first_row + i) * static_cast<size_t>(a.w.tiles) + static_cast<size_t>(tile)] = choice;
  }
  sync_group(1, kGroupThreads);  // `found` may be written again
}

template <int kGroups, int kRows>
__device__ inline void store(const ProductPlan& p, const float (&sums)[kRows / 2], Choice* found, int tile) {
  const ProductArgs& a = p.a;
  const int rows = *a.count, first_row = p.first_row + block_y() * kRows;
  if (a.then == Then::kSwiglu)
    store_gated<kRows>(a, sums, tile, first_row, rows);
  else if (kGroups == 1 && a.then == Then::kChoice)
    store_choice<kRows>(a, sums, found, tile, first_row, rows);
  else
    store_sums<kRows>(a, sums, tile, first_row, rows);
}

/// A run's sums of a tile that others share: kept for the last of them to arrive, which adds all in their order. True for that one.
template <int kRows>
__device__ inline bool share(const ProductArgs& a, float (&sums)[kRows / 2], int* last, const Cuts& cuts, int tile, int run) {
  const int me = thread() % kGroupThreads, first_step = tile * cuts.steps;
  // A run has two shared tiles at most: its first and its last.
  const auto place = [&](int r) {
    const int share = 2 * r + (cuts.begin(r) / cuts.steps == tile ? 0 : 1);
    return a.shares.sums + (static_cast<size_t>(share) * (kRows / 2)) * kGroupThreads + me;
  };
  float* mine = place(run);
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) mine[i * kGroupThreads] = sums[i];
  publish();
  sync_group(1, kGroupThreads);
  const int from = cuts.run_of(first_step), to = cuts.run_of(first_step + cuts.steps - 1);
  if (me == 0) *last = add_in_turn(a.shares.arrivals + tile, 1) == to - from;
  sync_group(1, kGroupThreads);
  const bool is_last = *last != 0;
  sync_group(1, kGroupThreads);  // `last` may be written again
  if (!is_last) return false;
  publish();
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  for (int r = from; r <= to; ++r) {
    const float* theirs = place(r);
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) sums[i] += load_fresh(theirs + i * kGroupThreads);
  }
  if (me == 0) a.shares.arrivals[tile] = 0;
  return true;
}

template <int kGroups, int kRows>
__device__ inline void multiply(const ProductPlan& p, const Rings<kGroups, kRows>& rings, const Cuts& cuts) {
  constexpr bool kWhole = kGroups > 1;
  const int group = thread() / kGroupThreads;
  const bool tells = thread() % 32 == 0;
  const Work work = work_of<kGroups>(cuts);
  int step = work.first + group * cuts.steps;
  const int end = step + work.count;
  Place weights, rows;
  float sums[kRows / 2], total[kWhole ? kRows / 2 : 1];
  // The stages of `back` steps before the next one are not needed any more.
  const auto release = [&](int back) {
    if (!tells) return;
    signal_arrive(rings.weights_empty + weights.before(back, p.weight_stages));
    signal_arrive(rings.rows_empty + rows.before(back, p.row_stages));
  };
  while (step < end) {
    const int tile = step / cuts.steps, tile_begin = tile * cuts.steps, tile_end = tile_begin + cuts.steps;
    const int run = cuts.run_of(step), run_end = cuts.begin(run + 1);
    const int begin = step;
    int until = tile_end < run_end ? tile_end : run_end;
    for (; step < until; ++step) {
      signal_wait(rings.weights_full + weights.stage, weights.parity);
      signal_wait(rings.rows_full + rows.stage, rows.parity);
      multiply_tile<kRows>(sums, rings.weights + weights.stage * rings.kWeightBytes + group * kTileBytes,
                           rings.rows + rows.stage * rings.kRowBytes, step == begin);
      weights.next(p.weight_stages);
      rows.next(p.row_stages);
      if (step == begin) continue;
      wait_for_products<1>();
      release(2);
    }
    wait_for_products<0>();
    release(1);
    if (kWhole) {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) total[kWhole ? i : 0] = (begin == tile_begin ? 0.0F : total[kWhole ? i : 0]) + sums[i];
      if (until < tile_end) continue;
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) sums[i] = total[kWhole ? i : 0];
    } else if (begin > tile_begin || until < tile_end) {
      if (!share<kRows>(p.a, sums, rings.last, cuts, tile, run)) continue;
    } else {
#pragma unroll
      for (int i = 0; i < kRows / 2; ++i) sums[i] = 0.0F + sums[i];
    }
    store<kGroups, kRows>(p, sums, rings.found, tile);
  }
}

template <int kGroups, int kRows>
__global__ void __launch_bounds__(kGroups* kGroupThreads + kProducerThreads, kGroups == 1 && kRows <= 64 ? 2 : 1)
    product_kernel(ProductPlan p) {
  constexpr int kConsumers = kGroups * kGroupThreads;
  constexpr bool kMoves = kGroups == 2;  // registers, from those that copy to those that multiply
  const Cuts cuts(p.a.w);
  const Rings<kGroups, kRows> rings(p);
  let_next_start();
  if (thread() == 0) {
    for (int i = 0; i < p.weight_stages; ++i) {
      signal_init(rings.weights_full + i, kFillers);
      signal_init(rings.weights_empty + i, kGroups * kGroupWarps);
    }
    for (int i = 0; i < p.row_stages; ++i) {
      signal_init(rings.rows_full + i, kFillers);
      signal_init(rings.rows_empty + i, kGroups * kGroupWarps);
    }
    signals_are_made();
  }
  sync_block();
  if (thread() >= kConsumers) {
    if constexpr (kMoves) give_registers<24>();
    const int warp = (thread() - kConsumers) / 32;
    if (warp == 0) fill_weights<kGroups, kRows>(p, rings, cuts);
    if (warp == 1) {
      wait_for_previous();
      fill_rows<kGroups, kRows>(p, rings, cuts);
    }
  } else {
    if constexpr (kMoves) take_registers<240>();
    wait_for_previous();
    multiply<kGroups, kRows>(p, rings, cuts);
  }
}

/// Stages that fit: rows get `row_stages` of them, weights the rest.
template <int kGroups, int kRows>
void launch_product(const ProductArgs& args, int rows, size_t room, int row_stages, StreamHandle stream, int first_row = 0) {
  using R = Rings<kGroups, kRows>;
  const size_t limit = shared_limit(), bytes = (room < limit ? room : limit) - R::fixed_bytes();
  const auto most = [](size_t stages) { return static_cast<int>(stages < kMostStages ? stages : size_t{kMostStages}); };
  while (row_stages > 2 && bytes < static_cast<size_t>(row_stages) * R::kRowBytes + 2 * R::kWeightBytes) --row_stages;
  const int weight_stages = most((bytes - static_cast<size_t>(row_stages) * R::kRowBytes) / R::kWeightBytes);
  const Cuts cuts(args.w);
  launch(product_kernel<kGroups, kRows>, kGroups == 1 ? cuts.runs : args.w.tiles / kGroups, (rows + kRows - 1) / kRows,
         kGroups * kGroupThreads + kProducerThreads,
         static_cast<size_t>(weight_stages) * R::kWeightBytes + static_cast<size_t>(row_stages) * R::kRowBytes + R::fixed_bytes(),
         static_cast<Stream>(stream), ProductPlan{args, weight_stages, row_stages, first_row});
}

constexpr size_t kHalf = size_t{112} << 10;  // two blocks to a processor: the next product's weights come while this one ends
constexpr size_t kWhole = size_t{227} << 10;

int rounds(int tiles, int rows, int each) { return (tiles / 2 * ((rows + each - 1) / each) + kRuns - 1) / kRuns * each; }

}  // namespace

void product(const ProductArgs& args, int rows, StreamHandle stream) {
  if (rows <= 8) return launch_product<1, 8>(args, rows, kHalf, 6, stream);
  if (rows <= 16) return launch_product<1, 16>(args, rows, kHalf, 6, stream);
  if (rows <= 32) return launch_product<1, 32>(args, rows, kHalf, 6, stream);
  if (rows <= 64) return launch_product<1, 64>(args, rows, kHalf, 4, stream);
  if (rows <= kStreamRows) return launch_product<1, 128>(args, rows, kWhole, 5, stream);
  if (args.then == Then::kChoice) {  // room for the choices of a tile's warps is in the narrower blocks only
    for (int first = 0; first < rows; first += kStreamRows)
      launch_product<1, kStreamRows>(args, kStreamRows, kWhole, 5, stream, first);
    return;
  }
  if (rounds(args.w.tiles, rows, 192) <= rounds(args.w.tiles, rows, 128))
    return launch_product<2, 192>(args, rows, kWhole, 5, stream);
  launch_product<2, 128>(args, rows, kWhole, 6, stream);
}

}  // namespace slip::cuda
