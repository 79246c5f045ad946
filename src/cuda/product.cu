// SPDX-License-Identifier: Apache-2.0
// Products of a pass on a device; contracts in kernels.h. Weights come as tiles of 8 KiB, or 4 of bytes, by bulk copies into a ring in shared memory, rows into a
// ring of their own. One warp fills each; warpgroups of 128 threads multiply, 64 channels each. Weights do not depend on what an
// earlier kernel does: their ring fills while that kernel ends.
//
// Weights of bytes are widened to bf16 in the registers of those who multiply, half a tile while the half before is multiplied. Whole numbers of 8 bits are
// bf16 numbers, so that products and sums are those of bf16 weights; a channel's scale multiplies its sum.
//
// Up to 128 rows, a block takes one of some 132 runs of all tiles' steps [stream-K, Osama et al. 2023], so that every processor reads the same number
// of bytes. Tiles that runs share are summed by the last of them to arrive; or, where a cluster's blocks are the runs of one tile, by all of them, each
// for its part of the rows, out of each other's shared memory. Above, a block takes two tiles and 128 or 192 rows at a time and makes
// the same cuts in its own sums.
#include "cuda/choice.h"
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"
#include "cuda/numbers.h"
#include "cuda/product_rings.h"

namespace slip::cuda {
namespace {

/// The eights of rows of a tile that a block stores: bit j for rows 8 j to 8 j + 7.
using Eights = uint32_t;

/// Where a thread's sums belong: sum 4 j + e is row 8 j + row(e), channel channel(e) of the tile.
struct Lane {
  int warp, g, t;
  __device__ Lane() : warp(thread() / 32 % kGroupWarps), g(thread() % 32 / 4), t(thread() % 4) {}
  __device__ int row(int e) const { return 2 * t + e % 2; }
  __device__ int channel(int e) const { return 16 * warp + g + 8 * (e / 2); }
};

template <int kRows>
__device__ inline void store_sums(const ProductArgs& a, const float (&sums)[kRows / 2], Eights mine, int tile, int first_row,
                                  int rows, int from = 0) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int n = tile * kTileChannels + lane.channel(2 * half);
    if (n >= a.w.n) continue;
    const float bias = a.bias_N ? a.bias_N[n] : 0.0F;
    int row = first_row + lane.row(0);
    float* out = a.out + static_cast<ptrdiff_t>(row - from) * a.ldo + n;
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j, row += 8, out += 8 * static_cast<size_t>(a.ldo))
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (row + e < from || row + e >= rows || (mine >> j & 1) == 0) continue;
        const float sum = sums[4 * j + 2 * half + e] + bias;
        float* to = e == 0 ? out : out + a.ldo;
        if (a.then == Then::kAdd)
          add_to(to, sum);
        else
          *to = sum;
      }
  }
}

template <int kRows>
__device__ inline void store_gated(const ProductArgs& a, const float (&sums)[kRows / 2], Eights mine, int tile, int first_row,
                                   int rows) {
  const Lane lane;
  const int n = tile * kTileChannels + lane.channel(0), f = tile * (kTileChannels / 2) + 8 * lane.warp + lane.g;
  const float gate_bias = a.bias_N ? a.bias_N[n] : 0.0F, up_bias = a.bias_N ? a.bias_N[n + 8] : 0.0F;
#pragma unroll
  for (int e = 0; e < 2; ++e) {
    const int row = lane.row(e);
    Bf16* out = a.gated.at(first_row + row, f);  // eight rows further it is eight lines further
#pragma unroll
    for (int j = 0; j < kRows / 8; ++j) {
      if (first_row + row + 8 * j >= rows) break;
      if ((mine >> j & 1) == 0) continue;
      const float gate = sums[4 * j + e] + gate_bias, up = sums[4 * j + e + 2] + up_bias;
      out[8 * j * kInnerStep] = to_bf16(quotient(gate, 1 + power_of_e(-gate)) * up);
    }
  }
}

template <int kRows>
__device__ inline void store_gelu(const ProductArgs& a, const float (&sums)[kRows / 2], Eights mine, int tile, int first_row,
                                  int rows) {
  const Lane lane;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int n = tile * kTileChannels + lane.channel(2 * half);
    if (n >= (a.w.n + kInnerStep - 1) / kInnerStep * kInnerStep) continue;
    const float bias = a.bias_N && n < a.w.n ? a.bias_N[n] : 0.0F;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
      const int row = first_row + lane.row(e);
      Bf16* out = a.gated.at(row, n);
#pragma unroll
      for (int j = 0; j < kRows / 8; ++j) {
        if (row + 8 * j >= rows) break;
        if ((mine >> j & 1) == 0) continue;
        const float x = sums[4 * j + 2 * half + e] + bias;
        out[8 * j * kInnerStep] = to_bf16(0.5F * x * (1 + error_function(x * 0.70710678F)));
      }
    }
  }
}

/// Threads take half of a row's channels each, whatever the rows, so that a row's sum of exponents has one order.
template <int kRows>
__device__ inline void store_choice(const ProductArgs& a, const float (&sums)[kRows / 2], float* scores, int tile, int first_row,
                                    int rows) {
  const Lane lane;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) {
    const int channel = lane.channel(i % 4);
    scores[(i / 4 * 8 + lane.row(i % 4)) * kScoreStride + channel / kHalfTile * kHalfStride + channel % kHalfTile] = sums[i];
  }
  sync_group(1, kGroupThreads);
  for (int first = thread() / 32 * 32; first < 2 * kRows; first += kGroupThreads) {  // a warp goes on as one
    const int at = first + thread() % 32, r = at / 2, half = at % 2, row = first_row + r,
              id = tile * kTileChannels + half * kHalfTile;
    Choice choice = no_choice();
    if (r < kRows && row < rows && id < a.w.n) {
      const int list = a.allowed.list_T[row];
      const uint32_t allowed =
          list < 0
              ? ~0U
              : a.allowed.bits_LW[static_cast<size_t>(list) * static_cast<size_t>(a.allowed.words) + static_cast<size_t>(id / 32)];
      const float* mine = scores + r * kScoreStride + half * kHalfStride;
      const int n = a.w.n - id < kHalfTile ? a.w.n - id : kHalfTile;
      for (int c = 0; c < n; ++c)
        if ((allowed >> c & 1U) != 0) choose(choice, mine[c], id + c);
    }
    choice = joined(choice, other_lanes(choice, 1));
    if (half == 0 && r < kRows && row < rows)
      a.choice_TB[static_cast<size_t>(row) * static_cast<size_t>(a.w.tiles) + static_cast<size_t>(tile)] = choice;
  }
  sync_group(1, kGroupThreads);  // the scores may be written again
}

template <int kGroups, int kRows>
__device__ inline void store(const ProductArgs& a, const float (&sums)[kRows / 2], Eights mine, float* scores, int tile,
                             int first_row, int rows) {
  if (a.then == Then::kSwiglu)
    store_gated<kRows>(a, sums, mine, tile, first_row, rows);
  else if (kRows != kMostRows && a.then == Then::kGelu)
    store_gelu<kRows>(a, sums, mine, tile, first_row, rows);
  else if (kGroups == 1 && a.then == Then::kChoice) {
    store_choice<kRows>(a, sums, scores, tile, first_row, rows);
    if (a.out) store_sums<kRows>(a, sums, mine, tile, first_row, rows, *a.chosen);
  } else
    store_sums<kRows>(a, sums, mine, tile, first_row, rows);
}

/// A run's sums of a tile that others share: kept for the last of them to arrive, which adds all in their order. True for that one.
template <int kRows>
__device__ inline bool share(const ProductArgs& a, float (&sums)[kRows / 2], int* last, const Cuts& cuts, int tile, int run) {
  const int me = thread() % kGroupThreads, first_step = tile * cuts.steps;
  constexpr int kQuads = kRows / 8;
  // A run has two shared tiles at most: its first and its last.
  const auto place = [&](int r) {
    const int share = 2 * r + (cuts.begin(r) / cuts.steps == tile ? 0 : 1);
    return reinterpret_cast<float4*>(a.shares.sums) + static_cast<size_t>(share) * (kQuads * kGroupThreads) + me;
  };
  float4* mine = place(run);
#pragma unroll
  for (int j = 0; j < kQuads; ++j) mine[j * kGroupThreads] = float4{sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]};
  sync_group(1, kGroupThreads);
  const int from = cuts.run_of(first_step), to = cuts.run_of(first_step + cuts.steps - 1);
  if (me == 0) *last = add_in_turn(a.shares.arrivals + tile, 1) == to - from;
  sync_group(1, kGroupThreads);
  if (*last == 0) return false;
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
  constexpr int kTurns = kRows <= 32 ? 2 : 1;  // runs whose sums are on their way at a time
  for (int r = from; r <= to; r += kTurns) {
    float4 theirs[kTurns][kQuads];
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (r + i <= to) {
        const float4* at = place(r + i);
#pragma unroll
        for (int j = 0; j < kQuads; ++j) theirs[i][j] = load_fresh(at + j * kGroupThreads);
      }
#pragma unroll
    for (int i = 0; i < kTurns; ++i)
      if (r + i <= to) {
#pragma unroll
        for (int j = 0; j < kQuads; ++j) {
          sums[4 * j] += theirs[i][j].x;
          sums[4 * j + 1] += theirs[i][j].y;
          sums[4 * j + 2] += theirs[i][j].z;
          sums[4 * j + 3] += theirs[i][j].w;
        }
      }
  }
  if (me == 0) a.shares.arrivals[tile] = 0;
  return true;
}

/// The same among the blocks of a cluster: each sums some eights of rows. `place`: shared memory for a tile's sums.
template <int kRows>
__device__ inline Eights share_in_cluster(float (&sums)[kRows / 2], float4* place) {
  constexpr int kQuads = kRows / 8;
  const int me = thread() % kGroupThreads, blocks = cluster_blocks(), rank = cluster_rank();
  sync_group(1, kGroupThreads);  // every warp has read the rows that lie there
#pragma unroll
  for (int j = 0; j < kQuads; ++j)
    place[j * kGroupThreads + me] = float4{sums[4 * j], sums[4 * j + 1], sums[4 * j + 2], sums[4 * j + 3]};
  sync_cluster();
  Eights mine = 0;
#pragma unroll
  for (int j = 0; j < kQuads; ++j) {
    if (j % blocks != rank) continue;
    mine |= 1U << j;
    float4 sum = {0, 0, 0, 0};
#pragma unroll 4
    for (int r = 0; r < blocks; ++r) {
      const float4 v = load_from_block(place + j * kGroupThreads + me, r);
      sum = float4{sum.x + v.x, sum.y + v.y, sum.z + v.z, sum.w + v.w};
    }
    sums[4 * j] = sum.x, sums[4 * j + 1] = sum.y, sums[4 * j + 2] = sum.z, sums[4 * j + 3] = sum.w;
  }
  sync_cluster();  // others may still read this block's
  return mine;
}

/// A tile's sums times the scales of its channels.
template <int kRows>
__device__ inline void scale_sums(const Tiles& w, float (&sums)[kRows / 2], int tile) {
  const Lane lane;
  const float* scale = w.scale_N + tile * kTileChannels;
  const float low = scale[lane.channel(0)], high = scale[lane.channel(2)];
#pragma unroll
  for (int i = 0; i < kRows / 2; ++i) sums[i] *= i % 4 < 2 ? low : high;
}

/// Where those who multiply are in their rings.
struct Places {
  Place weights, rows;
};

/// sums = `steps` tiles of weights times their rows.
template <int kGroups, int kRows>
__device__ inline void multiply_steps(const ProductPlan& p, const Rings<kGroups, kRows, false>& rings, Places& at,
                                      float (&sums)[kRows / 2], int steps) {
  const int group = thread() / kGroupThreads;
  // The stages of `back` steps before the next one are not needed any more.
  const auto release = [&](int back) {
    if (thread() % 32 != 0) return;
    signal_arrive(rings.weights_empty + at.weights.before(back, p.weight_stages));
    signal_arrive(rings.rows_empty + at.rows.before(back, p.row_stages));
  };
  for (int i = 0; i < steps; ++i) {
    signal_wait(rings.weights_full + at.weights.stage, at.weights.parity);
    signal_wait(rings.rows_full + at.rows.stage, at.rows.parity);
    multiply_tile<kRows>(sums, rings.weights + at.weights.stage * rings.kWeightBytes + group * rings.kTileBytes,
                         rings.rows + at.rows.stage * rings.kRowBytes, i == 0);
    at.weights.next(p.weight_stages);
    at.rows.next(p.row_stages);
    if (i == 0) continue;
    wait_for_products<1>();
    release(2);
  }
  wait_for_products<0>();
  products_are_there(sums);
  release(1);
}

/// A thread's part of half a tile of bytes.
__device__ inline uint4 half_of(const unsigned char* tile, int half) {
  return reinterpret_cast<const uint4*>(tile)[thread() / 32 % kGroupWarps * 64 + 32 * half + thread() % 32];
}
/// The same as the matrix instruction wants it.
__device__ inline void widen_half(const uint4& bytes, uint32_t (&w)[2][4]) {
  widen(bytes.x, w[0][0], w[0][2]);
  widen(bytes.y, w[0][1], w[0][3]);
  widen(bytes.z, w[1][0], w[1][2]);
  widen(bytes.w, w[1][1], w[1][3]);
}

/// The same with weights of bytes. Half a tile is widened while the half before is multiplied, where registers hold both, and read still earlier.
template <int kGroups, int kRows>
__device__ inline void multiply_steps(const ProductPlan& p, const Rings<kGroups, kRows, true>& rings, Places& at,
                                      float (&sums)[kRows / 2], int steps) {
  const int group = thread() / kGroupThreads;
  const bool tells = thread() % 32 == 0;
  constexpr int kLeft = kRows < kMostRows ? 1 : 0;  // halves that are multiplied meanwhile
  const unsigned char* tile = nullptr;
  const auto next_tile = [&] {
    signal_wait(rings.weights_full + at.weights.stage, at.weights.parity);
    tile = rings.weights + at.weights.stage * rings.kWeightBytes + group * rings.kTileBytes;
    return half_of(tile, 0);
  };
  uint32_t words[kLeft + 1][2][4];
  uint4 bytes;
  if (kLeft > 0) bytes = next_tile();
#pragma unroll 1
  for (int i = 0; i < steps; ++i) {
    const unsigned char* rows = rings.rows + at.rows.stage * rings.kRowBytes;
    if (kLeft == 0) bytes = next_tile();
    widen_half(bytes, words[0]);
    if (kLeft > 0) bytes = half_of(tile, 1);
    signal_wait(rings.rows_full + at.rows.stage, at.rows.parity);
    multiply_words<kRows>(sums, words[0], rows, 0, i == 0);
    wait_for_products<kLeft>();
    if (tells && i > 0) signal_arrive(rings.rows_empty + at.rows.before(1, p.row_stages));
    if (kLeft == 0) bytes = half_of(tile, 1);
    widen_half(bytes, words[kLeft]);
    sync_warp();  // all lanes have read
    if (tells) signal_arrive(rings.weights_empty + at.weights.stage);
    at.weights.next(p.weight_stages);
    multiply_words<kRows>(sums, words[kLeft], rows, 1, false);
    if (kLeft > 0 && i + 1 < steps) bytes = next_tile();
    wait_for_products<kLeft>();
    at.rows.next(p.row_stages);
  }
  wait_for_products<0>();
  products_are_there(sums);
  if (tells) signal_arrive(rings.rows_empty + at.rows.before(1, p.row_stages));
}

template <int kGroups, int kRows, bool kBytes>
__device__ inline void multiply(const ProductPlan& p, const Rings<kGroups, kRows, kBytes>& rings, const Cuts& cuts) {
  constexpr bool kWhole = kGroups > 1;
  const int group = thread() / kGroupThreads;
  const int count = *p.a.count;  // long before it is needed
  Places at;
  float sums[kRows / 2], total[kWhole ? kRows / 2 : 1];
  for (Works<kGroups, kRows> works(p); works.more();) {
    const Work work = works.take(p, cuts);
    int step = work.first + group * cuts.steps;
    const int end = step + work.count;
    while (step < end) {
      const int tile = step / cuts.steps, tile_begin = tile * cuts.steps, tile_end = tile_begin + cuts.steps;
      const int run = cuts.run_of(step), run_end = cuts.begin(run + 1);
      const int begin = step, until = tile_end < run_end ? tile_end : run_end;
      multiply_steps(p, rings, at, sums, until - begin);
      step = until;
      Eights mine = ~0U;
      if (kWhole) {
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) total[kWhole ? i : 0] = (begin == tile_begin ? 0.0F : total[kWhole ? i : 0]) + sums[i];
        if (until < tile_end) continue;
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) sums[i] = total[kWhole ? i : 0];
      } else if (cluster_blocks() > 1) {
        // Its one stretch is done, so that its ring of rows is free.
        mine = share_in_cluster<kRows>(sums, reinterpret_cast<float4*>(rings.rows));
      } else if (begin > tile_begin || until < tile_end) {
        if (!share<kRows>(p.a, sums, rings.last, cuts, tile, run)) continue;
      } else {
#pragma unroll
        for (int i = 0; i < kRows / 2; ++i) sums[i] = 0.0F + sums[i];
      }
      if constexpr (kBytes) scale_sums<kRows>(p.a.w, sums, tile);
      store<kGroups, kRows>(p.a, sums, mine, rings.scores, tile, work.row, count);
    }
  }
}

template <int kGroups, int kRows, bool kBytes>
__global__ void __launch_bounds__(kGroups* kGroupThreads + kProducerThreads, kGroups == 1 && kRows <= 64 ? 2 : 1)
    product_kernel(ProductPlan p) {
  constexpr int kConsumers = kGroups * kGroupThreads;
  constexpr bool kMoves = kGroups == 2;  // registers, from those that copy to those that multiply
  const Cuts cuts(p.a.w);
  const Rings<kGroups, kRows, kBytes> rings(p);
  if (thread() == 0) {
    const int warps = kGroups * kGroupWarps;
    for (int i = 0; i < p.weight_stages; ++i) {
      signal_init(rings.weights_full + i, kFillers);
      signal_init(rings.weights_empty + i, warps);
    }
    for (int i = 0; i < p.row_stages; ++i) {
      signal_init(rings.rows_full + i, kFillers);
      signal_init(rings.rows_empty + i, warps);
    }
    signals_are_made();
  }
  sync_block();
  if (thread() >= kConsumers) {
    if constexpr (kMoves) give_registers<40>();
    const int warp = (thread() - kConsumers) / 32;
    if (warp == 0) {
      fill_weights(p, rings, cuts);
      let_next_start();  // its weights would be in the way before
    }
    if (warp == 1) {
      wait_for_previous();
      fill_rows(p, rings, cuts);
    }
  } else {
    if constexpr (kMoves) take_registers<232>();
    wait_for_previous();
    multiply(p, rings, cuts);
  }
}

/// Stages that fit into `room`: `row_stages` of rows, if there are as many, and the rest for weights as they come.
template <int kGroups, int kRows, bool kBytes>
size_t plan_rings(ProductPlan& plan, size_t room, int row_stages) {
  using R = Rings<kGroups, kRows, kBytes>;
  const size_t limit = shared_limit(), fixed = R::fixed_bytes(plan.a.then), bytes = (room < limit ? room : limit) - fixed;
  while (row_stages > 2 && bytes < static_cast<size_t>(row_stages) * R::kRowBytes + 2 * R::kWeightBytes) --row_stages;
  const size_t stages = (bytes - static_cast<size_t>(row_stages) * R::kRowBytes) / R::kWeightBytes;
  plan.weight_stages = static_cast<int>(stages < kMostStages ? stages : size_t{kMostStages});
  plan.row_stages = row_stages;
  return static_cast<size_t>(plan.weight_stages) * R::kWeightBytes + static_cast<size_t>(row_stages) * R::kRowBytes + fixed;
}

constexpr int kMostCluster = 8;  // blocks that any device with clusters runs together

template <int kRows, bool kBytes>
void run_by_run(const ProductArgs& args, size_t room, int row_stages, StreamHandle stream, int first_row = 0) {
  ProductPlan plan{args, 0, 0, first_row, 1};
  const size_t bytes = plan_rings<1, kRows, kBytes>(plan, room, row_stages);
  const Cuts cuts(args.w);
  static_assert(2 * kLineBytes >= kTileChannels * sizeof(float));  // two stages of rows hold a tile's sums
  const bool in_clusters = cuts.parts > 1 && cuts.parts <= kMostCluster && args.then != Then::kChoice &&
                           may_cluster(reinterpret_cast<const void*>(product_kernel<1, kRows, kBytes>));
  launch(product_kernel<1, kRows, kBytes>, cuts.runs, 1, kGroupThreads + kProducerThreads, bytes, static_cast<Stream>(stream), plan,
         in_clusters ? cuts.parts : 1);
}

/// How many rounds of all processors a product of blocks of `each` rows takes. A round of 192 rows takes hardly longer than one of 128 (lab 29).
int rounds(const ProductArgs& args, int rows, int each) {
  return (args.w.tiles / 2 * ((rows + each - 1) / each) + kRuns - 1) / kRuns;
}

template <int kRows, bool kBytes>
void tile_by_tile(const ProductArgs& args, int rows, int row_stages, StreamHandle stream) {
  ProductPlan plan{args, 0, 0, 0, (rows + kRows - 1) / kRows};
  const size_t bytes = plan_rings<2, kRows, kBytes>(plan, kWholeProcessor, row_stages);
  const int works = args.w.tiles / 2 * plan.row_blocks;
  launch(product_kernel<2, kRows, kBytes>, works < kRuns ? works : kRuns, 1, 2 * kGroupThreads + kProducerThreads, bytes,
         static_cast<Stream>(stream), plan);
}

template <bool kBytes>
void product_of(const ProductArgs& args, int rows, StreamHandle stream) {
  // Room for a second block on a processor, of a product or of attention: the next product's weights come while that one ends.
  const size_t part = args.then == Then::kChoice ? kHalfProcessor : kPartOfProcessor;
  // A step of bytes is over in half the time, in which its rows come no faster.
  if (rows <= 8) return run_by_run<8, kBytes>(args, part, kBytes ? 12 : 6, stream);
  if (rows <= 16) return run_by_run<16, kBytes>(args, part, kBytes ? 12 : 6, stream);
  if (rows <= 32) return run_by_run<32, kBytes>(args, part, kBytes ? 9 : 5, stream);
  if (rows <= 64) return run_by_run<64, kBytes>(args, part, kBytes ? 6 : 4, stream);
  if (rows <= kStreamRows) return run_by_run<kStreamRows, kBytes>(args, kWholeProcessor, 5, stream);
  if (args.then == Then::kChoice) {  // choices are made run by run only
    for (int first = 0; first < rows; first += kStreamRows)
      run_by_run<kStreamRows, kBytes>(args, kWholeProcessor, 5, stream, first);
    return;
  }
  // Without the warpgroups' instruction the wider block's sums do not fit the registers.
  const bool may_be_wide = has_warpgroup_products() && args.then != Then::kGelu;
  if (may_be_wide && rounds(args, rows, kMostRows) < rounds(args, rows, 128))
    return tile_by_tile<kMostRows, kBytes>(args, rows, 5, stream);
  tile_by_tile<128, kBytes>(args, rows, 6, stream);
}

}  // namespace

void product(const ProductArgs& args, int rows, StreamHandle stream) {
  if (args.w.scale_N)
    product_of<true>(args, rows, stream);
  else
    product_of<false>(args, rows, stream);
}

}  // namespace slip::cuda
