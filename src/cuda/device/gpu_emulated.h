// SPDX-License-Identifier: Apache-2.0
// A GPU played by the processor: every thread of a block is a fiber, and barriers and warp instructions are where fibers wait for each
// other. It knows nothing of time. What it cannot show: races between barriers that its fixed orders hide (hurry_last_warps() gives another), and the order of sums inside a
// matrix instruction, which no one documents (here: ascending k, f32).
#pragma once
#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

// CUDA's own words, empty for this compiler.
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)

namespace slip::gpu {

struct uint4 {
  uint32_t x, y, z, w;
};
struct uint2 {
  uint32_t x, y;
};
struct float2 {
  float x, y;
};
struct float4 {
  float x, y, z, w;
};

int thread();
int block_x();
int block_y();
int blocks_x();
void sync_block();
/// Dynamic shared memory of the block, 1024-byte aligned, contents undefined.
unsigned char* shared();

/// v of lane (own lane ^ mask). As all warp functions: every lane of the warp must come here.
float shuffle_xor(float v, int mask);
inline int shuffle_xor(int v, int mask) { return __builtin_bit_cast(int, shuffle_xor(__builtin_bit_cast(float, v), mask)); }
double shuffle_xor(double v, int mask);

/// d (16 x 8) += a (16 x 16) b (16 x 8), bf16 pairs. With g = lane / 4, t = lane % 4, low half first:
///   a0: row g, k 2t; a1: row g + 8, k 2t; a2: row g, k 2t + 8; a3: row g + 8, k 2t + 8; b0: k 2t, column g; b1: k 2t + 8, column g;
///   d0, d1: row g, columns 2t, 2t + 1; d2, d3: row g + 8.
void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1);

/// Four 8 x 8 matrices of 16-bit numbers, row i of matrix j at the address that lane 8 j + i gives; r[j] = numbers (2t, g) and
/// (2t + 1, g) of matrix j.
void load_matrix_4_transposed(uint32_t (&r)[4], const void* shared_row);

/// As above without turning: r[j] = numbers (g, 2t) and (g, 2t + 1) of matrix j.
void load_matrix_4(uint32_t (&r)[4], const void* shared_row);
/// `threads` threads of the block that name this barrier (1 to 15).
void sync_group(int barrier, int threads);
void sync_warp();

/// Adds, and gives what was there; orders what this thread wrote before it and reads after it among all blocks.
inline int add_in_turn(int* to, int n) {
  const int before = *to;
  *to += n;
  return before;
}
/// *to += v without waiting for what was there; on a device subnormal numbers count as zero.
inline void add_to(float* to, float v) { *to += v; }
/// What another block of this kernel wrote.
inline float4 load_fresh(const float4* p) { return *p; }

/// Counts arrivals and announced bytes; a phase is over when neither is missing, and the next begins.
struct Signal {
  int16_t arrivals, missing;
  int32_t bytes_and_phase;  // 2 x bytes that are missing + the phase's parity
};
static_assert(sizeof(Signal) == 8);
constexpr int kFillers = 1;  // arrivals of a fill
void signal_init(Signal* s, int arrivals);
inline void signals_are_made() {}
void signal_arrive(Signal* s);
/// Until the signal's phase of this parity is over.
void signal_wait(Signal* s, uint32_t parity);
/// A warp announces copies of `bytes` together, makes them, and ends: the signal's phase is over when all are there.
void begin_fill(Signal* s, uint32_t bytes);
void fill(void* shared_to, const void* global_from, uint32_t bytes, Signal* s);
inline void end_fill(Signal*) {}
// Blocks of a cluster run at the same time and read each other's shared memory; here none are.
inline int cluster_blocks() { return 1; }
inline int cluster_rank() { return 0; }
inline void sync_cluster() {}
inline float4 load_from_block(const float4* p, int) { return *p; }
inline bool may_cluster(const void*) { return false; }
inline bool has_warpgroup_products() { return true; }

inline uint4 load_once(const uint4* p) { return *p; }
inline void copy_16_async(void* to, const void* from) { __builtin_memcpy(to, from, 16); }
inline void copy_4_async(void* to, const void* from) { __builtin_memcpy(to, from, 4); }
/// Sixteen zero bytes unless `there`; `from` is a valid address in any case.
inline void copy_16_or_clear(void* to, const void* from, bool there) {
  if (there)
    __builtin_memcpy(to, from, 16);
  else
    __builtin_memset(to, 0, 16);
}
inline void commit_copies() {}
template <int kLeft>
inline void wait_for_groups() {}
void wait_for_previous();
/// For tests: what the kernel before writes. Each block begins when it is not there, and it is when all threads of the block have come to
/// wait_for_previous(). Until overlap_with({}, {}).
void overlap_with(std::function<void()> take_away, std::function<void()> write);
/// For tests: the last so many warps of a block, which fill rings, come far ahead of the others wherever nothing makes them wait.
void hurry_last_warps(int warps);
inline void let_next_start() {}

/// Four bytes, each a number + 128, as bf16: bytes 0 and 2 in `even`, 1 and 3 in `odd`.
inline void widen(uint32_t bytes, uint32_t& even, uint32_t& odd) {
  const auto bf16 = [bytes](int i) {
    const auto number = static_cast<float>(static_cast<int>(bytes >> (8 * i) & 255U) - 128);
    return __builtin_bit_cast(uint32_t, number) >> 16;  // of whole numbers of 8 bits nothing is cut off
  };
  even = bf16(0) | bf16(2) << 16;
  odd = bf16(1) | bf16(3) << 16;
}

inline float reciprocal_root(float x) { return 1 / std::sqrt(x); }
inline float quotient(float x, float y) { return x / y; }
inline float error_function(float x) { return std::erf(x); }
/// On a device zero where the result would be subnormal.
inline float power_of_2(float x) { return std::exp2(x); }
/// The other of the two where one is no number.
inline float larger(float x, float y) { return std::fmax(x, y); }
/// Two numbers as bf16, nearest even; NaN stays NaN.
uint32_t pair_of(float low, float high);
inline float power_of_e(float x) { return std::exp(x); }
inline double exponential(double x) { return std::exp(x); }

/// sums (64 channels x kRows rows; a thread's as the matrix instruction's of its warp's 16 channels) += w (64 lines of 64 bf16) times x (kRows lines),
/// lines of 128 bytes whose 16-byte pieces c stand at c ^ (line % 8). `begin`: the sums start at zero here.
void multiply_tile(float* sums, const void* w, const void* x, bool begin, int rows);
template <int kRows>
void multiply_tile(float (&sums)[kRows / 2], const void* w, const void* x, bool begin) {
  multiply_tile(sums, w, x, begin, kRows);
}
/// The same for half a tile, with its weights in registers: w[s] are mma_bf16's a0 to a3 of the warp's 16 channels and inner numbers
/// 32 half + 16 s to 32 half + 16 s + 15. They stay as they are until wait_for_products().
void multiply_words(float* sums, const uint32_t (&w)[2][4], const void* x, int half, bool begin, int rows);
template <int kRows>
void multiply_words(float (&sums)[kRows / 2], const uint32_t (&w)[2][4], const void* x, int half, bool begin) {
  multiply_words(sums, w, x, half, begin, kRows);
}
/// All lanes have read what was multiplied.
template <int kLeft>
inline void wait_for_products() {
  sync_warp();
}
template <int kSums>
inline void products_are_there(float (&)[kSums]) {}
template <int kRegisters>
inline void take_registers() {}
template <int kRegisters>
inline void give_registers() {}

/// 227 KiB, as Hopper has it, or what limit_shared() said; no block gets more.
size_t shared_limit();
/// For tests: other devices have less. 0: Hopper's again.
void limit_shared(size_t bytes);

using Stream = void*;

void run_blocks(int columns, int rows, int threads, size_t shared_bytes, const std::function<void()>& kernel);

/// While a pass is captured its launches and copies are put down, with what they are given, and run when it is launched; null: at once.
using Captured = std::vector<std::function<void()>>;
Captured*& capturing();
inline void run_or_capture(std::function<void()> work) {
  if (Captured* list = capturing())
    list->push_back(std::move(work));
  else
    work();
}

template <class Args>
void launch(void (*kernel)(Args), int columns, int rows, int threads, size_t shared_bytes, Stream, const Args& args, int = 1) {
  run_or_capture([=] { run_blocks(columns, rows, threads, shared_bytes, [&] { kernel(args); }); });
}

}  // namespace slip::gpu
