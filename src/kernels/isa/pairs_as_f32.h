// SPDX-License-Identifier: Apache-2.0
// bf16 where the processor has no product of pairs, or a slow one: numbers are multiplied as f32. Stands behind a vec_*.h and over its
// widened (bf16 in memory as f32), bf16_above and add_product. The bits are those of AVX2, whatever the width of a vector.
#pragma once

namespace slip {
namespace {

/// The lower and the upper bf16 of every word as f32 are widened_low and widened_high (vec_*.h).
struct DotBF16 {
  // Activations lie in memory as f32, so that only the weights are widened here. A tile goes through a step in two halves, first all lower
  // numbers, then all upper ones (product.h): both at once need more than 16 registers, and g++ 12 then spills sums, which took twice the
  // time at 4 rows (docs/lab/0025).
  static constexpr int kWords = 2;
  static constexpr bool kInHalves = true;
  static inline Words low_at(const Word* x, int64_t s) { return splat_word(x + 2 * s); }
  static inline Words high_at(const Word* x, int64_t s) { return splat_word(x + 2 * s + 1); }
  static inline Words low_of(Words w) { return widened_low(w); }
  static inline Words high_of(Words w) { return widened_high(w); }
  static inline void add_half(Words& sum, Words x, Words w) { add_product(sum, x, w); }
};

/// Each number rounded to bf16 (ties to even, NaN stays NaN), as f32.
inline Words rounded_to_bf16(Floats x) { return widened_high(bf16_above(x)); }

// Whatever is rearranged anyway is kept as f32, the lower numbers of the pairs in one plane, the upper ones in another `plane` words on
// (body/attention_pairs.h).
constexpr int kPairPlanes = 2;

/// out[i] = a[i] and out[plane + i] = b[i] for i < n, as f32; b null: zeros.
inline void interleave(const uint16_t* a, const uint16_t* b, int64_t n, Word* out, int64_t plane) {
  const auto widen = [n](const uint16_t* from, Word* to) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_words(to + i, widened(from + i));
    for (; i < n; i++) to[i] = static_cast<uint32_t>(from[i]) << 16;
  };
  widen(a, out);
  if (b)
    widen(b, out + plane);
  else
    __builtin_memset(out + plane, 0, static_cast<size_t>(n) * sizeof(Word));
}

/// Rounded to bf16 (ties to even, NaN stays NaN): a at `out`, b a plane on; sum += a, then b.
inline void store_and_add(Words& sum, Floats a, Floats b, Word* out, int64_t plane) {
  const Words low = rounded_to_bf16(a), high = rounded_to_bf16(b);
  store_words(out, low);
  store_words(out + plane, high);
  sum = as_words(add_v(add_v(as_floats(sum), as_floats(low)), as_floats(high)));
}
/// The words at `from`, and zeros a plane on.
inline void store_lower(const Word* from, Word* to, int64_t plane) {
  store_words(to, load_words(from));
  store_words(to + plane, no_words());
}
/// One number of the word at p in every lane; its products with one plane's.
template <int kHalf>
inline Words pair_at(const Word* p) {
  if (kHalf == 0) return widened_low(splat_word(p));
  Words w;  // loaded once more: kept, the words of a tile's keys would take the registers of its sums
  asm("vpbroadcastd %1, %0" : "=v"(w) : "m"(*p));
  return widened_high(w);
}
inline void add_pairs(Words& sum, Words x, Words w) { add_product(sum, x, w); }
/// The numbers of low, then those of high, rounded to bf16, as f32.
inline void store_numbers(Floats low, Floats high, Word* out) {
  store_words(out, rounded_to_bf16(low));
  store_words(out + kLanes, rounded_to_bf16(high));
}

}  // namespace
}  // namespace slip
