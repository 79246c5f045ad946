// SPDX-License-Identifier: Apache-2.0
// Quads of bytes for int8 attention (body/quads.h), AVX-512.
#pragma once
#include "kernels/isa/x86/vec_avx512.h"

namespace slip {
namespace {

inline Words bytes_of(Floats a, Floats b, Floats c, Floats d) {
  const __m512i low = _mm512_set1_epi32(255);
  const __m512i ab =
      _mm512_ternarylogic_epi32((__m512i)a, low, _mm512_slli_epi32((__m512i)b, 8), 0xe2);  // a where low, else b << 8
  const __m512i cd = _mm512_ternarylogic_epi32((__m512i)c, low, _mm512_slli_epi32((__m512i)d, 8), 0xe2);
  return _mm512_mask_blend_epi16(0xaaaaaaaau, ab, _mm512_slli_epi32(cd, 16));
}
inline void interleave_bytes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d, int64_t n, Word* out,
                             int64_t) {
#if defined(__AVX512VBMI__)
  const __m512i first =
      _mm512_set_epi32(0x3f2f1f0f, 0x3e2e1e0e, 0x3d2d1d0d, 0x3c2c1c0c, 0x3b2b1b0b, 0x3a2a1a0a, 0x39291909, 0x38281808, 0x37271707,
                       0x36261606, 0x35251505, 0x34241404, 0x33231303, 0x32221202, 0x31211101, 0x30201000);
#endif
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto at = [i](const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)); };
#if defined(__AVX512VBMI__)
    const __m512i abcd =
        _mm512_inserti32x4(_mm512_inserti32x4(_mm512_inserti32x4(_mm512_castsi128_si512(at(a)), at(b), 1), at(c), 2), at(d), 3);
    store_words(out + i, _mm512_permutexvar_epi8(first, abcd));
#else
    const __m128i ab[2] = {_mm_unpacklo_epi8(at(a), at(b)), _mm_unpackhi_epi8(at(a), at(b))};
    const __m128i cd[2] = {_mm_unpacklo_epi8(at(c), at(d)), _mm_unpackhi_epi8(at(c), at(d))};
    for (int h = 0; h < 2; h++) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i + 8 * h), _mm_unpacklo_epi16(ab[h], cd[h]));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i + 8 * h + 4), _mm_unpackhi_epi16(ab[h], cd[h]));
    }
#endif
  }
  for (; i < n; i++) out[i] = static_cast<uint32_t>(a[i] | b[i] << 8 | c[i] << 16) | static_cast<uint32_t>(d[i]) << 24;
}
inline Floats to_floats(Words w) { return _mm512_cvtepi32_ps(w); }
/// As add_dot.
inline void add_quad(Words& sum, Words x, Words w) { asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(w)); }

}  // namespace
}  // namespace slip
