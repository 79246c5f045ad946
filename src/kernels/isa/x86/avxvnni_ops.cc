// SPDX-License-Identifier: Apache-2.0
// The operations for: avx2, fma, f16c and AVX-VNNI, the dot products of bytes that processors without AVX-512 have (Alder Lake and later,
// Zen 5). They are those of AVX2 with its bits: sums of integers are exact. This file is compiled with its own machine flags
// (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/x86/pairs_avx2.h"

#include "kernels/body/table.h"

namespace slip {

const Ops* avxvnni_ops() { return &kOps; }

}  // namespace slip
