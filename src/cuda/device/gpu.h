// SPDX-License-Identifier: Apache-2.0
// What the device code needs of a GPU, in words that a second compiler understands too: nvcc takes gpu_nvidia.h (PTX), any C++ compiler takes
// gpu_emulated.h, which runs the same kernels thread by thread on the processor. So every line of kernels.cu is tested where no GPU is;
// speed, races and clusters are left to find out on one.
#pragma once
#ifdef __CUDACC__
#include "cuda/device/gpu_nvidia.h"
#include "cuda/device/gpu_nvidia_tiles.h"
#else
#include "cuda/device/gpu_emulated.h"
#endif
