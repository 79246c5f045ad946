// SPDX-License-Identifier: Apache-2.0
// What the host reads of a row's logits where its choice needs more than the largest: the few largest, or a draw; contracts in kernels.h. A block
// for a row. Lanes take 32 neighbouring ids each, a warp 32 such groups at a time.
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"

namespace slip::cuda {
namespace {

using namespace gpu;

constexpr int kThreads = 256, kWarps = kThreads / 32;
constexpr int kGroupIds = 32, kChunkIds = 32 * kGroupIds;
constexpr float kNone = -__builtin_huge_valf();

__device__ inline int groups_of(int vocab) { return (vocab + kGroupIds - 1) / kGroupIds; }
__device__ inline int chunks_of(int vocab) { return (vocab + kChunkIds - 1) / kChunkIds; }

/// Logits of a group's ids; behind the vocabulary's end what is no number.
__device__ inline void load_group(float (&x)[kGroupIds], const float* logits_V, int vocab, int group) {
  const int first = group * kGroupIds;
  if (vocab % 4 == 0 && first + kGroupIds <= vocab) {
#pragma unroll
    for (int i = 0; i < kGroupIds; i += 4) {
      const float4 v = *reinterpret_cast<const float4*>(logits_V + first + i);
      x[i] = v.x, x[i + 1] = v.y, x[i + 2] = v.z, x[i + 3] = v.w;
    }
    return;
  }
#pragma unroll
  for (int i = 0; i < kGroupIds; ++i) x[i] = first + i < vocab ? logits_V[first + i] : __builtin_nanf("");
}

__device__ inline LikelyLogit likelier(const LikelyLogit& a, const LikelyLogit& b) {
  return a.id < 0 || (b.id >= 0 && (b.logit > a.logit || (b.logit == a.logit && b.id < a.id))) ? b : a;
}

__device__ inline LikelyLogit likeliest_of_warp(LikelyLogit mine) {
  for (int mask = 16; mask > 0; mask /= 2) mine = likelier(mine, {shuffle_xor(mine.logit, mask), shuffle_xor(mine.id, mask)});
  return mine;
}

/// Of a group's ids the likeliest behind `taken` (id -1: nothing is taken).
__device__ inline LikelyLogit likeliest_of_group(const LikelyArgs& a, const float* logits_V, int group, const LikelyLogit& taken) {
  float x[kGroupIds];
  load_group(x, logits_V, a.vocab, group);
  LikelyLogit best = {kNone, -1};
#pragma unroll
  for (int i = 0; i < kGroupIds; ++i) {
    const int id = group * kGroupIds + i;
    const bool left = taken.id < 0 || x[i] < taken.logit || (x[i] == taken.logit && id > taken.id);
    if (x[i] == x[i] && left && (best.id < 0 || x[i] > best.logit)) best = {x[i], id};
  }
  return best;
}

/// Each group's likeliest lies in shared memory. The likeliest of all goes out, and its lane looks for the next of its group.
__global__ void __launch_bounds__(kThreads) likely_kernel(LikelyArgs a) {
  let_next_start();
  wait_for_previous();
  const int t = block_x(), lane = thread() % 32, warp = thread() / 32, groups = groups_of(a.vocab), chunks = chunks_of(a.vocab);
  if (t < a.counts->likely || t >= a.counts->wanted) return;
  const float* logits_V = a.logits_LV + static_cast<size_t>(t - a.counts->chosen) * static_cast<size_t>(a.vocab);
  LikelyLogit* best_G = reinterpret_cast<LikelyLogit*>(shared());
  LikelyLogit* found = best_G + groups;
  LikelyLogit mine = {kNone, -1};
  for (int group = warp * 32 + lane; group < groups; group += kWarps * 32) {
    best_G[group] = likeliest_of_group(a, logits_V, group, {0, -1});
    mine = likelier(mine, best_G[group]);
  }
  LikelyLogit warps = likeliest_of_warp(mine), top = {0, 0};
  for (int k = 0; k < kLikely; ++k) {
    if (lane == 0) found[warp] = warps;
    sync_block();
    if (top.id >= 0) {
      top = found[0];
      for (int w = 1; w < kWarps; ++w) top = likelier(top, found[w]);
    }
    sync_block();  // all have read what the next turn writes
    if (thread() == 0) a.out_TK[t * kLikely + k] = top;
    const int group = top.id / kGroupIds;
    if (top.id < 0 || group / 32 % kWarps != warp) continue;
    if (group % 32 == lane) {
      best_G[group] = likeliest_of_group(a, logits_V, group, top);
      mine = {kNone, -1};
      for (int c = warp; c < chunks; c += kWarps)
        if (c * 32 + lane < groups) mine = likelier(mine, best_G[c * 32 + lane]);
    }
    warps = likeliest_of_warp(mine);
  }
}

/// Weights of a group's ids, 0 of those that are not allowed, are no number or lie behind the end.
__device__ inline void weigh_group(double (&w)[kGroupIds], const DrawArgs& a, int group, double most) {
  float x[kGroupIds];
  load_group(x, a.logits_V, a.vocab, group);
  const uint32_t allowed = a.bits_W ? a.bits_W[group] : ~0U;
#pragma unroll
  for (int i = 0; i < kGroupIds; ++i) {
    const double v = (allowed >> i & 1U) != 0 ? exponential(static_cast<double>(x[i]) / a.temperature - most) : 0;
    w[i] = v == v ? v : 0;
  }
}

__device__ inline double weight_of_group(const DrawArgs& a, int group, double most) {
  if (group >= groups_of(a.vocab)) return 0;
  double w[kGroupIds], sum = 0;
  weigh_group(w, a, group, most);
#pragma unroll
  for (int i = 0; i < kGroupIds; ++i) sum += w[i];
  return sum;
}

__device__ inline float largest_allowed(const DrawArgs& a, float* found) {
  float most = kNone;
  for (int group = thread(); group < groups_of(a.vocab); group += kThreads) {
    float x[kGroupIds];
    load_group(x, a.logits_V, a.vocab, group);
    const uint32_t allowed = a.bits_W ? a.bits_W[group] : ~0U;
#pragma unroll
    for (int i = 0; i < kGroupIds; ++i)
      if ((allowed >> i & 1U) != 0 && x[i] > most) most = x[i];
  }
  for (int mask = 16; mask > 0; mask /= 2) {
    const float other = shuffle_xor(most, mask);
    most = other > most ? other : most;
  }
  if (thread() % 32 == 0) found[thread() / 32] = most;
  sync_block();
  for (int w = 0; w < kWarps; ++w) most = found[w] > most ? found[w] : most;
  return most;
}

/// Where a sum of parts first exceeds `target`; the last part that is more than 0 where rounding keeps it below. `before`: the sum of the parts before it.
struct Stop {
  int part = -1;
  double before = 0, sum = 0;
  bool found = false;
  __device__ void take(int i, double v, double target) {
    if (found) return;
    if (v > 0) part = i, before = sum;
    sum += v;
    found = v > 0 && sum > target;
  }
};

__global__ void __launch_bounds__(kThreads) draw_kernel(DrawArgs a) {
  wait_for_previous();
  const int lane = thread() % 32, warp = thread() / 32, chunks = chunks_of(a.vocab);
  double* sum_C = reinterpret_cast<double*>(shared());  // of chunks, then of a chunk's groups
  double* sum_G = sum_C + chunks;
  const double most = static_cast<double>(largest_allowed(a, reinterpret_cast<float*>(sum_G))) / a.temperature;
  for (int c = warp; c < chunks; c += kWarps) {
    double sum = weight_of_group(a, c * 32 + lane, most);
    for (int mask = 16; mask > 0; mask /= 2) sum += shuffle_xor(sum, mask);
    if (lane == 0) sum_C[c] = sum;
  }
  sync_block();
  if (warp > 0) return;
  double all = 0;
  for (int c = 0; c < chunks; ++c) all += sum_C[c];
  const double target = a.u * all;
  Stop chunk, group, id;
  for (int c = 0; c < chunks; ++c) chunk.take(c, sum_C[c], target);
  sum_G[lane] = chunk.part < 0 ? 0 : weight_of_group(a, chunk.part * 32 + lane, most);
  sync_warp();
  for (int g = 0; g < 32; ++g) group.take(g, sum_G[g], target - chunk.before);
  if (lane != 0) return;
  if (group.part >= 0) {
    double w[kGroupIds];
    weigh_group(w, a, chunk.part * 32 + group.part, most);
#pragma unroll
    for (int i = 0; i < kGroupIds; ++i) id.take(i, w[i], target - chunk.before - group.before);
  }
  *a.out = id.part < 0 ? -1 : (chunk.part * 32 + group.part) * kGroupIds + id.part;
}

}  // namespace

void likely(const LikelyArgs& args, int rows, StreamHandle stream) {
  const size_t bytes = static_cast<size_t>((args.vocab + kGroupIds - 1) / kGroupIds + kWarps) * sizeof(LikelyLogit);
  launch(likely_kernel, rows, 1, kThreads, bytes, static_cast<Stream>(stream), args);
}
void draw(const DrawArgs& args, StreamHandle stream) {
  const size_t bytes = static_cast<size_t>((args.vocab + kChunkIds - 1) / kChunkIds + 32) * sizeof(double);
  launch(draw_kernel, 1, 1, kThreads, bytes, static_cast<Stream>(stream), args);
}

}  // namespace slip::cuda
