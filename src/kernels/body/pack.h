// SPDX-License-Identifier: Apache-2.0
// Activations in the words of a weight type, normed on the way where asked: the factor 1 / rms is that of rms_norm_rows, and so is
// the product x * factor * gain, hence the bits. Included after body/rows.h.
#pragma once

namespace slip {
namespace {

/// Number i of a row as the product takes it.
struct Plain {
  const float* x;
  float operator()(int64_t i) const { return x[i]; }
};
struct Normed {
  const float* x;
  const float* gain;
  float inverse;
  float operator()(int64_t i) const { return x[i] * inverse * gain[i]; }
};

/// Round to nearest even, as to_bf16 of core/dtype.h (which is inline, so not for these files).
inline uint32_t bf16_bits(float f) {
  uint32_t u;
  __builtin_memcpy(&u, &f, 4);
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16, quiet = (u >> 16) | 0x40u;
  return (u & 0x7fffffffu) > 0x7f800000u ? quiet : rounded;
}

/// Numbers that need no scale.
struct Unscaled {
  template <class Row>
  static float prepare(Row, int64_t, float*) {
    return 0;
  }
};

struct PackF32 : Unscaled {
  static constexpr int kWords = DotF32::kWords;
  /// Words [s, s + n) of the row, of which `k` numbers there are.
  template <class Row>
  static void words(Row row, int64_t s, int64_t n, int64_t k, float, Word* out) {
    const int64_t whole = k - s < n ? k - s : n;
    for (int64_t i = 0; i < whole; i++) {
      const float v = row(s + i);
      __builtin_memcpy(out + i, &v, 4);
    }
    for (int64_t i = whole > 0 ? whole : 0; i < n; i++) out[i] = 0;
  }
};

struct PackBF16 : Unscaled {
  static constexpr int kWords = DotBF16::kWords;
  template <class Row>
  static void words(Row row, int64_t s, int64_t n, int64_t k, float, Word* out) {
    // As a pair, or, where a product takes two words, each as f32.
    const auto put = [](Word* to, int64_t i, uint32_t low, uint32_t high) {
      if constexpr (kWords == 2) {
        to[2 * i] = low << 16;
        to[2 * i + 1] = high << 16;
      } else {
        to[i] = low | high << 16;
      }
    };
    const int64_t whole = k / 2 - s < n ? k / 2 - s : n;
    if constexpr (kWords == 2)
      for (int64_t i = 0; i < 2 * whole; i++) out[i] = bf16_bits(row(2 * s + i)) << 16;
    else
      for (int64_t i = 0; i < whole; i++) put(out, i, bf16_bits(row(2 * (s + i))), bf16_bits(row(2 * (s + i) + 1)));
    for (int64_t i = whole > 0 ? whole : 0; i < n; i++) put(out, i, 2 * (s + i) < k ? bf16_bits(row(k - 1)) : 0, 0);
  }
};

/// x = scale * q, q = round_half_even(x * (127 / max|x|)), stored as q + kOffset; a row with an inf or NaN gets a NaN scale.
struct PackInt {
  static constexpr int kWords = DotWeightI8::kWords;
  template <class Row>
  static float prepare(Row row, int64_t k, float* scale) {
    uint32_t top = 0;
    for (int64_t i = 0; i < k; i++) {
      const float v = row(i);
      uint32_t u;
      __builtin_memcpy(&u, &v, 4);
      u &= 0x7fffffffu;
      top = u > top ? u : top;
    }
    float largest;
    __builtin_memcpy(&largest, &top, 4);
    // Below 2^-100 the inverse would overflow; such a row is zero in any pass that means something.
    const bool usable = top < 0x7f800000u && largest > 7.9e-31F;
    *scale = usable ? largest / 127.0F : top < 0x7f800000u ? 0.0F : __builtin_nanf("");
    return usable ? 127.0F / largest : 0.0F;
  }
  template <class Row>
  static void words(Row row, int64_t s, int64_t n, int64_t k, float inverse, Word* words) {
    Word four[kChunkSteps];
    unsigned char* out = reinterpret_cast<unsigned char*>(kWords == 2 ? four : words);
    const int64_t whole = k - 4 * s < 4 * n ? k - 4 * s : 4 * n;
    for (int64_t i = 0; i < whole; i++) {
      // 1.5 * 2^23 + an even offset: the last byte is q + offset, half to even.
      const float shifted = row(4 * s + i) * inverse + (12582912.0F + DotWeightI8::kOffset);
      uint32_t u;
      __builtin_memcpy(&u, &shifted, 4);
      out[i] = static_cast<unsigned char>(u);
    }
    for (int64_t i = whole > 0 ? whole : 0; i < 4 * n; i++) out[i] = 0;
    for (int64_t i = 0; i < n && kWords == 2; i++) {
      words[2 * i] = four[i] & 0x00ff00ffu;
      words[2 * i + 1] = four[i] >> 8 & 0x00ff00ffu;
    }
  }
};

template <class Pack, class Row>
void pack_row(const PackArgs& a, int64_t t, Row row) {
  const float factor = Pack::prepare(row, a.k, a.scales_T + t);
  Word* out = a.words + t * kChunkSteps * Pack::kWords;
  for (int64_t s = 0; s < a.steps; s += kChunkSteps, out += a.chunk)
    Pack::words(row, s, a.steps - s < kChunkSteps ? a.steps - s : kChunkSteps, a.k, factor, out);
}

template <class Pack>
void pack_rows(const PackArgs& a) {
  for (int64_t t = 0; t < a.rows; t++) {
    const float* x = a.x_TK + t * a.ldx;
    if (a.gain_K)
      pack_row<Pack>(a, t, Normed{x, a.gain_K, inverse_rms(x, a.k, a.eps)});
    else
      pack_row<Pack>(a, t, Plain{x});
  }
}

}  // namespace
}  // namespace slip
