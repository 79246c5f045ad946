// SPDX-License-Identifier: Apache-2.0
// Argmax and statistics of a head's logits, 64 columns at a time and then over the blocks. Included after body/rows.h.
#pragma once

namespace slip {
namespace {

inline float largest_of_64(const float* v) {  // no NaN among them
  Chain top = load_chain(v);
  for (int64_t i = kChainLanes; i < kBlockColumns; i += kChainLanes) top = max_v(top, load_chain(v + i));
  return max_lanes(top);
}

inline float sum_of_64(const float* v) {
  Chain sum = load_chain(v);
  for (int64_t i = kChainLanes; i < kBlockColumns; i += kChainLanes) sum = add_v(sum, load_chain(v + i));
  return sum_lanes(sum);
}

void block_stats(const StatsArgs& a) {
  const float low = -__builtin_inff();
  alignas(64) float v[kBlockColumns], e[kBlockColumns];
  alignas(64) uint32_t here[kBlockColumns];
  LogitStats& out = *a.out;
  for (int64_t i = 0; i < kBlockColumns; i++) here[i] = 0u - static_cast<uint32_t>(a.allowed >> i & 1);
  for (int64_t i = 0; i < kBlockColumns; i++) v[i] = ((here[i] != 0) & (a.values[i] == a.values[i])) ? a.values[i] : low;
  const float largest = largest_of_64(v);
  uint64_t equal = 0;
  for (int64_t i = 0; i < kBlockColumns; i++) equal |= static_cast<uint64_t>(a.values[i] == largest) << i;
  equal &= a.allowed;
  if (equal == 0) {  // nothing allowed, or nothing but NaN
    out = {__builtin_nanf(""), low, a.allowed ? __builtin_nanf("") : 0.0F, -1};
    return;
  }
  const int at = __builtin_ctzll(equal);
  out.at = at;
  out.largest = a.values[at];  // with the sign of its zero
  if (a.sum) {
    const float top = largest > low ? largest : 0.0F;  // where all are -inf the sum is zero
    for (int64_t i = 0; i < kBlockColumns; i++) {
      const float x = exp_s(a.values[i] - top);
      e[i] = here[i] != 0 ? x : 0.0F;
    }
    out.sum = sum_of_64(e);
  }
  v[at] = low;
  out.second = largest_of_64(v);
}

float sum_of_stats(const LogitStats* stats_B, int64_t blocks, float largest) {
  const float top = largest > -__builtin_inff() ? largest : 0.0F;
  float sum = 0;
  for (int64_t b = 0; b < blocks; b += kBlockColumns) {
    const int64_t n = blocks - b < kBlockColumns ? blocks - b : kBlockColumns;
    alignas(64) float e[kBlockColumns] = {};
    for (int64_t i = 0; i < n; i++) {
      const LogitStats& s = stats_B[b + i];
      const float factor = exp_s(s.largest - top);
      e[i] = s.at >= 0 ? factor * s.sum : s.sum;
    }
    sum += sum_of_64(e);
  }
  return sum;
}

}  // namespace
}  // namespace slip
