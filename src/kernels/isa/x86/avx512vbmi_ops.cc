// SPDX-License-Identifier: Apache-2.0
// The operations for: AVX-512 f, bw, vl, dq, vnni, vbmi (Ice Lake and later; Xeons whose products of bf16 are slow). They have the bits of AVX2:
// bf16 is multiplied as f32, and sums over a row run in eight lanes (body/chains.h). This file is compiled with its own machine flags
// (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/x86/pairs_avx512_f32.h"

#include "kernels/body/table.h"

namespace slip {

const Ops* avx512vbmi_ops() { return &kOps; }

}  // namespace slip
