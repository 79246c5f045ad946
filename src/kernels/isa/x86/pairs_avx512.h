// SPDX-License-Identifier: Apache-2.0
// Words of two bf16, AVX-512 with products of them; to vec_avx512.h what pairs_avx2.h and pairs_portable.h are to theirs.
#pragma once
#include "kernels/isa/x86/quads_avx512.h"

namespace slip {
namespace {

struct DotBF16 : WordByWord {
  static inline Words dot(Words sum, Words x, Words w) {
    return as_words(_mm512_dpbf16_ps(as_floats(sum), (__m512bh)x, (__m512bh)w));
  }
};

/// The numbers of low, then those of high, rounded to bf16 (ties to even, subnormals to zero, NaN stays NaN), two to a word.
inline Words pack_pairs(Floats low, Floats high) { return (__m512i)_mm512_cvtne2ps_pbh(high, low); }

/// a[i] | b[i] << 16, rounded to bf16 (ties to even, subnormals to zero, NaN stays NaN), lane by lane.
inline Words pair_lanes(Floats a, Floats b) {
  const __m512i order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8, 23, 7, 22, 6, 21, 5, 20, 4,
                                         19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(b, a));
}

/// out[i] = a[i] | b[i] << 16 for i < n; b null: zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, int64_t n, Word* out, int64_t) {
  const __m512i first = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8, 39, 7, 38, 6, 37, 5, 36, 4,
                                         35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i second = _mm512_add_epi16(first, _mm512_set1_epi16(16));
  int64_t i = 0;
  for (; i + 32 <= n; i += 32) {
    const __m512i x = _mm512_loadu_si512(a + i), y = b ? _mm512_loadu_si512(b + i) : _mm512_setzero_si512();
    store_words(out + i, _mm512_permutex2var_epi16(x, first, y));
    store_words(out + i + 16, _mm512_permutex2var_epi16(x, second, y));
  }
  for (; i < n; i += 16) {
    const __mmask16 some = static_cast<__mmask16>(n - i >= 16 ? 0xffffu : (1u << (n - i)) - 1);
    const __m512i x = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, a + i));
    const __m512i y = b ? _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(some, b + i)) : _mm512_setzero_si512();
    _mm512_mask_storeu_epi32(out + i, some, _mm512_or_si512(x, _mm512_slli_epi32(y, 16)));
  }
}

/// DotBF16 in place. As an intrinsic, g++ 12 carries sums through copies (and the stack) in every turn of a loop of 8 x 2 of them:
/// 2.5 times the time.
inline void add_dot(Words& sum, Words x, Words w) { asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w)); }

/// The lower number of every word; the upper one becomes 0.
inline Words lower_of(Words w) { return _mm512_and_si512(w, _mm512_set1_epi32(0xffff)); }
/// 1 in both halves of every word.
inline Words ones() { return _mm512_set1_epi32(0x3f803f80); }

}  // namespace
}  // namespace slip

#include "kernels/isa/pairs_as_words.h"
