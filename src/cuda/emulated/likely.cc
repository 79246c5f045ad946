// SPDX-License-Identifier: Apache-2.0
// likely.cu as the C++ compiler sees it.
#include "cuda/likely.cu"
