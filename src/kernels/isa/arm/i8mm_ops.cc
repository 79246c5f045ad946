// SPDX-License-Identifier: Apache-2.0
// The operations for: NEON with byte dot products and i8mm (Neoverse V1 and later). They are those of NEON with its bits, but for products with
// int8 and int4 weights; this file is compiled with its own machine flags (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/arm/pairs_neon.h"

#include "kernels/body/table.h"

#include "kernels/isa/arm/i8mm.h"

namespace slip {
namespace {

constexpr Ops kI8mmOps = [] {
  Ops o = kOps;
  o.product[2] = product_int8_i8mm;
  o.product[3] = product_int4_i8mm;
  return o;
}();

}  // namespace

const Ops* i8mm_ops() { return &kI8mmOps; }

}  // namespace slip
