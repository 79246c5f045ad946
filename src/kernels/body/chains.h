// SPDX-License-Identifier: Apache-2.0
// Vectors in which sums over the numbers of one row run: those of the instruction set, but eight lanes where it has the bits of AVX2 (AVX-512
// without products of bf16). Their order decides a sum's last bits. Included after a pairs_*.h.
#pragma once

namespace slip {
namespace {

#if defined(__AVX512F__) && !defined(__AVX512BF16__)
constexpr int kChainLanes = 8;
using Chain = __m256;

inline Chain load_chain(const float* p) { return _mm256_loadu_ps(p); }
inline Chain load_chain_part(const float* p, int64_t n) { return _mm512_castps512_ps256(load_part(p, n)); }
inline Chain chain_of(float a) { return _mm256_set1_ps(a); }
inline Chain add_v(Chain a, Chain b) { return _mm256_add_ps(a, b); }
inline Chain sub_v(Chain a, Chain b) { return _mm256_sub_ps(a, b); }
inline Chain fma_v(Chain a, Chain b, Chain c) { return _mm256_fmadd_ps(a, b, c); }
inline Chain max_v(Chain a, Chain b) { return _mm256_max_ps(a, b); }
/// sum + x, whose lanes 8 .. 15 follow upon lanes 0 .. 7; those of the result are zero.
inline Floats add_to_chain(Floats sum, Floats x) {
  const Chain low = add_v(_mm512_castps512_ps256(sum), _mm512_castps512_ps256(x));
  return _mm512_zextps256_ps512(add_v(low, _mm512_extractf32x8_ps(x, 1)));
}
#else
constexpr int kChainLanes = kLanes;
using Chain = Floats;

inline Chain load_chain(const float* p) { return load(p); }
inline Chain load_chain_part(const float* p, int64_t n) { return load_part(p, n); }
inline Chain chain_of(float a) { return splat(a); }
inline Floats add_to_chain(Floats sum, Floats x) { return add_v(sum, x); }
#endif

}  // namespace
}  // namespace slip
