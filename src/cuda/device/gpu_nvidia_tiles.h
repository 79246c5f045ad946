// SPDX-License-Identifier: Apache-2.0
// One step of a product on a device: sums of 64 channels x kRows rows += a tile of weights (64 channels x 64 inner numbers) times a tile of
// rows (kRows x 64), both in shared memory in lines of 128 bytes whose 16-byte pieces are permuted (kernels.h). Hopper's warpgroup instruction
// does it where the code is compiled for it (sm_90a), the warps' matrix instruction elsewhere; on an H100 both came to the same bits.
#pragma once
#include "cuda/device/gpu_nvidia.h"

namespace slip::gpu {

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)

/// Where a tile is, for the instruction: 128-byte permutation, eight lines of 128 bytes apart from the next eight by 1 KiB.
__device__ inline uint64_t tile_descriptor(const void* tile) {
  return static_cast<uint64_t>((address_of(tile) & 0x3ffffu) >> 4) | uint64_t{1} << 16 | uint64_t{64} << 32 | uint64_t{1} << 62;
}
// One instruction each: sums of 64 channels and 8 to 192 rows += 16 inner numbers; without `add` the sums start at zero. The weights are a tile in
// shared memory, or the four words of mma_bf16 in each lane's registers. n0 to n5: the numbers of the operands behind the sums.
#define SLIP_MULTIPLY_16(rows, sums, n0, n1, n2, n3, n4, n5, names, ...)                                               \
  __device__ inline void multiply_16(float(&d)[sums], uint64_t w, uint64_t x, int add) {                               \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n2 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #rows              \
                 "k16.f32.bf16.bf16 {" names "}, %" #n0 ", %" #n1 ", p, 1, 1, 0, 0;\n}\n"                              \
                 : __VA_ARGS__                                                                                         \
                 : "l"(w), "l"(x), "r"(add));                                                                          \
  }                                                                                                                    \
  __device__ inline void multiply_16(float(&d)[sums], const uint32_t(&w)[4], uint64_t x, int add) {                    \
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #n5 ", 0;\nwgmma.mma_async.sync.aligned.m64n" #rows              \
                 "k16.f32.bf16.bf16 {" names "}, {%" #n0 ", %" #n1 ", %" #n2 ", %" #n3 "}, %" #n4 ", p, 1, 1, 0;\n}\n" \
                 : __VA_ARGS__                                                                                         \
                 : "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3]), "l"(x), "r"(add));                                      \
  }
// Sums i to i + 15 as operands.
#define SLIP_SUMS_16(i)                                                                                                           \
  "+f"(d[i + 0]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7]), \
      "+f"(d[i + 8]), "+f"(d[i + 9]), "+f"(d[i + 10]), "+f"(d[i + 11]), "+f"(d[i + 12]), "+f"(d[i + 13]), "+f"(d[i + 14]),        \
      "+f"(d[i + 15])
SLIP_MULTIPLY_16(8, 4, 4, 5, 6, 7, 8, 9, "%0, %1, %2, %3", "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]))
SLIP_MULTIPLY_16(16, 8, 8, 9, 10, 11, 12, 13, "%0, %1, %2, %3, %4, %5, %6, %7", "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]),
                 "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]))
SLIP_MULTIPLY_16(32, 16, 16, 17, 18, 19, 20, 21, "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15",
                 SLIP_SUMS_16(0))
SLIP_MULTIPLY_16(64, 32, 32, 33, 34, 35, 36, 37,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31",
                 SLIP_SUMS_16(0), SLIP_SUMS_16(16))
SLIP_MULTIPLY_16(128, 64, 64, 65, 66, 67, 68, 69,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63",
                 SLIP_SUMS_16(0), SLIP_SUMS_16(16), SLIP_SUMS_16(32), SLIP_SUMS_16(48))
SLIP_MULTIPLY_16(192, 96, 96, 97, 98, 99, 100, 101,
                 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
                 "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
                 "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
                 "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
                 "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
                 "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95",
                 SLIP_SUMS_16(0), SLIP_SUMS_16(16), SLIP_SUMS_16(32), SLIP_SUMS_16(48), SLIP_SUMS_16(64), SLIP_SUMS_16(80))
#undef SLIP_SUMS_16
#undef SLIP_MULTIPLY_16

/// Four warps together (a warpgroup); the sums may be touched after wait_for_products. `begin`: the sums start at zero here.
template <int kRows>
__device__ inline void multiply_tile(float (&sums)[kRows / 2], const void* w, const void* x, bool begin) {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
  for (int k = 0; k < 4; ++k)
    multiply_16(sums, tile_descriptor(w) + static_cast<uint64_t>(2 * k), tile_descriptor(x) + static_cast<uint64_t>(2 * k),
                k > 0 || !begin);
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
/// The same for half a tile with the weights in registers, which nobody may touch meanwhile either.
template <int kRows>
__device__ inline void multiply_words(float (&sums)[kRows / 2], const uint32_t (&w)[2][4], const void* x, int half, bool begin) {
  asm volatile("wgmma.fence.sync.aligned;\n" ::: "memory");
#pragma unroll
  for (int k = 0; k < 2; ++k)
    multiply_16(sums, w[k], tile_descriptor(x) + static_cast<uint64_t>(4 * half + 2 * k), k > 0 || !begin);
  asm volatile("wgmma.commit_group.sync.aligned;\n" ::: "memory");
}
/// Until at most kLeft of those calls are on their way.
template <int kLeft>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;\n" ::"n"(kLeft) : "memory");
}
template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;\n" ::"n"(kRegisters));
}

/// Behind wait_for_products<0>: what the compiler does with the sums comes after it.
template <int kSums>
__device__ inline void products_are_there(float (&sums)[kSums]) {
#pragma unroll
  for (int i = 0; i < kSums; ++i) asm volatile("" : "+f"(sums[i])::"memory");
}

#else

/// Where piece c of a tile's line is.
__device__ inline const char* piece_of(const void* tile, int line, int c) {
  return static_cast<const char*>(tile) + line * 128 + (c ^ (line & 7)) * 16;
}
/// sums += 16 inner numbers of weights, a0 to a3 of mma_bf16, times pieces 2 k and 2 k + 1 of the rows.
template <int kRows>
__device__ inline void multiply_16(float (&sums)[kRows / 2], const uint32_t (&w)[4], const void* x, int k) {
  const int lane = thread() % 32;
#pragma unroll
  for (int n = 0; n < kRows / 8; ++n) {
    const uint32_t low = *reinterpret_cast<const uint32_t*>(piece_of(x, 8 * n + lane / 4, 2 * k) + lane % 4 * 4),
                   high = *reinterpret_cast<const uint32_t*>(piece_of(x, 8 * n + lane / 4, 2 * k + 1) + lane % 4 * 4);
    float d[4] = {sums[4 * n], sums[4 * n + 1], sums[4 * n + 2], sums[4 * n + 3]};
    mma_bf16(d, w[0], w[1], w[2], w[3], low, high);
#pragma unroll
    for (int e = 0; e < 4; ++e) sums[4 * n + e] = d[e];
  }
}
template <int kRows>
__device__ inline void begin_sums(float (&sums)[kRows / 2], bool begin) {
  if (begin)
#pragma unroll
    for (int i = 0; i < kRows / 2; ++i) sums[i] = 0;
}
template <int kRows>
__device__ inline void multiply_tile(float (&sums)[kRows / 2], const void* w, const void* x, bool begin) {
  const int warp = thread() / 32 % 4, lane = thread() % 32;
  begin_sums<kRows>(sums, begin);
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    uint32_t a[4];
    load_matrix_4(a, piece_of(w, 16 * warp + lane % 16, 2 * k + lane / 16));
    multiply_16<kRows>(sums, a, x, k);
  }
}
template <int kRows>
__device__ inline void multiply_words(float (&sums)[kRows / 2], const uint32_t (&w)[2][4], const void* x, int half, bool begin) {
  begin_sums<kRows>(sums, begin);
#pragma unroll
  for (int k = 0; k < 2; ++k) multiply_16<kRows>(sums, w[k], x, 2 * half + k);
}
/// All lanes have read what was multiplied.
template <int kLeft>
__device__ inline void wait_for_products() {
  sync_warp();
}
template <int kSums>
__device__ inline void products_are_there(float (&)[kSums]) {}
template <int kRegisters>
__device__ inline void take_registers() {}
template <int kRegisters>
__device__ inline void give_registers() {}

#endif

}  // namespace slip::gpu
