// SPDX-License-Identifier: Apache-2.0
// Embedding, norms, products, rotation, choices of a pass on a device; contracts in kernels.h, attention in attention.cu.
// A product reads its weights straight into the registers of the matrix instruction: at most 64 rows share them, so nothing is gained by a
// stop in shared memory. Rows of x are re-read by every block, from the L2; blocks of wide matrices take more channels for that reason.
#include "cuda/kernels.h"

#include "cuda/choice.h"
#include "cuda/gpu.h"
#include "cuda/numbers.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kThreads = 256;

/// Number k of channel n.
__device__ inline float element(const Tiles& w, int n, int k) {
  const int lane = n % 8 * 4 + k % kInnerStep / 8, half = n % kTileChannels / 8;
  const size_t tile = static_cast<size_t>(n / kTileChannels) * static_cast<size_t>(w.steps) + static_cast<size_t>(k / kInnerStep);
  return from_bf16(
      static_cast<const Bf16*>(w.data)[(tile * 2 + static_cast<size_t>(half)) * 256 + static_cast<size_t>(lane * 8 + k % 8)]);
}

__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= a.counts->rows) return;
  const int width = a.embedding.k, input = a.inputs_T[t];
  float* x_D = a.x_TD + static_cast<size_t>(t) * static_cast<size_t>(width);
  for (int d = thread(); d < width; d += kThreads)
    x_D[d] = input >= 0 ? element(a.embedding, input, d)
                        : a.features_ND[static_cast<size_t>(-1 - input) * static_cast<size_t>(width) + static_cast<size_t>(d)];
}

/// The sum over the block's 256 threads, in one order; `scratch`: 8 floats.
__device__ inline float block_sum(float v, float* scratch) {
  for (int mask = 16; mask > 0; mask /= 2) v += shuffle_xor(v, mask);
  if (thread() % 32 == 0) scratch[thread() / 32] = v;
  sync_block();
  float sum = 0;
  for (int i = 0; i < kThreads / 32; ++i) sum += scratch[i];
  return sum;
}

__global__ void __launch_bounds__(kThreads) norm_kernel(NormArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= *a.count) return;
  const int from = a.rows ? a.rows[t] : t;
  const float* x_D = a.x_TD + static_cast<size_t>(from) * static_cast<size_t>(a.width);
  float squares = 0;
  for (int d = thread(); d < a.width; d += kThreads) squares += x_D[d] * x_D[d];
  const float sum = block_sum(squares, reinterpret_cast<float*>(shared()));
  const float factor = reciprocal_root(sum / static_cast<float>(a.width) + a.eps);
  Bf16* out = a.out_TK + static_cast<size_t>(t) * static_cast<size_t>(a.ldo);
  for (int d = thread(); d < a.width; d += kThreads) out[d] = to_bf16(x_D[d] * factor * a.gain_D[d]);
}

constexpr int kSkew = 4;  // numbers between rows of sums in shared memory, so that a warp's stores meet 32 banks

/// A lane's sums of all channel and row tiles of a block, over this warp's turns of the inner dimension. The first turns' weights are asked for
/// before the rows are there.
template <int kTiles, int kColumns>
__device__ inline void multiply(const ProductArgs& a, int first_row, float (&sums)[kTiles][kColumns][4]) {
  // Turns whose weights are on their way: 8 to 16 KiB per warp and block.
  constexpr int kAhead = kTiles < 3 ? 4 / kTiles : 1;
  const int warp = thread() / 32, lane = thread() % 32, g = lane / 4, t = lane % 4, steps = a.w.steps;
  const uint4* w = static_cast<const uint4*>(a.w.data) + lane;
  uint4 low[kAhead][kTiles], high[kAhead][kTiles];
  const auto ask = [&](int i, int s) {
    if (s >= steps) return;
#pragma unroll
    for (int m = 0; m < kTiles; ++m) {
      const size_t tile = static_cast<size_t>(block_x()) * kTiles + static_cast<size_t>(m);
      const uint4* at = w + (tile * static_cast<size_t>(steps) + static_cast<size_t>(s)) * 64;
      low[i][m] = load_once(at);
      high[i][m] = load_once(at + 32);
    }
  };
#pragma unroll
  for (int i = 0; i < kAhead; ++i) ask(i, warp + i * kProductWarps);
  let_next_start();
  wait_for_previous();
  const int rows = *a.count;
  if (first_row >= rows) return;
  const Bf16* x[kColumns];
#pragma unroll
  for (int n = 0; n < kColumns; ++n) {
    const int row = first_row + n * 8 + g;  // rows that are not there repeat the last one; their sums go nowhere
    x[n] = a.x_TK + static_cast<size_t>(row < rows ? row : rows - 1) * static_cast<size_t>(a.ldx) + t * 8;
  }
  // With few rows the next turn's numbers are asked for as well: a turn is shorter than the way to the L2.
  constexpr bool kRowsAhead = kColumns <= 2;
  uint4 b[kColumns];
  const auto read_rows = [&](int s) {
    if (s >= steps) return;
#pragma unroll
    for (int n = 0; n < kColumns; ++n) b[n] = *reinterpret_cast<const uint4*>(x[n] + s * kInnerStep);
  };
  if (kRowsAhead) read_rows(warp);
  for (int first = warp; first < steps; first += kAhead * kProductWarps)
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const int s = first + i * kProductWarps;
      if (s >= steps) break;
      uint4 now[kColumns], l[kTiles], h[kTiles];
      if (!kRowsAhead) read_rows(s);
#pragma unroll
      for (int n = 0; n < kColumns; ++n) now[n] = b[n];
      if (kRowsAhead) read_rows(s + kProductWarps);
#pragma unroll
      for (int m = 0; m < kTiles; ++m) {
        l[m] = low[i][m];
        h[m] = high[i][m];
      }
      ask(i, s + kAhead * kProductWarps);
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int n = 0; n < kColumns; ++n) {
          mma_bf16(sums[m][n], l[m].x, h[m].x, l[m].y, h[m].y, now[n].x, now[n].y);
          mma_bf16(sums[m][n], l[m].z, h[m].z, l[m].w, h[m].w, now[n].z, now[n].w);
        }
    }
}

/// All warps' sums added in the order of warps: total[row][channel] in shared memory, rows kTiles * 16 + kSkew apart.
template <int kTiles, int kColumns>
__device__ inline void gather_sums(const float (&sums)[kTiles][kColumns][4], float* total) {
  const int warp = thread() / 32, lane = thread() % 32, g = lane / 4, t = lane % 4;
  constexpr int kStride = kTiles * kTileChannels + kSkew;
  for (int turn = 0; turn < kProductWarps; ++turn) {
    if (warp == turn)
#pragma unroll
      for (int m = 0; m < kTiles; ++m)
#pragma unroll
        for (int n = 0; n < kColumns; ++n)
#pragma unroll
          for (int e = 0; e < 4; ++e) {
            float& to = total[(n * 8 + 2 * t + e % 2) * kStride + m * kTileChannels + g + 8 * (e / 2)];
            to = turn == 0 ? sums[m][n][e] : to + sums[m][n][e];
          }
    sync_block();
  }
}

__device__ inline void store_sums(const ProductArgs& a, const float* total, int channels, int first_row, int rows) {
  const int first = block_x() * channels;
  for (int i = thread(); i < channels * rows; i += kThreads) {
    const int r = i / channels, c = i % channels, n = first + c;
    if (n >= a.w.n) continue;
    float* out = a.out + static_cast<size_t>(first_row + r) * static_cast<size_t>(a.ldo) + n;
    const float sum = total[r * (channels + kSkew) + c] + (a.bias_N ? a.bias_N[n] : 0.0F);
    *out = a.then == Then::kAdd ? *out + sum : sum;
  }
}

__device__ inline void store_gated(const ProductArgs& a, const float* total, int channels, int first_row, int rows) {
  const int each = channels / 2, first = block_x() * each;
  for (int i = thread(); i < each * rows; i += kThreads) {
    const int r = i / each, c = i % each, pair = c / kTileChannels * 2 * kTileChannels + c % kTileChannels;
    if (first + c >= a.ldo) continue;
    const int at = block_x() * channels + pair;
    const float* pairs = total + r * (channels + kSkew) + pair;
    const float gate = pairs[0] + (a.bias_N ? a.bias_N[at] : 0.0F);
    const float up = pairs[kTileChannels] + (a.bias_N ? a.bias_N[at + kTileChannels] : 0.0F);
    a.gated[static_cast<size_t>(first_row + r) * static_cast<size_t>(a.ldo) + static_cast<size_t>(first + c)] =
        to_bf16(gate / (1 + power_of_e(-gate)) * up);
  }
}

__device__ inline void store_choice(const ProductArgs& a, const float* total, int channels, int first_row, int rows) {
  const int blocks = a.w.tiles / a.w.tiles_per_block, first = block_x() * channels;
  for (int r = thread() / 32; r < rows; r += kThreads / 32) {
    const int list = a.allowed.list_T[first_row + r];
    const uint32_t* bits =
        list < 0 ? nullptr : a.allowed.bits_LW + static_cast<size_t>(list) * static_cast<size_t>(a.allowed.words);
    Choice choice = no_choice();
    for (int c = thread() % 32; c < channels && first + c < a.w.n; c += 32) {
      const int id = first + c;
      if (bits == nullptr || (bits[id / 32] >> (id % 32) & 1u) != 0) choose(choice, total[r * (channels + kSkew) + c], id);
    }
    choice = join_warp(choice);
    if (thread() % 32 == 0)
      a.choice_TB[static_cast<size_t>(first_row + r) * static_cast<size_t>(blocks) + static_cast<size_t>(block_x())] = choice;
  }
}

template <int kTiles, int kColumns>
__global__ void __launch_bounds__(kThreads) product_kernel(ProductArgs a) {
  const int first_row = block_y() * kRowGroup;
  float sums[kTiles][kColumns][4] = {};
  multiply<kTiles, kColumns>(a, first_row, sums);
  const int rows = *a.count;
  if (first_row >= rows) return;
  float* total = reinterpret_cast<float*>(shared());
  gather_sums<kTiles, kColumns>(sums, total);
  const int here = rows - first_row < kColumns * 8 ? rows - first_row : kColumns * 8;
  if (a.then == Then::kSwiglu)
    store_gated(a, total, kTiles * kTileChannels, first_row, here);
  else if (a.then == Then::kChoice)
    store_choice(a, total, kTiles * kTileChannels, first_row, here);
  else
    store_sums(a, total, kTiles * kTileChannels, first_row, here);
}

/// One head: norm, rotation, factor. `lane` of a warp does numbers lane, lane + 32 ...; x and out may not overlap.
__device__ inline void turn_head(const PlaceArgs& a, const float* x_K, const float* gain_K, const float* cosine, const float* sine,
                                 float factor, Bf16* out) {
  const int lane = thread() % 32;
  float norm_by = 1;
  if (gain_K) {
    float squares = 0;
    for (int k = lane; k < a.width; k += 32) squares += x_K[k] * x_K[k];
    for (int mask = 16; mask > 0; mask /= 2) squares += shuffle_xor(squares, mask);
    norm_by = reciprocal_root(squares / static_cast<float>(a.width) + a.eps);
  }
  const auto value = [&](int k) { return gain_K ? x_K[k] * norm_by * gain_K[k] : x_K[k]; };
  for (int k = lane; k < a.padded; k += 32) {
    float v = 0;
    if (k < a.half)
      v = value(k) * cosine[k] - value(k + a.half) * sine[k];
    else if (k < 2 * a.half)
      v = value(k) * cosine[k - a.half] + value(k - a.half) * sine[k - a.half];
    else if (k < a.width)
      v = value(k);
    out[k] = to_bf16(v * factor);
  }
}

__global__ void __launch_bounds__(kThreads) place_kernel(PlaceArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= a.counts->rows) return;
  const int warp = thread() / 32, lane = thread() % 32;
  const size_t row = static_cast<size_t>(t), slot = static_cast<size_t>(a.slots_T[t]);
  const float* qkv = a.qkv_TE + row * static_cast<size_t>((a.heads + 2 * a.kv_heads) * a.width);
  const float* cosine = a.cos_TK2 + row * static_cast<size_t>(a.half);
  const float* sine = a.sin_TK2 + row * static_cast<size_t>(a.half);
  const float factor = a.q_factor * (a.q_scale_T ? a.q_scale_T[t] : 1.0F);
  for (int h = warp; h < a.heads + 2 * a.kv_heads; h += kThreads / 32) {
    const float* x_K = qkv + h * a.width;
    if (h < a.heads) {
      turn_head(a, x_K, a.q_norm_K, cosine, sine, factor,
                a.q_THP + (row * static_cast<size_t>(a.heads) + static_cast<size_t>(h)) * static_cast<size_t>(a.padded));
      continue;
    }
    const int g = (h - a.heads) % a.kv_heads;
    const size_t at = (slot * static_cast<size_t>(a.kv_heads) + static_cast<size_t>(g)) * static_cast<size_t>(a.padded);
    if (h < a.heads + a.kv_heads)
      turn_head(a, x_K, a.k_norm_K, cosine, sine, 1, a.keys_SGP + at);
    else
      for (int k = lane; k < a.padded; k += 32) a.values_SGP[at + static_cast<size_t>(k)] = to_bf16(k < a.width ? x_K[k] : 0.0F);
  }
}

__global__ void __launch_bounds__(kThreads) round_kernel(RoundArgs a) {
  let_next_start();
  wait_for_previous();
  const size_t t = static_cast<size_t>(block_x());
  if (block_x() >= *a.count) return;
  for (int r = thread(); r < a.width; r += kThreads)
    a.out_TR[t * static_cast<size_t>(a.ldo) + static_cast<size_t>(r)] =
        to_bf16(a.x_TR[t * static_cast<size_t>(a.width) + static_cast<size_t>(r)] * a.factor);
}

__global__ void __launch_bounds__(kThreads) copy_kernel(CopyArgs a) {
  let_next_start();
  wait_for_previous();
  const size_t t = static_cast<size_t>(block_x());
  if (block_x() >= *a.count) return;
  for (int d = thread(); d < a.width; d += kThreads)
    a.out[t * static_cast<size_t>(a.ldo) + static_cast<size_t>(d)] =
        a.x_TD[t * static_cast<size_t>(a.width) + static_cast<size_t>(d)];
}

__global__ void __launch_bounds__(kThreads) pick_kernel(PickArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= *a.count) return;
  Choice* found = reinterpret_cast<Choice*>(shared());
  Choice choice = no_choice();
  for (int b = thread(); b < a.blocks; b += kThreads)
    choice = joined(choice, a.choice_TB[static_cast<size_t>(t) * static_cast<size_t>(a.blocks) + static_cast<size_t>(b)]);
  choice = join_warp(choice);
  if (thread() % 32 == 0) found[thread() / 32] = choice;
  sync_block();
  if (thread() != 0) return;
  for (int i = 1; i < kThreads / 32; ++i) choice = joined(choice, found[i]);
  a.out_T[t] = choice;
}

template <int kTiles, int kColumns>
void launch_product(const ProductArgs& args, int rows, StreamHandle stream) {
  launch(product_kernel<kTiles, kColumns>, args.w.tiles / kTiles, (rows + kRowGroup - 1) / kRowGroup, kThreads,
         sizeof(float) * (kTiles * kTileChannels + kSkew) * kColumns * 8, static_cast<Stream>(stream), args);
}

template <int kTiles>
void launch_product_of(const ProductArgs& args, int rows, StreamHandle stream) {
  if (rows <= 8) return launch_product<kTiles, 1>(args, rows, stream);
  if (rows <= 16) return launch_product<kTiles, 2>(args, rows, stream);
  if (rows <= 32) return launch_product<kTiles, 4>(args, rows, stream);
  launch_product<kTiles, 8>(args, rows, stream);
}

}  // namespace

void embed(const EmbedArgs& args, int rows, StreamHandle stream) {
  launch(embed_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
}
void norm(const NormArgs& args, int rows, StreamHandle stream) {
  launch(norm_kernel, rows, 1, kThreads, sizeof(float) * kThreads / 32, static_cast<Stream>(stream), args);
}
void product(const ProductArgs& args, int rows, StreamHandle stream) {
  if (args.w.tiles_per_block == 4) return launch_product_of<4>(args, rows, stream);
  if (args.w.tiles_per_block == 2) return launch_product_of<2>(args, rows, stream);
  launch_product_of<1>(args, rows, stream);
}
void place(const PlaceArgs& args, int rows, StreamHandle stream) {
  launch(place_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
}
void round(const RoundArgs& args, int rows, StreamHandle stream) {
  launch(round_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
}
void copy(const CopyArgs& args, int rows, StreamHandle stream) {
  launch(copy_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
}
void pick(const PickArgs& args, int rows, StreamHandle stream) {
  launch(pick_kernel, rows, 1, kThreads, sizeof(Choice) * kThreads / 32, static_cast<Stream>(stream), args);
}

}  // namespace slip::cuda
