// SPDX-License-Identifier: Apache-2.0
// The vector words of the bodies for any processor: 4 lanes, compiler vectors, products and sums rounded one by one.
#pragma once
#include <cstddef>

#include "kernels/isa/int4.h"
#include "kernels/isa/ops.h"

namespace slip {
namespace {

constexpr int kLanes = 4;
constexpr int kTileVectors = 2;  // 4 rows x 2 vectors of sums fit the 16 registers of SSE2
constexpr int kTileRows = 4;
typedef float Floats __attribute__((vector_size(16)));
typedef uint32_t Words __attribute__((vector_size(16)));
typedef int32_t Ints __attribute__((vector_size(16)));
typedef int16_t Shorts __attribute__((vector_size(16)));

inline Words load_words(const void* p) {
  Words v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline void store_words(void* p, Words v) { __builtin_memcpy(p, &v, sizeof v); }
inline Words splat_word(const Word* p) {
  const uint32_t w = *p;
  return Words{w, w, w, w};
}
inline Floats load(const float* p) {
  Floats v;
  __builtin_memcpy(&v, p, sizeof v);
  return v;
}
inline Floats load_part(const float* p, int64_t n) {
  Floats v = {0, 0, 0, 0};
  for (int64_t i = 0; i < n; i++) v[i] = p[i];
  return v;
}
inline Floats zeros() { return Floats{0, 0, 0, 0}; }
inline Floats add_v(Floats a, Floats b) { return a + b; }
inline Floats sub_v(Floats a, Floats b) { return a - b; }
inline Floats splat(float a) { return Floats{a, a, a, a}; }
inline Floats fma_v(Floats a, Floats b, Floats c) { return a * b + c; }
inline Floats max_v(Floats a, Floats b) {
  for (int i = 0; i < kLanes; i++) a[i] = a[i] > b[i] ? a[i] : b[i];  // b where either is NaN, as maxps
  return a;
}
inline float sum_lanes(Floats v) { return (v[0] + v[2]) + (v[1] + v[3]); }
inline float max_lanes(Floats v) {
  const float even = v[0] > v[2] ? v[0] : v[2], odd = v[1] > v[3] ? v[1] : v[3];
  return even > odd ? even : odd;
}
inline void store(float* p, Floats v) { __builtin_memcpy(p, &v, sizeof v); }
inline Floats mul_v(Floats a, Floats b) { return a * b; }
inline Floats div_v(Floats a, Floats b) { return a / b; }
/// Whether a number is above `limit`; NaN is not.
inline bool any_above(Floats a, float limit) { return (a[0] > limit) | (a[1] > limit) | (a[2] > limit) | (a[3] > limit); }
inline float fma_s(float a, float b, float c) { return a * b + c; }

inline Words no_words() { return Words{0, 0, 0, 0}; }
constexpr int kSumsInFlight = 8;  // registers for sums in attention
/// a * 2^n for n in the low bits of `shifted` (exp_s), whose result must be normal; +0 where x < limit.
inline Floats add_to_exponent_or_zero(Floats a, Floats shifted, Floats x, Floats limit) {
  return (Floats)(((Words)a + ((Words)shifted << 23)) & ~(Words)(x < limit));
}

/// One number for each of eight queries.
constexpr int kEight = 2;
struct Eight {
  Floats v[kEight];
};
inline void store_first(float* p, Eight x, int64_t n) { __builtin_memcpy(p, &x, static_cast<size_t>(n) * sizeof(float)); }
inline Floats splat_lane(Eight x, int64_t r) { return splat(x.v[r / kLanes][r % kLanes]); }
inline Eight sum_lanes_of_8(const Floats* v) {
  Eight out;
  for (int r = 0; r < 8; r++) out.v[r / kLanes][r % kLanes] = sum_lanes(v[r]);
  return out;
}
inline Eight max_lanes_of_8(const Floats* v) {
  Eight out;
  for (int r = 0; r < 8; r++) out.v[r / kLanes][r % kLanes] = max_lanes(v[r]);
  return out;
}

/// How a product takes word s of a row of activations; kWords: words of memory per word.
struct WordByWord {
  static constexpr int kWords = 1;
  static inline Words at(const Word* x, int64_t s) { return splat_word(x + s); }
};
struct DotF32 : WordByWord {
  static inline Words dot(Words sum, Words x, Words w) { return (Words)((Floats)x * (Floats)w + (Floats)sum); }
};
struct DotBF16 : WordByWord {
  static inline Words dot(Words sum, Words x, Words w) {
    const Floats even = (Floats)sum + (Floats)(x << 16) * (Floats)(w << 16);
    return (Words)(even + (Floats)(x & 0xffff0000u) * (Floats)(w & 0xffff0000u));
  }
};
struct DotI8 : WordByWord {
  // 16-bit products (255 * 127 fits), widened before they are added: SSE2 has no 32-bit product.
  static inline Words dot(Words sum, Words x, Words w) {
    const Shorts even = (Shorts)(x & 0x00ff00ffu) * ((Shorts)(w << 8) >> 8),
                 odd = (Shorts)((x >> 8) & 0x00ff00ffu) * ((Shorts)w >> 8);
    const Ints low = (((Ints)even << 16) >> 16) + (((Ints)odd << 16) >> 16), high = ((Ints)even >> 16) + ((Ints)odd >> 16);
    return (Words)((Ints)sum + (low + high));
  }
};
/// With int8 weights, activations stored as value + kOffset.
struct DotWeightI8 : DotI8 {
  static constexpr int kOffset = 128;
};

/// A chunk of int4 weights as int8 words, [steps][64].
inline void unpack_int4(const char* chunk, int64_t steps, Word* words) {
  const unsigned char* codes = reinterpret_cast<const unsigned char*>(chunk);
  const unsigned char* line = codes + int4_code_bytes(steps);
  signed char* out = reinterpret_cast<signed char*>(words);
  for (int64_t s = 0; s < steps; s += 2, line += 256, out += 512) {
    const unsigned char* code_C = codes + s / kInt4GroupSteps * 32;
    for (int64_t c = 0; c < kBlockColumns; c++) {
      const int8_t* values = kInt4Values.at + 16 * (c < 32 ? code_C[c] & 7 : code_C[c - 32] >> 4 & 7);
      for (int64_t j = 4 * c; j < 4 * c + 4; j++) {
        out[j] = values[line[j] & 15];
        out[256 + j] = values[line[j] >> 4];
      }
    }
  }
}

/// out[k][j] = rows[j][k] for kLanes x kLanes numbers.
inline void transpose_square(const float* const* rows, int64_t k, float* out, int64_t ldo) {
  for (int i = 0; i < kLanes; i++)
    for (int j = 0; j < kLanes; j++) out[i * ldo + j] = rows[j][k + i];
}

}  // namespace
}  // namespace slip
