// SPDX-License-Identifier: Apache-2.0
// All bodies, and the table made of them; included by portable_ops.cc, avx2_ops.cc and avx512_ops.cc after their
// vec_*.h.
#pragma once
#include <cstddef>

#include "kernels/body_product.h"
#include "kernels/body_rows.h"
// After both:
#include "kernels/body_attention.h"

namespace slip {
namespace {

const Ops kOps = {
    .product = {product<DotF32>, product<DotBF16>, product<DotI8>},
    .finish = {finish_float, finish_float, finish_int8},
    .pack_x = {nullptr, pack_bf16, pack_int8},
    .attend = attend,
    .rms_norm = rms_norm_rows,
    .layer_norm = layer_norm_rows,
    .add = add_all,
    .swiglu = swiglu_all,
    .gelu = gelu_all,
    .rotate = rotate_rows,
    .fold = fold_words,
};

}  // namespace
}  // namespace slip
