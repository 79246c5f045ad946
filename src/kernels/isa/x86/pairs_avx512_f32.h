// SPDX-License-Identifier: Apache-2.0
// Words of two bf16, AVX-512 without products of pairs: numbers are multiplied as f32, with the bits of AVX2.
#pragma once
#if defined(__AVX512BF16__)
#error "expected flags without AVX-512 bf16: sums over rows would have other bits (body/chains.h)"
#endif
#include "kernels/isa/x86/quads_avx512.h"

namespace slip {
namespace {

/// The lower and the upper bf16 of every word as f32.
inline Words widened_low(Words w) { return _mm512_slli_epi32(w, 16); }
inline Words widened_high(Words w) { return _mm512_and_si512(w, _mm512_set1_epi32(static_cast<int>(0xffff0000u))); }
/// Sixteen bf16 in memory as f32.
inline Words widened(const uint16_t* p) {
  return _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))), 16);
}
/// sum += a b, in place (vec_avx2.h says why not as an intrinsic).
inline void add_product(Words& sum, Words a, Words b) { asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b)); }

/// bf16 of each lane in its upper half, its lower half undefined: ties to even, NaN stays NaN.
inline Words bf16_above(Floats x) {
  const Words u = as_words(x), even = _mm512_and_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(1));
  const Words rounded = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), even);
  return _mm512_mask_or_epi32(rounded, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), u, _mm512_set1_epi32(0x400000));
}
/// The numbers of low, then those of high, rounded to bf16, two to a word.
inline Words pack_pairs(Floats low, Floats high) {
  const auto below = [](Floats x) { return _mm512_cvtepi32_epi16(_mm512_srli_epi32(bf16_above(x), 16)); };
  return _mm512_inserti64x4(_mm512_castsi256_si512(below(low)), below(high), 1);
}

}  // namespace
}  // namespace slip

#include "kernels/isa/pairs_as_f32.h"
