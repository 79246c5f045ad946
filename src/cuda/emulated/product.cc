// SPDX-License-Identifier: Apache-2.0
// product.cu as the C++ compiler sees it.
#include "cuda/product.cu"
