// SPDX-License-Identifier: Apache-2.0
// What a device can do at best, measured on it: the ceilings beside which `bench forward --device` prints times.
#pragma once
#include "cuda/device/runtime.h"
#include "nn/device_plugin.h"

namespace slip::cuda {

/// Streaming reads of memory far larger than the caches, and bf16 matrix instructions out of registers (mma.sync, as the products use them); each the
/// best of some slices. Takes up to 1 GiB of the device for as long as it runs, a quarter of what is free where that is less.
Result<DeviceCeilings> measure_ceilings(Device& device);

}  // namespace slip::cuda
