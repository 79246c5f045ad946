// SPDX-License-Identifier: Apache-2.0
// All bodies, and the table made of them; included by each *_ops.cc after its pairs_*.h.
#pragma once
#include <cstddef>

#include "kernels/body/product.h"
#include "kernels/body/rows.h"
// After both:
#include "kernels/body/int4.h"
#include "kernels/body/pack.h"
#include "kernels/body/stats.h"
// After these:
#include "kernels/body/attention.h"
#include "kernels/body/attention_pairs.h"
#include "kernels/body/attention_quads.h"

namespace slip {
namespace {

constexpr Ops kOps = {
    .product = {product<DotF32>, product<DotBF16>, product<DotWeightI8>, product_int4},
    .finish = {finish_float, finish_float, finish_int, finish_int},
    .pack_x = {pack_rows<PackF32>, pack_rows<PackBF16>, pack_rows<PackInt>, pack_rows<PackInt>},
    .x_words = {DotF32::kWords, DotBF16::kWords, DotWeightI8::kWords, DotWeightI8::kWords},
    .stats = block_stats,
    .sum_of_stats = sum_of_stats,
    .attend = {attend<Attend>, attend<AttendPairs>, attend<AttendQuads>},
    .attend_bytes = {sizeof(Attend), sizeof(AttendPairs), sizeof(AttendQuads)},
    .to_kv = {to_f32, to_bf16_all},
    .to_bytes = to_bytes,
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
