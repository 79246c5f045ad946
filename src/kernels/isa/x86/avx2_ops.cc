// SPDX-License-Identifier: Apache-2.0
// The operations for: AVX2, FMA. Everything is in the bodies;
// this file is compiled with its own machine flags (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/x86/pairs_avx2.h"

#include "kernels/body/table.h"

namespace slip {

const Ops* avx2_ops() { return &kOps; }

}  // namespace slip
