// SPDX-License-Identifier: Apache-2.0
// What a block of attention does with a unit of 64 keys: fetch it, score it, weigh its values, fold what came out. For attention.cu and walk.cu alone.
#pragma once
#include "cuda/device/gpu.h"
#include "cuda/kernels.h"
#include "cuda/numbers.h"

namespace slip::cuda {

using namespace gpu;  // NOLINT: for kernels alone

constexpr int kThreads = 128;
constexpr int kTileQueries = 16, kUnits = kKeyChunk / kKeyUnit;
constexpr int kGap = 8;                             // bf16 between lines in shared memory, so that eight lines start in eight banks
constexpr float kNothing = -__builtin_huge_valf();  // score of a key that is not seen
constexpr int kMostValues = 128;                    // numbers of a head that a block sums; a wider head takes two

/// A plan for heads of up to 16 kSteps numbers.
template <int kSteps>
struct Sizes {
  static constexpr int kWidth = 16 * kSteps, kValues = kWidth < kMostValues ? kWidth : kMostValues;
  static constexpr int kKeyStride = kWidth + kGap, kValueStride = kValues + kGap;
  static constexpr int kKeyNumbers = kKeyUnit * kKeyStride, kUnitNumbers = kKeyNumbers + kKeyUnit * kValueStride;
  static constexpr int kParts = kWidth / kValues;
};

/// What a block takes keys and values from: of one key head, numbers first_value on of its values.
struct Source {
  const Bf16 *keys, *values;
  uint32_t stride;  // from slot to slot
  int padded, first_value;
};

template <class Args>
__device__ inline Source source_of(const Args& a, int head, int first_value) {
  const size_t at = static_cast<size_t>(head) * static_cast<size_t>(a.padded);
  return {a.keys_SGP + at, a.values_SGP + at, static_cast<uint32_t>(a.kv_heads * a.padded), a.padded, first_value};
}

/// Keys and values of a unit, asked for by kThreadsOf threads of which this is number `me`. `slots`: the unit's, of which `n` are there, in shared memory.
template <int kSteps, int kThreadsOf, int kAhead>
__device__ inline void load_unit(const Source& source, const int* slots, int n, Bf16* to, int me) {
  using S = Sizes<kSteps>;
  constexpr int kPieces = S::kWidth <= 64    ? 8
                          : S::kWidth <= 128 ? 16
                                             : 32;  // of 8 numbers; a thread takes one of every so many keys and values
  static_assert(kKeyUnit * kPieces % kThreadsOf == 0);
  const int k = me % kPieces * 8;
  const bool in_key = k < source.padded, in_value = source.first_value + k < source.padded;
  const Bf16 *keys = source.keys + (in_key ? k : 0), *values = source.values + (in_value ? source.first_value + k : 0);
#pragma unroll kAhead
  for (int i = 0; i < kKeyUnit * kPieces / kThreadsOf; ++i) {
    const int j = me / kPieces + i * (kThreadsOf / kPieces);
    const bool there = j < n;
    const size_t from = there ? static_cast<size_t>(slots[j]) * source.stride : 0;
    if (k < S::kWidth) copy_16_or_clear(to + j * S::kKeyStride + k, keys + from, there && in_key);
    if (k < S::kValues) copy_16_or_clear(to + S::kKeyNumbers + j * S::kValueStride + k, values + from, there && in_value);
  }
  commit_copies();
}

/// What a lane knows of its queries first + g and first + g + 8, and of their numbers.
template <int kSteps>
struct Queries {
  uint32_t words[kSteps][4];  // as the matrix instruction wants them
  int sees[2];                // keys of the item
};

/// `row(q)`: where query q's numbers are, or null; `sees(q)`: how many keys it sees.
template <int kSteps, class Row, class Sees>
__device__ inline Queries<kSteps> load_queries(int padded, int first, const Row& row, const Sees& sees) {
  const int lane = thread() % 32, g = lane / 4, t = lane % 4;
  Queries<kSteps> out;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int q = first + g + 8 * half;
    const Bf16* from = row(q);
    out.sees[half] = from ? sees(q) : 0;
#pragma unroll
    for (int s = 0; s < kSteps; ++s)
#pragma unroll
      for (int part = 0; part < 2; ++part) {
        const int k = 16 * s + 8 * part + 2 * t;
        out.words[s][2 * part + half] = from && k < padded ? *reinterpret_cast<const uint32_t*>(from + k) : 0;
      }
  }
  return out;
}

/// A unit's largest scores and sums of probabilities of a lane's two queries.
struct UnitFacts {
  float top[2], total[2];
};

/// A unit's probabilities, relative to its largest score, as the matrix instruction wants them.
struct Chances {
  uint32_t words[kKeyUnit / 16][4];
};

template <int kSteps>
__device__ inline UnitFacts score(const Queries<kSteps>& queries, const Bf16* keys, int unit, Chances& chances) {
  constexpr int kTiles = kKeyUnit / 8, kAtOnce = 4;  // keys of so many eights are read before they are used
  const int lane = thread() % 32, t = lane % 4;
  float scores[kTiles][4] = {};
#pragma unroll
  for (int s = 0; s < kSteps; s += 2) {
    const auto& low = queries.words[s];
    const auto& high = queries.words[s + 1];
#pragma unroll
    for (int from = 0; from < kTiles; from += kAtOnce) {
      uint32_t b[kAtOnce][4];
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j)
        load_matrix_4(b[j], keys + (8 * (from + j) + lane % 8) * Sizes<kSteps>::kKeyStride + 16 * s + 8 * (lane / 8));
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) mma_bf16(scores[from + j], low[0], low[1], low[2], low[3], b[j][0], b[j][1]);
#pragma unroll
      for (int j = 0; j < kAtOnce; ++j) mma_bf16(scores[from + j], high[0], high[1], high[2], high[3], b[j][2], b[j][3]);
    }
  }
  UnitFacts facts;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int sees = queries.sees[half] - unit * kKeyUnit;
    float top = kNothing;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = scores[j][2 * half + e];
        if (sees < kKeyUnit && 8 * j + 2 * t + e >= sees) x = kNothing;
        top = larger(top, x);
      }
    for (int mask = 2; mask > 0; mask /= 2) top = larger(top, shuffle_xor(top, mask));
    const float from = top > kNothing ? top : 0.0F;  // where nothing is seen all come to zero
    float total = 0;
#pragma unroll
    for (int j = 0; j < kTiles; ++j)
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        float& x = scores[j][2 * half + e];
        x = power_of_2(x - from);  // what is not a number stays it
        total += x;
      }
    for (int mask = 2; mask > 0; mask /= 2) total += shuffle_xor(total, mask);
    facts.top[half] = top;
    facts.total[half] = total;
  }
#pragma unroll
  for (int k = 0; k < kKeyUnit / 16; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const float* x = scores[2 * k + i / 2] + 2 * (i % 2);
      chances.words[k][i] = pair_of(x[0], x[1]);
    }
  return facts;
}

/// sums (kTiles x 8 numbers of a head, from `first` on) = chances times values.
template <int kSteps, int kTiles>
__device__ inline void weigh(const Chances& chances, const Bf16* values, int first, float (&sums)[kTiles][4]) {
  const int lane = thread() % 32, matrix = lane / 8;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[n][e] = 0;
  constexpr int kAtOnce = 4;  // tiles whose values are read before they are used
  static_assert(kTiles % kAtOnce == 0);
#pragma unroll
  for (int k = 0; k < kKeyUnit / 16; ++k)
#pragma unroll
    for (int from = 0; from < kTiles; from += kAtOnce) {
      uint32_t v[kAtOnce / 2][4];
      const auto& p = chances.words[k];
      const int key = 16 * k + 8 * (matrix % 2) + lane % 8;
#pragma unroll
      for (int n = 0; n < kAtOnce; n += 2)
        load_matrix_4_transposed(v[n / 2], values + key * Sizes<kSteps>::kValueStride + first + 8 * (from + n + matrix / 2));
#pragma unroll
      for (int n = 0; n < kAtOnce; n += 2) {
        mma_bf16(sums[from + n], p[0], p[1], p[2], p[3], v[n / 2][0], v[n / 2][1]);
        mma_bf16(sums[from + n + 1], p[0], p[1], p[2], p[3], v[n / 2][2], v[n / 2][3]);
      }
    }
}

/// How the units of a query are folded: what was is kept by `keep`, the unit's sums come in by `by`. A unit of which nothing is seen changes nothing: its
/// sums are zeros.
struct Fold {
  float top = kNothing, total = 0, keep = 0, by = 0;
  bool seen = false;
  __device__ void add(float unit_top, float unit_total) {
    seen = unit_top > kNothing || unit_top != unit_top || unit_total != unit_total;
    if (!seen) {
      keep = 1, by = 0;
      return;
    }
    const float before = top;
    top = unit_top > before ? unit_top : before;
    keep = before > kNothing ? power_of_2(before - top) : 0.0F;
    by = power_of_2(unit_top - top);
    total = total * keep + unit_total * by;
  }
};

/// A unit's weighted values into the sums of what was folded before it; some tiles at a time, for want of registers.
template <int kSteps, int kTiles>
__device__ inline void add_unit(const Chances& chances, const Bf16* values, const Fold (&fold)[2], float (&sums)[kTiles][4]) {
  constexpr int kAtOnce = 4;
#pragma unroll
  for (int part = 0; part < kTiles; part += kAtOnce) {
    float own[kAtOnce][4];
    weigh<kSteps, kAtOnce>(chances, values, 8 * part, own);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i)
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const Fold& f = fold[e / 2];
        float& sum = sums[part + i][e];
        sum = sum * f.keep + own[i][e] * f.by;
      }
  }
}

}  // namespace slip::cuda
