// SPDX-License-Identifier: Apache-2.0
// Words of two bf16 for attention where the processor has a product of pairs, or is asked as if it had one: one plane of words. Stands at the
// end of such a pairs_*.h, over its pair_lanes, pack_pairs, add_dot, lower_of and ones.
#pragma once

namespace slip {
namespace {

constexpr int kPairPlanes = 1;  // body/attention_pairs.h

/// pair_lanes(a, b) at `out`; sum += both numbers of every word, the lower first.
inline void store_and_add(Words& sum, Floats a, Floats b, Word* out, int64_t) {
  const Words w = pair_lanes(a, b);
  store_words(out, w);
  add_dot(sum, w, ones());
}
/// The words at `from` with 0 in place of the upper numbers.
inline void store_lower(const Word* from, Word* to, int64_t) { store_words(to, lower_of(load_words(from))); }
/// The word at p in every lane; its products with the lanes' words.
template <int>
inline Words pair_at(const Word* p) {
  return splat_word(p);
}
inline void add_pairs(Words& sum, Words x, Words w) { add_dot(sum, x, w); }
/// pack_pairs(low, high) at `out`.
inline void store_numbers(Floats low, Floats high, Word* out) { store_words(out, pack_pairs(low, high)); }

}  // namespace
}  // namespace slip
