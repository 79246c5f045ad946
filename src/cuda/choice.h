// SPDX-License-Identifier: Apache-2.0
// A row's choice among logits, taken one by one and joined part by part. Joining is symmetric: the larger logit leads, the lower id on a tie,
// so that both lanes of an exchange come to the same bits. Sums of exponents depend on the tree of joins, which the kernels fix by the
// vocabulary alone. lm/lm.h has the host's (choose_from).
#pragma once
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"

namespace slip::cuda {

__device__ inline Choice no_choice() { return {0, -1, -__builtin_huge_valf(), 0, 0}; }

/// Logit `v` of `id` is one more.
__device__ inline void choose(Choice& c, float v, int id) {
  if (v != v) {
    c.nan = 1;
    return;
  }
  if (c.id < 0) {
    c = {v, id, c.second, 1, c.nan};
  } else if (v > c.largest) {  // ids come in ascending order: an equal one stays second
    c = {v, id, c.largest, c.sum * gpu::power_of_e(c.largest - v) + 1, c.nan};
  } else {
    if (v > c.second) c.second = v;
    c.sum += gpu::power_of_e(v - c.largest);
  }
}

__device__ inline Choice joined(Choice a, Choice b) {
  const int nan = a.nan | b.nan;
  if (a.id < 0 || (b.id >= 0 && (b.largest > a.largest || (b.largest == a.largest && b.id < a.id)))) {
    const Choice lower = a;
    a = b;
    b = lower;
  }
  a.nan = nan;
  if (b.id < 0) return a;
  const float second = a.second > b.largest ? a.second : b.largest;
  return {a.largest, a.id, second, a.sum + b.sum * gpu::power_of_e(b.largest - a.largest), nan};
}

/// The choice of the lane whose number differs by `mask`.
__device__ inline Choice other_lanes(const Choice& c, int mask) {
  return {gpu::shuffle_xor(c.largest, mask), gpu::shuffle_xor(c.id, mask), gpu::shuffle_xor(c.second, mask),
          gpu::shuffle_xor(c.sum, mask), gpu::shuffle_xor(c.nan, mask)};
}

/// Of all lanes of a warp, in all of them.
__device__ inline Choice join_warp(Choice c) {
  for (int mask = 16; mask > 0; mask /= 2) c = joined(c, other_lanes(c, mask));
  return c;
}

}  // namespace slip::cuda
