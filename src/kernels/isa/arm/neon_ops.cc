// SPDX-License-Identifier: Apache-2.0
// The operations for: 64-bit ARM with dot products of bytes (armv8.2-a+dotprod). Everything is in the bodies;
// this file is compiled with its own machine flags (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/arm/pairs_neon.h"

#include "kernels/body/table.h"

namespace slip {

const Ops* neon_ops() { return &kOps; }

}  // namespace slip
