// SPDX-License-Identifier: Apache-2.0
// The operations for: what avx512_ops.cc needs, amx tile, bf16, int8. All but products with packed weights and attention over bf16 are those
// of AVX-512, with their bits; this file is compiled with its own machine flags (CMakeLists.txt) and is called only after a look at the processor.
#include "kernels/isa/x86/pairs_avx512.h"

#include "kernels/body/table.h"

#include "kernels/isa/x86/amx_attention.h"

namespace slip {
namespace {

// Below, integers go by the dot products of AVX-512: the same sums. Of int4 a chunk is unpacked whole before a tile can take it, which pays from
// about 15 rows on (docs/lab/0028-amx.md).
constexpr int64_t kTilesFrom = 9, kInt4TilesFrom = 15;

void product_int8(const ProductArgs& a) { a.rows < kTilesFrom ? product<DotWeightI8>(a) : product_tiles<TilesI8>(a); }
void product_int4_any(const ProductArgs& a) { a.rows < kInt4TilesFrom ? product_int4(a) : product_int4_tiles(a); }

// Made by the compiler: what ran at a program's start would need this processor.
constexpr Ops kAmxOps = [] {
  Ops o = kOps;
  o.attend[1] = attend<AttendTiles>;
  o.attend_bytes[1] = sizeof(AttendTiles);
  o.product[1] = product_tiles<TilesBF16>;
  o.product[2] = product_int8;
  o.product[3] = product_int4_any;
  return o;
}();

}  // namespace

const Ops* amx_ops() { return &kAmxOps; }

}  // namespace slip
