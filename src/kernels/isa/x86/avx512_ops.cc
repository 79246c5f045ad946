// SPDX-License-Identifier: Apache-2.0
// The operations for: AVX-512 f, bw, vl, dq, bf16, vnni, vbmi. Everything is in the bodies;
// this file is compiled with its own machine flags (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/x86/pairs_avx512.h"

#include "kernels/body/table.h"

namespace slip {

const Ops* avx512_ops() { return &kOps; }

}  // namespace slip
