// SPDX-License-Identifier: Apache-2.0
// pixels.cu as the C++ compiler sees it.
#include "cuda/pixels.cu"
