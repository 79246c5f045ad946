// SPDX-License-Identifier: Apache-2.0
// probe.cu as the C++ compiler sees it.
#include "cuda/probe.cu"
