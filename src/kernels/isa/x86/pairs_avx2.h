// SPDX-License-Identifier: Apache-2.0
// Words of two bf16 and of four bytes, AVX2.
#pragma once
#include "kernels/isa/x86/vec_avx2.h"

namespace slip {
namespace {

/// bf16 of each lane in its upper half, its lower half undefined: ties to even, NaN stays NaN.
inline __m256i bf16_above(Floats x) {
  const __m256i u = _mm256_castps_si256(x);
  const __m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(1));
  const __m256i rounded = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), even);
  const __m256i quiet = _mm256_or_si256(u, _mm256_set1_epi32(0x400000));
  const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(rounded, quiet, nan);
}

/// The numbers of low, then those of high, rounded to bf16, two to a word.
inline Words pack_pairs(Floats low, Floats high) {
  const auto below = [](Floats x) { return _mm256_srli_epi32(bf16_above(x), 16); };
  return _mm256_permute4x64_epi64(_mm256_packus_epi32(below(low), below(high)), 0xd8);
}

/// Eight bf16 in memory as f32.
inline Words widened(const uint16_t* p) {
  return _mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))), 16);
}

// Quads of bytes (body/quads.h): here the broadcast side is two words of 16-bit numbers.

inline DotI8::Pairs quad_at(const Word* p) {
  const Words w = splat_word(p);
  return {_mm256_and_si256(w, _mm256_set1_epi16(255)), _mm256_srli_epi16(w, 8)};
}
inline Words bytes_of(Floats a, Floats b, Floats c, Floats d) {
  const __m256i low = _mm256_set1_epi32(255);
  const auto ints = [](Floats x) { return _mm256_castps_si256(x); };
  const __m256i ab = _mm256_or_si256(_mm256_and_si256(ints(a), low), _mm256_slli_epi32(_mm256_and_si256(ints(b), low), 8));
  const __m256i cd = _mm256_or_si256(_mm256_and_si256(ints(c), low), _mm256_slli_epi32(ints(d), 8));
  return _mm256_blend_epi16(ab, _mm256_slli_epi32(cd, 16), 0xaa);
}
inline void store_quads(Floats a, Floats b, Floats c, Floats d, Word* out, int64_t plane) {
  const __m256i low = _mm256_set1_epi16(255);
  const auto ints = [](Floats x) { return _mm256_castps_si256(x); };
  const __m256i ac = _mm256_blend_epi16(ints(a), _mm256_slli_epi32(ints(c), 16), 0xaa);
  const __m256i bd = _mm256_blend_epi16(ints(b), _mm256_slli_epi32(ints(d), 16), 0xaa);
  store_words(out, _mm256_and_si256(ac, low));
  store_words(out + plane, _mm256_and_si256(bd, low));
}
inline DotI8::Pairs stored_quad_at(const Word* p, int64_t plane) { return {splat_word(p), splat_word(p + plane)}; }
/// First and third number of a quad, and second and fourth, as 16-bit numbers.
inline void store_lanes(Words w, Word* out, int64_t plane) {
  store_words(out, _mm256_srai_epi16(_mm256_slli_epi16(w, 8), 8));
  store_words(out + plane, _mm256_srai_epi16(w, 8));
}
inline DotI8::Pairs lanes_at(const Word* p, int64_t plane) { return {load_words(p), load_words(p + plane)}; }
inline void interleave_bytes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d, int64_t n, Word* out,
                             int64_t plane) {
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) {
    const auto at = [i](const uint8_t* p) {
      return _mm256_cvtepi8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + i)));
    };
    const auto store_two = [](Word* to, __m256i x, __m256i y) {
      const __m256i low = _mm256_unpacklo_epi16(x, y), high = _mm256_unpackhi_epi16(x, y);
      store_words(to, _mm256_permute2x128_si256(low, high, 0x20));
      store_words(to + 8, _mm256_permute2x128_si256(low, high, 0x31));
    };
    store_two(out + i, at(a), at(c));
    store_two(out + plane + i, at(b), at(d));
  }
  const auto two = [](uint8_t x, uint8_t y) {
    const auto wide = [](uint8_t byte) { return static_cast<uint16_t>(static_cast<int16_t>(static_cast<int8_t>(byte))); };
    return static_cast<uint32_t>(wide(x)) | static_cast<uint32_t>(wide(y)) << 16;
  };
  for (; i < n; i++) {
    out[i] = two(a[i], c[i]);
    out[plane + i] = two(b[i], d[i]);
  }
}
inline void add_quad(Words& sum, DotI8::Pairs x, DotI8::Pairs w) {
  sum = _mm256_add_epi32(sum, _mm256_add_epi32(_mm256_madd_epi16(x.even, w.even), _mm256_madd_epi16(x.odd, w.odd)));
}
inline Floats to_floats(Words w) { return _mm256_cvtepi32_ps(w); }

}  // namespace
}  // namespace slip

#include "kernels/isa/pairs_as_f32.h"
