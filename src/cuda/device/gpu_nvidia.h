// SPDX-License-Identifier: Apache-2.0
// The device's own instructions (sm_80 and later); meanings as in gpu_emulated.h, source: PTX ISA 8.x.
#pragma once
#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <map>
#include <mutex>
#include <utility>

namespace slip::gpu {

__device__ inline int thread() { return static_cast<int>(threadIdx.x); }
__device__ inline int block_x() { return static_cast<int>(blockIdx.x); }
__device__ inline int blocks_x() { return static_cast<int>(gridDim.x); }
__device__ inline int block_y() { return static_cast<int>(blockIdx.y); }
__device__ inline void sync_block() { __syncthreads(); }

extern __shared__ __align__(1024) unsigned char dynamic_shared[];
__device__ inline unsigned char* shared() { return dynamic_shared; }

__device__ inline float shuffle_xor(float v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline int shuffle_xor(int v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }
__device__ inline double shuffle_xor(double v, int mask) { return __shfl_xor_sync(0xffffffffu, v, mask); }

__device__ inline void mma_bf16(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t a2, uint32_t a3, uint32_t b0, uint32_t b1) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ inline void load_matrix_4_transposed(uint32_t (&r)[4], const void* shared_row) {
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}

/// Weights are read once per pass: they go past the L1.
__device__ inline uint4 load_once(const uint4* p) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(p));
  return v;
}

__device__ inline void copy_16_async(void* shared_to, const void* global_from) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared_to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\n" ::"r"(to), "l"(global_from));
}
__device__ inline void copy_4_async(void* shared_to, const void* global_from) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared_to));
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;\n" ::"r"(to), "l"(global_from));
}
/// Sixteen zero bytes unless `there`; `from` is a valid address in any case.
__device__ inline void copy_16_or_clear(void* shared_to, const void* global_from, bool there) {
  const uint32_t to = static_cast<uint32_t>(__cvta_generic_to_shared(shared_to));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(to), "l"(global_from), "r"(there ? 16 : 0));
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;\n" ::: "memory"); }
/// Until at most kLeft of this thread's groups of copies are on their way.
template <int kLeft>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;\n" ::"n"(kLeft) : "memory");
}
__device__ inline void sync_warp() { __syncwarp(); }
__device__ inline void load_matrix_4(uint32_t (&r)[4], const void* shared_row) {
  const uint32_t at = static_cast<uint32_t>(__cvta_generic_to_shared(shared_row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];\n"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(at));
}
/// `threads` threads of the block that name this barrier (1 to 15).
__device__ inline void sync_group(int barrier, int threads) {
  asm volatile("bar.sync %0, %1;\n" ::"r"(barrier), "r"(threads) : "memory");
}

/// Adds, and gives what was there; orders what this thread wrote before it and reads after it among all blocks.
__device__ inline int add_in_turn(int* to, int n) {
  __threadfence();
  const int before = atomicAdd(to, n);
  __threadfence();
  return before;
}
/// *to += v without waiting for what was there; subnormal numbers count as zero.
__device__ inline void add_to(float* to, float v) { asm volatile("red.global.add.f32 [%0], %1;\n" ::"l"(to), "f"(v) : "memory"); }
/// What another block of this kernel wrote.
__device__ inline float4 load_fresh(const float4* p) { return __ldcg(p); }

// Signals and bulk copies. sm_90 has copies of any size by one thread, which tell a signal when their bytes are there; before it, a warp's
// lanes copy 16 bytes at a time and each tells the signal.
struct Signal {
  uint64_t word;
};
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
constexpr int kFillers = 1;
#else
constexpr int kFillers = 32;
#endif

__device__ inline uint32_t address_of(const void* in_shared) { return static_cast<uint32_t>(__cvta_generic_to_shared(in_shared)); }
__device__ inline void signal_init(Signal* s, int arrivals) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;\n" ::"r"(address_of(s)), "r"(arrivals) : "memory");
}
/// After all inits, before the block's next barrier.
__device__ inline void signals_are_made() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;\n" ::: "memory");
#endif
}
__device__ inline void signal_arrive(Signal* s) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}\n" ::"r"(address_of(s)) : "memory");
}
/// Until the signal's phase of this parity is over.
__device__ inline void signal_wait(Signal* s, uint32_t parity) {
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .pred done;\nagain_%=:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra again_%=;\n}\n" ::"r"(
          address_of(s)),
      "r"(parity)
      : "memory");
#else
  uint32_t done = 0;
  while (done == 0)
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}\n"
                 : "=r"(done)
                 : "r"(address_of(s)), "r"(parity)
                 : "memory");
#endif
}
/// A warp announces copies of `bytes` together, makes them, and ends: the signal's phase is over when all are there.
__device__ inline void begin_fill(Signal* s, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % 32 == 0)
    asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}\n" ::"r"(address_of(s)), "r"(bytes)
                 : "memory");
#endif
}
__device__ inline void fill(void* shared_to, const void* global_from, uint32_t bytes, Signal* s) {
#if __CUDA_ARCH__ >= 900
  if (threadIdx.x % 32 == 0)
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];\n" ::"r"(address_of(shared_to)),
        "l"(global_from), "r"(bytes), "r"(address_of(s))
        : "memory");
#else
  for (uint32_t at = threadIdx.x % 32 * 16; at < bytes; at += 32 * 16)
    copy_16_async(static_cast<char*>(shared_to) + at, static_cast<const char*>(global_from) + at);
#endif
}
__device__ inline void end_fill(Signal* s) {
#if __CUDA_ARCH__ < 900
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];\n" ::"r"(address_of(s)) : "memory");
#endif
}

// Blocks of a cluster run at the same time and read each other's shared memory (sm_90). One block where code was compiled for less, or where
// none was asked for.
__device__ inline int cluster_blocks() {
#if __CUDA_ARCH__ >= 900
  int n;
  asm("mov.u32 %0, %%cluster_nctaid.x;\n" : "=r"(n));
  return n;
#else
  return 1;
#endif
}
__device__ inline int cluster_rank() {
#if __CUDA_ARCH__ >= 900
  int n;
  asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(n));
  return n;
#else
  return 0;
#endif
}
/// All threads of the cluster that have not returned: what they wrote before, each sees after.
__device__ inline void sync_cluster() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}
/// What stands at this place of shared memory in block `rank` of the cluster.
__device__ inline float4 load_from_block(const float4* p, int rank) {
  float4 v = *p;
#if __CUDA_ARCH__ >= 900
  asm volatile(
      "{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\nld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}\n"
      : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
      : "r"(address_of(p)), "r"(rank)
      : "memory");
#endif
  return v;
}

/// Bytes, each a number + 128, as bf16. 128 + b is bf16's 0x4300 with b < 128 in its fraction: a byte's low seven bits stand there, and 128 is
/// taken off where its highest bit is set, 256 where it is not. Both steps are exact.
__device__ inline uint32_t widen_pair(uint32_t bytes) {  // in the low halves of 16 bits each
  uint32_t number, off, out;  // by one instruction each, where the compiler makes two of an "and" and an "or" with constants
  asm("lop3.b32 %0, %1, %2, %3, 0xea;\n" : "=r"(number) : "r"(bytes), "r"(0x007f007fu), "r"(0x43004300u));  // a & b | c
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;\n" : "=r"(off) : "r"(bytes), "r"(0x00800080u), "r"(0x43804380u));     // (a & b) ^ c
  asm("fma.rn.bf16x2 %0, %1, %2, %3;\n" : "=r"(out) : "r"(off), "r"(0xbf80bf80u), "r"(number));             // number - off
  return out;
}
__device__ inline void widen(uint32_t bytes, uint32_t& even, uint32_t& odd) {
  even = widen_pair(bytes);
  odd = widen_pair(bytes >> 8);
}

__device__ inline float reciprocal_root(float x) { return rsqrtf(x); }
/// Without the exact quotient's slow path, a call that would spill what a thread holds; zero for y beyond 2^126.
__device__ inline float quotient(float x, float y) { return __fdividef(x, y); }
__device__ inline float error_function(float x) { return erff(x); }
/// Zero where the result would be subnormal.
__device__ inline float power_of_2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;\n" : "=f"(y) : "f"(x));
  return y;
}
/// The other of the two where one is no number.
__device__ inline float larger(float x, float y) { return fmaxf(x, y); }
/// Two numbers as bf16, nearest even; NaN stays NaN.
__device__ inline uint32_t pair_of(float low, float high) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}
__device__ inline float power_of_e(float x) { return expf(x); }
__device__ inline double exponential(double x) { return exp(x); }

using Stream = cudaStream_t;

/// A kernel may be started while the one before it ends (programmatic dependent launch, sm_90): let_next_start() allows that to the next,
/// wait_for_previous() comes before the first use of anything that an earlier kernel wrote.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
__device__ inline void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;\n" ::);
#endif
}

/// While a device is asked for facts: a question that fails is answered by its caller and does not stay behind as the error of a launch. One
/// that an earlier launch has left does.
class Asked {
 public:
  Asked() = default;
  Asked(const Asked&) = delete;
  Asked& operator=(const Asked&) = delete;
  ~Asked() {
    if (clean_) cudaGetLastError();
  }

 private:
  bool clean_ = cudaPeekAtLastError() == cudaSuccess;
};

/// What the host knows of a device.
struct DeviceFacts {
  size_t shared_limit = 0;  // bytes of shared memory that a block may have
  bool clusters = false, warpgroup_products = false;
};
inline const DeviceFacts& device_facts() {
  static std::mutex mutex;
  static std::map<int, DeviceFacts> known;
  int device = 0;
  cudaGetDevice(&device);
  const std::scoped_lock lock(mutex);
  const auto [found, is_new] = known.try_emplace(device);
  if (is_new) {
    const Asked asked;
    const auto attribute = [device](cudaDeviceAttr name) {
      int value = 0;
      return cudaDeviceGetAttribute(&value, name, device) == cudaSuccess ? value : 0;
    };
    found->second = {static_cast<size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)),
                     attribute(cudaDevAttrClusterLaunch) != 0, attribute(cudaDevAttrComputeCapabilityMajor) == 9};
  }
  return found->second;
}
inline size_t shared_limit() { return device_facts().shared_limit; }
inline bool has_warpgroup_products() { return device_facts().warpgroup_products; }

/// Whether a kernel's code for the current device was compiled for sm_90 or later: code for sm_80 that a later device translates has neither
/// overlaps nor clusters. Its first use prepares the kernel: it may ask for all the shared memory that there is, and all kernels ask for one
/// division of the processors' memory, since one that wants another waits until the processor is empty.
inline bool is_for_sm_90(const void* kernel) {
  static std::mutex mutex;
  static std::map<std::pair<int, const void*>, bool> known;
  int device = 0;
  cudaGetDevice(&device);
  const size_t limit = shared_limit();
  const std::scoped_lock lock(mutex);
  if (const auto found = known.find({device, kernel}); found != known.end()) return found->second;
  const Asked asked;
  cudaFuncAttributes f{};  // its code is loaded here, for which memory may be lacking now and not later: a failure is not kept
  if (cudaFuncGetAttributes(&f, kernel) != cudaSuccess ||
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(limit - f.sharedSizeBytes)) !=
          cudaSuccess)
    return false;
  cudaFuncSetAttribute(kernel, cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);  // a wish
  return known[{device, kernel}] = f.ptxVersion >= 90;
}

/// Whether kernels may overlap. SLIPSTREAM_CUDA_OVERLAP=0 turns it off.
inline bool overlap_is_on() {
  static const bool on = [] {
    const char* asked = std::getenv("SLIPSTREAM_CUDA_OVERLAP");
    return asked == nullptr || asked[0] != '0';
  }();
  return on;
}

/// Whether a kernel may run in clusters here. SLIPSTREAM_CUDA_CLUSTERS=0 turns them off.
inline bool may_cluster(const void* kernel) {
  static const bool on = [] {
    const char* asked = std::getenv("SLIPSTREAM_CUDA_CLUSTERS");
    return asked == nullptr || asked[0] != '0';
  }();
  return on && device_facts().clusters && is_for_sm_90(kernel);
}

/// Blocks columns x rows of `threads`, each with `shared_bytes` of dynamic shared memory. An error comes out of the next cudaGetLastError.
template <class Args>
void launch(void (*kernel)(Args), int columns, int rows, int threads, size_t shared_bytes, Stream stream, const Args& args,
            int cluster = 1) {
  if (columns <= 0 || rows <= 0) return;
  const bool for_sm_90 = is_for_sm_90(reinterpret_cast<const void*>(kernel));
  cudaLaunchAttribute attributes[2]{};
  unsigned n = 0;
  if (overlap_is_on() && for_sm_90) {
    attributes[n].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[n++].val.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[n].id = cudaLaunchAttributeClusterDimension;
    attributes[n++].val.clusterDim = {static_cast<unsigned>(cluster), 1, 1};
  }
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(rows));
  config.blockDim = dim3(static_cast<unsigned>(threads));
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  config.attrs = attributes;
  config.numAttrs = n;
  cudaLaunchKernelEx(&config, kernel, args);
}

}  // namespace slip::gpu
