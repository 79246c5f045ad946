// SPDX-License-Identifier: Apache-2.0
// Where the processor is no 64-bit ARM: the NEON path refuses.
#include "kernels/isa/ops.h"

namespace slip {

const Ops* neon_ops() { return nullptr; }
const Ops* i8mm_ops() { return nullptr; }

}  // namespace slip
