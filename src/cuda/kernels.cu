// SPDX-License-Identifier: Apache-2.0
// Embedding, norms, rotation, choices of a pass on a device; contracts in kernels.h, products in product.cu, attention in attention.cu.
#include "cuda/kernels.h"

#include "cuda/choice.h"
#include "cuda/device/gpu.h"
#include "cuda/numbers.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kThreads = 256;
constexpr int kPiece = 8;  // numbers of 16 bytes of bf16

/// Numbers first .. first + 7 of channel n; `first` is a multiple of 8.
__device__ inline void load_piece(float (&v)[kPiece], const Tiles& w, int n, int first) {
  const size_t tile =
      static_cast<size_t>(n / kTileChannels) * static_cast<size_t>(w.steps) + static_cast<size_t>(first / kInnerStep);
  const int line = n % kTileChannels;
  if (w.scale_N) {
    const unsigned char* bytes = static_cast<const unsigned char*>(w.data) + tile * kTileNumbers;
    const float scale = w.scale_N[n];
    for (int i = 0; i < kPiece; ++i)
      v[i] = static_cast<float>(static_cast<int>(bytes[byte_place(line, first % kInnerStep + i)]) - kByteZero) * scale;
    return;
  }
  const uint4 words =
      *reinterpret_cast<const uint4*>(static_cast<const Bf16*>(w.data) + tile * kTileNumbers +
                                      static_cast<size_t>(line * kInnerStep + line_place(line, first % kInnerStep)));
  const uint32_t pairs[kPiece / 2] = {words.x, words.y, words.z, words.w};
  for (int i = 0; i < kPiece; ++i) v[i] = from_bf16(static_cast<uint16_t>(pairs[i / 2] >> (16 * (i % 2))));
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

/// Numbers first .. first + 7 of a row of `width`; zeros behind its end.
__device__ inline void load_piece(float (&v)[kPiece], const float* x_D, int first, int width) {
  if (first + kPiece <= width && width % 4 == 0) {
    const float4 low = *reinterpret_cast<const float4*>(x_D + first), high = *reinterpret_cast<const float4*>(x_D + first + 4);
    v[0] = low.x, v[1] = low.y, v[2] = low.z, v[3] = low.w, v[4] = high.x, v[5] = high.y, v[6] = high.z, v[7] = high.w;
    return;
  }
  for (int i = 0; i < kPiece; ++i) v[i] = first + i < width ? x_D[first + i] : 0.0F;
}

__device__ inline void store_piece(const RowTiles& to, int row, int first, const float (&v)[kPiece]) {
  uint32_t pairs[kPiece / 2];
  for (int i = 0; i < kPiece / 2; ++i) pairs[i] = to_bf16(v[2 * i]) | static_cast<uint32_t>(to_bf16(v[2 * i + 1])) << 16;
  *reinterpret_cast<uint4*>(to.at(row, first)) = uint4{pairs[0], pairs[1], pairs[2], pairs[3]};
}

__device__ inline int whole_steps(int width) { return (width + kInnerStep - 1) / kInnerStep * kInnerStep; }

__global__ void __launch_bounds__(kThreads) norm_kernel(NormArgs a) {
  let_next_start();
  float gain[kPiece];
  const int mine = thread() * kPiece, end = a.together > 1 ? a.width : whole_steps(a.width);
  if (mine < end) load_piece(gain, a.gain_D, mine, a.width);
  const int t = block_x();
  if (t >= *a.count) return;  // what the host sent need not wait
  const int from = a.rows ? a.rows[t] : t;
  wait_for_previous();
  const float* x_D = a.x_TD + static_cast<size_t>(from) * static_cast<size_t>(a.width);
  float own[kPiece] = {}, squares = 0;
  if (mine < end) load_piece(own, x_D, mine, a.width);
  for (int i = 0; i < kPiece; ++i) squares += own[i] * own[i];
  for (int d = mine + kThreads * kPiece; d < end; d += kThreads * kPiece) {
    float v[kPiece];
    load_piece(v, x_D, d, a.width);
    for (int i = 0; i < kPiece; ++i) squares += v[i] * v[i];
  }
  const float sum = block_sum(squares, reinterpret_cast<float*>(shared()));
  const float factor = reciprocal_root(sum / static_cast<float>(a.width) + a.eps);
  if (mine < end) {
    for (int i = 0; i < kPiece; ++i) own[i] = own[i] * factor * gain[i];
    store_piece(a.out_TK, t / a.together, t % a.together * a.width + mine, own);
  }
  for (int d = mine + kThreads * kPiece; d < end; d += kThreads * kPiece) {
    load_piece(own, x_D, d, a.width);
    load_piece(gain, a.gain_D, d, a.width);
    for (int i = 0; i < kPiece; ++i) own[i] = own[i] * factor * gain[i];
    store_piece(a.out_TK, t / a.together, t % a.together * a.width + d, own);
  }
  if (a.together == 1 || t % a.together != a.together - 1) return;
  const int joined = a.together * a.width;  // what is left of the last step
  const float zeros[kPiece] = {};
  for (int d = joined + mine; d < whole_steps(joined); d += kThreads * kPiece) store_piece(a.out_TK, t / a.together, d, zeros);
}

__global__ void __launch_bounds__(kThreads) embed_kernel(EmbedArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= a.counts->rows) return;
  const int width = a.embedding.k, input = a.inputs_T[t];
  const float* feature_D = a.features_T[t];
  float* x_D = a.x_TD + static_cast<size_t>(t) * static_cast<size_t>(width);
  for (int d = thread() * kPiece; d < width; d += kThreads * kPiece) {
    float v[kPiece];
    if (feature_D)
      load_piece(v, feature_D, d, width);
    else
      load_piece(v, a.embedding, input, d);
    for (int i = 0; i < kPiece && d + i < width; ++i) x_D[d + i] = v[i];
  }
}

/// One head: norm, rotation, factor. `lane` of a warp turns pairs lane, lane + 32 ... (numbers k and k + half); x and out may not overlap.
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
  for (int k = lane; k < a.half; k += 32) {
    const float low = value(k), high = value(k + a.half), c = cosine[k], s = sine[k];
    out[k] = to_bf16((low * c - high * s) * factor);
    out[k + a.half] = to_bf16((high * c + low * s) * factor);
  }
  for (int k = 2 * a.half + lane; k < a.padded; k += 32) out[k] = to_bf16((k < a.width ? value(k) : 0.0F) * factor);
}

constexpr int kPlaceWarps = 4;

__device__ inline void store_pair(Bf16* to, float first, float second) {
  *reinterpret_cast<uint32_t*>(to) = to_bf16(first) | static_cast<uint32_t>(to_bf16(second)) << 16;
}

/// Heads that turn whole and have up to 64 pairs: a lane has two of them, numbers k and k + half for k = 2 lane and 2 lane + 1. By their shape alone,
/// since a norm's sum has another order.
constexpr bool turns_in_pairs(const PlaceArgs& a) { return a.width == 2 * a.half && a.half % 2 == 0 && a.half <= 64; }

struct TwoPairs {
  float2 low, high;
};

__device__ inline void norm_pairs(TwoPairs& v, const float* gain_K, const PlaceArgs& a, int k, bool there) {
  float squares = there ? v.low.x * v.low.x + v.low.y * v.low.y + v.high.x * v.high.x + v.high.y * v.high.y : 0.0F;
  for (int mask = 16; mask > 0; mask /= 2) squares += shuffle_xor(squares, mask);
  if (!there) return;
  const float by = reciprocal_root(squares / static_cast<float>(a.width) + a.eps);
  v.low = float2{v.low.x * by * gain_K[k], v.low.y * by * gain_K[k + 1]};
  v.high = float2{v.high.x * by * gain_K[k + a.half], v.high.y * by * gain_K[k + a.half + 1]};
}

/// A warp takes kEach heads, whose numbers come at once.
template <int kEach>
__global__ void __launch_bounds__(32 * kPlaceWarps) place_pairs_kernel(PlaceArgs a) {
  let_next_start();
  const int t = block_x(), first = (block_y() * kPlaceWarps + thread() / 32) * kEach, lane = thread() % 32, k = 2 * lane;
  const int turned = a.heads + a.kv_heads, all = turned + a.kv_heads;
  if (t >= a.counts->rows || first >= all) return;  // what the host sent need not wait
  const size_t row = static_cast<size_t>(t), slot = static_cast<size_t>(a.slots_T[t]), table = row * static_cast<size_t>(a.half);
  const bool there = k < a.half;
  float2 c = {0, 0}, s = {0, 0};
  if (there) {
    c = *reinterpret_cast<const float2*>(a.cos_TK2 + table + k);
    s = *reinterpret_cast<const float2*>(a.sin_TK2 + table + k);
  }
  const float q_factor = a.q_factor * (a.q_scale_T ? a.q_scale_T[t] : 1.0F);
  wait_for_previous();
  TwoPairs heads[kEach] = {};
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    if (!there || first + i >= all) continue;
    const float* x_K = a.qkv_TE + (row * static_cast<size_t>(all) + static_cast<size_t>(first + i)) * static_cast<size_t>(a.width);
    heads[i] = {*reinterpret_cast<const float2*>(x_K + k), *reinterpret_cast<const float2*>(x_K + k + a.half)};
  }
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const int h = first + i;
    if (h >= all) return;
    TwoPairs& v = heads[i];
    const bool is_q = h < a.heads, is_value = h >= turned;
    const size_t line = is_q ? row * static_cast<size_t>(a.heads) + static_cast<size_t>(h)
                             : slot * static_cast<size_t>(a.kv_heads) + static_cast<size_t>((h - a.heads) % a.kv_heads);
    Bf16* out = (is_q ? a.q_THP : is_value ? a.values_SGP : a.keys_SGP) + line * static_cast<size_t>(a.padded);
    if (const float* gain_K = is_q ? a.q_norm_K : a.k_norm_K; gain_K && !is_value) norm_pairs(v, gain_K, a, k, there);
    for (int i_pad = a.width + k; i_pad < a.padded; i_pad += 64) store_pair(out + i_pad, 0, 0);
    if (!there) continue;
    if (is_value) {
      store_pair(out + k, v.low.x, v.low.y);
      store_pair(out + k + a.half, v.high.x, v.high.y);
      continue;
    }
    const float factor = is_q ? q_factor : 1;
    store_pair(out + k, (v.low.x * c.x - v.high.x * s.x) * factor, (v.low.y * c.y - v.high.y * s.y) * factor);
    store_pair(out + k + a.half, (v.high.x * c.x + v.low.x * s.x) * factor, (v.high.y * c.y + v.low.y * s.y) * factor);
  }
}

__global__ void __launch_bounds__(32 * kPlaceWarps) place_kernel(PlaceArgs a) {
  let_next_start();
  const int t = block_x(), h = block_y() * kPlaceWarps + thread() / 32, lane = thread() % 32;
  if (t >= a.counts->rows || h >= a.heads + 2 * a.kv_heads) return;  // what the host sent need not wait
  const size_t row = static_cast<size_t>(t), slot = static_cast<size_t>(a.slots_T[t]);
  wait_for_previous();
  const float* x_K = a.qkv_TE + row * static_cast<size_t>((a.heads + 2 * a.kv_heads) * a.width) + h * a.width;
  const float* cosine = a.cos_TK2 + row * static_cast<size_t>(a.half);
  const float* sine = a.sin_TK2 + row * static_cast<size_t>(a.half);
  if (h < a.heads) {
    turn_head(a, x_K, a.q_norm_K, cosine, sine, a.q_factor * (a.q_scale_T ? a.q_scale_T[t] : 1.0F),
              a.q_THP + (row * static_cast<size_t>(a.heads) + static_cast<size_t>(h)) * static_cast<size_t>(a.padded));
    return;
  }
  const int g = (h - a.heads) % a.kv_heads;
  const size_t at = (slot * static_cast<size_t>(a.kv_heads) + static_cast<size_t>(g)) * static_cast<size_t>(a.padded);
  if (h < a.heads + a.kv_heads)
    turn_head(a, x_K, a.k_norm_K, cosine, sine, 1, a.keys_SGP + at);
  else
    for (int k = lane; k < a.padded; k += 32) a.values_SGP[at + static_cast<size_t>(k)] = to_bf16(k < a.width ? x_K[k] : 0.0F);
}

__global__ void __launch_bounds__(kThreads) round_kernel(RoundArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x();
  if (t >= *a.count) return;
  for (int r = thread() * kPiece; r < whole_steps(a.width); r += kThreads * kPiece) {
    float v[kPiece];
    load_piece(v, a.x_TR + static_cast<size_t>(t) * static_cast<size_t>(a.width), r, a.width);
    for (int i = 0; i < kPiece; ++i) v[i] *= a.factor;
    store_piece(a.out_TR, t, r, v);
  }
}

__global__ void __launch_bounds__(kThreads) gather_kernel(GatherArgs a) {
  let_next_start();
  wait_for_previous();
  const int r = block_x();
  const float* from = a.pixels_PN + static_cast<size_t>(a.source_P[r]) * static_cast<size_t>(a.width);
  for (int k = thread() * kPiece; k < whole_steps(a.width); k += kThreads * kPiece) {
    float v[kPiece];
    load_piece(v, from, k, a.width);
    store_piece(a.out_PK, r, k, v);
  }
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
  for (int b = thread(); b < a.tiles; b += kThreads)
    choice = joined(choice, a.choice_TB[static_cast<size_t>(t) * static_cast<size_t>(a.tiles) + static_cast<size_t>(b)]);
  choice = join_warp(choice);
  if (thread() % 32 == 0) found[thread() / 32] = choice;
  sync_block();
  if (thread() != 0) return;
  for (int i = 1; i < kThreads / 32; ++i) choice = joined(choice, found[i]);
  a.out_T[t] = choice;
}

}  // namespace

void embed(const EmbedArgs& args, int rows, StreamHandle stream) {
  launch(embed_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
}
void norm(const NormArgs& args, int rows, StreamHandle stream) {
  launch(norm_kernel, rows, 1, kThreads, sizeof(float) * kThreads / 32, static_cast<Stream>(stream), args);
}
void place(const PlaceArgs& args, int rows, StreamHandle stream) {
  constexpr int kManyHeads = 4;
  const bool pairs = turns_in_pairs(args), many = pairs && rows > kRowGroup;
  const int each = kPlaceWarps * (many ? kManyHeads : 1), columns = (args.heads + 2 * args.kv_heads + each - 1) / each;
  const auto kernel = many ? place_pairs_kernel<kManyHeads> : pairs ? place_pairs_kernel<1> : place_kernel;
  launch(kernel, rows, columns, 32 * kPlaceWarps, 0, static_cast<Stream>(stream), args);
}
void gather(const GatherArgs& args, int rows, StreamHandle stream) {
  launch(gather_kernel, rows, 1, kThreads, 0, static_cast<Stream>(stream), args);
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
