// SPDX-License-Identifier: Apache-2.0
// bf16 as bits, on a device and in tests; nearest even, NaN stays NaN (core/dtype.h has the host's).
#pragma once
#include <cstdint>
#include <cstring>

#include "cuda/device/gpu.h"

namespace slip::cuda {

__device__ inline float from_bf16(uint16_t bits) {
  const uint32_t u = static_cast<uint32_t>(bits) << 16;
  float f;
  memcpy(&f, &u, 4);
  return f;
}

__device__ inline uint16_t to_bf16(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  if ((u & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((u >> 16) | 0x40u);
  return static_cast<uint16_t>((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}

}  // namespace slip::cuda
