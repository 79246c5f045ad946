// SPDX-License-Identifier: Apache-2.0
// kernels.cu as the C++ compiler sees it.
#include "cuda/kernels.cu"
