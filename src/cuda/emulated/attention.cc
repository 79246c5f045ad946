// SPDX-License-Identifier: Apache-2.0
// attention.cu as the C++ compiler sees it.
#include "cuda/attention.cu"
