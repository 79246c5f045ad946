// SPDX-License-Identifier: Apache-2.0
// Quads of bytes for int8 attention: four numbers to a word, unsigned on the broadcast side and signed in the lanes, as DotI8 takes
// them. Plain versions, for any processor whose DotI8 takes a word as it lies (kWords 1); an instruction set that has better ones
// declares them, not as templates, in its pairs_*.h, and these then give way. Included after a pairs_*.h.
#pragma once

namespace slip {
namespace {

/// The four unsigned bytes at p, in every lane, as DotI8 takes them.
template <class Dot = DotI8>
inline auto quad_at(const Word* p) {
  static_assert(Dot::kWords == 1, "its pairs_*.h declares quad_at, store_quads and stored_quad_at");
  return Dot::at(p, 0);
}

/// The low bytes of the words of a, b, c, d, lane by lane, from the lowest byte on.
template <int = 0>
inline Words bytes_of(Floats a, Floats b, Floats c, Floats d) {
  Word four[4][kLanes];
  store_words(four[0], (Words)a);
  store_words(four[1], (Words)b);
  store_words(four[2], (Words)c);
  store_words(four[3], (Words)d);
  for (int i = 0; i < kLanes; i++)
    four[0][i] = (four[0][i] & 255u) | (four[1][i] & 255u) << 8 | (four[2][i] & 255u) << 16 | four[3][i] << 24;
  return load_words(four[0]);
}

/// bytes_of as the weights of kLanes queries for a quad of keys: DotI8::kWords planes, `plane` words apart.
template <int = 0>
inline void store_quads(Floats a, Floats b, Floats c, Floats d, Word* out, int64_t) {
  store_words(out, bytes_of(a, b, c, d));
}
/// The quad at `p`, stored so, in every lane.
template <int = 0>
inline auto stored_quad_at(const Word* p, int64_t) {
  return DotI8::at(p, 0);
}

/// The lanes' side in memory: DotI8::kWords planes of signed quads, `plane` words apart.
template <int = 0>
inline void store_lanes(Words w, Word* out, int64_t) {
  store_words(out, w);
}
template <int = 0>
inline Words lanes_at(const Word* p, int64_t) {
  return load_words(p);
}
/// The same of out[i] = a[i] | b[i] << 8 | c[i] << 16 | d[i] << 24 for i < n.
template <int = 0>
inline void interleave_bytes(const uint8_t* a, const uint8_t* b, const uint8_t* c, const uint8_t* d, int64_t n, Word* out,
                             int64_t) {
  for (int64_t i = 0; i < n; i++)
    out[i] = static_cast<uint32_t>(a[i]) | static_cast<uint32_t>(b[i]) << 8 | static_cast<uint32_t>(c[i]) << 16 |
             static_cast<uint32_t>(d[i]) << 24;
}

/// Lane by lane, of integers below 2^24.
template <int = 0>
inline Floats to_floats(Words w) {
  int32_t i[kLanes];
  float f[kLanes];
  store_words(i, w);
  for (int j = 0; j < kLanes; j++) f[j] = static_cast<float>(i[j]);
  return load(f);
}

/// DotI8 in place.
template <class Quad, class Lanes>
inline void add_quad(Words& sum, Quad x, Lanes w) {
  sum = DotI8::dot(sum, x, w);
}

}  // namespace
}  // namespace slip
