// SPDX-License-Identifier: Apache-2.0
// Words of two bf16 for attention, AVX2.
#pragma once
#include "kernels/vec_avx2.h"

namespace slip {
namespace {

/// bf16 of each lane in its lower half: ties to even, NaN stays NaN.
inline __m256i round_to_bf16(Floats x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), even);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_srli_epi32(_mm256_blendv_epi8(rounded, quiet, nan), 16);
}

/// The numbers of low, then those of high, rounded to bf16, two to a word.
inline Words pack_pairs(Floats low, Floats high) {
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(round_to_bf16(low), round_to_bf16(high)), 0xd8);
}

/// a[i] | b[i] << 16, rounded to bf16 (ties to even, NaN stays NaN), lane by lane.
inline Words pair_lanes(Floats a, Floats b) { return _mm256_or_si256(round_to_bf16(a), _mm256_slli_epi32(round_to_bf16(b), 16)); }

/// out[i] = a[i] | b[i] << 16 for i < n; b null: zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, int64_t n, Word* out) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(a + i));
    const __m256i y = b ? _mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + i)) : _mm256_setzero_si256();
    const __m256i low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
    store_words(out + i, _mm256_permute2x128_si256(low, high, 0x20));
    store_words(out + i + 8, _mm256_permute2x128_si256(low, high, 0x31));
  }
  for (; i < n; i++) out[i] = a[i] | (b ? static_cast<uint32_t>(b[i]) << 16 : 0u);
}

inline void add_dot(Words& sum, Words x, Words w) { sum = DotBF16::dot(sum, x, w); }

/// The lower number of every word; the upper one becomes 0.
inline Words lower_of(Words w) { return _mm256_and_si256(w, _mm256_set1_epi32(0xffff)); }
/// 1 in both halves of every word.
inline Words ones() { return _mm256_set1_epi32(0x3f803f80); }

}  // namespace
}  // namespace slip
