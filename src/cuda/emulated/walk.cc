// SPDX-License-Identifier: Apache-2.0
// walk.cu as the C++ compiler sees it.
#include "cuda/walk.cu"
