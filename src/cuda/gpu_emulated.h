// SPDX-License-Identifier: Apache-2.0
// A GPU played by the processor: every thread of a block is a fiber, and barriers and warp instructions are where fibers wait for each
// other. It knows nothing of time. What it cannot show: races between barriers that its fixed order hides, and the order of sums inside a
// matrix instruction, which no one documents (here: ascending k, f32).
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>

// CUDA's own words, empty for this compiler.
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

namespace slip::gpu {

struct uint4 {
  uint32_t x, y, z, w;
};

int thread();
int block_x();
int block_y();
void sync_block();
/// Dynamic shared memory of the block, 128-byte aligned, contents undefined.
unsigned char* shared();

/// v of lane (own lane ^ mask). As all warp functions: every lane of the warp must come here.
float shuffle_xor(float v, int mask);
inline int shuffle_xor(int v, int mask) { return __builtin_bit_cast(int, shuffle_xor(__builtin_bit_cast(float, v), mask)); }

/// d (16 x 8) += a (16 x 16) b (16 x 8), bf16 pairs. With g = lane / 4, t = lane % 4, low half first:
///   a0: row g, k 2t; a1: row g + 8, k 2t; a2: row g, k 2t + 8; a3: row g + 8, k 2t + 8; b0: k 2t, column g; b1: k 2t + 8, column g;
///   d0, d1: row g, columns 2t, 2t + 1; d2, d3: row g + 8.
void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1);

/// Four 8 x 8 matrices of 16-bit numbers, row i of matrix j at the address that lane 8 j + i gives; r[j] = numbers (2t, g) and
/// (2t + 1, g) of matrix j.
void load_matrix_4_transposed(uint32_t (&r)[4], const void* shared_row);

inline uint4 load_once(const uint4* p) { return *p; }
inline void copy_16_async(void* to, const void* from) { __builtin_memcpy(to, from, 16); }
inline void wait_for_copies() {}
inline void wait_for_previous() {}
inline void let_next_start() {}

inline float reciprocal_root(float x) { return 1 / std::sqrt(x); }
inline float power_of_2(float x) { return std::exp2(x); }
inline float power_of_e(float x) { return std::exp(x); }

using Stream = void*;

void run_blocks(int columns, int rows, int threads, size_t shared_bytes, const std::function<void()>& kernel);

template <class Args>
void launch(void (*kernel)(Args), int columns, int rows, int threads, size_t shared_bytes, Stream, const Args& args) {
  run_blocks(columns, rows, threads, shared_bytes, [&] { kernel(args); });
}

}  // namespace slip::gpu
