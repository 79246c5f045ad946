// SPDX-License-Identifier: Apache-2.0
// The two loops that measure a device's ceilings (probe.h).
#pragma once
#include "cuda/kernels.h"

namespace slip::cuda {

constexpr int kProbeThreads = 256;
constexpr int kProbeReads = 8;                                         // of 16 bytes, on their way at a time per thread
constexpr int kProbeChains = 8;                                        // of matrix instructions per warp
constexpr double kProbeOperations = kProbeChains * 2.0 * 16 * 8 * 16;  // per warp and turn

/// Reads blocks x turns x kProbeThreads x kProbeReads x 16 bytes. The exclusive or of all words decides whether anything is
/// written, so they must be read.
struct ProbeReadArgs {
  const void* words;
  int32_t blocks, turns;
  uint32_t* out;
};

/// bf16 products from registers; `seed`: the pair of numbers that is multiplied with, not known to the compiler. out: a number per block.
struct ProbeMultiplyArgs {
  int32_t turns;
  uint32_t seed;
  float* out;
};

void probe_read(const ProbeReadArgs& args, StreamHandle stream);
void probe_multiply(const ProbeMultiplyArgs& args, int blocks, StreamHandle stream);

}  // namespace slip::cuda
