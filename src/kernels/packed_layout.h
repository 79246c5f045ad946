// SPDX-License-Identifier: Apache-2.0
// Where what lies in the blob of a packed matrix (kPackedVersion): the blocks of 64 columns one after another, then, for int types,
// 128 * sum_k w per column (int32; takes off the activations' offset, ops.h) and the column scales (f32).
//
// A block of f32, bf16 or int8 has one line of 64 words (256 bytes) per step of the inner dimension, a word being 1 f32, 2 bf16 or
// 4 int8 of one column. A block of int4 is cut into chunks of 64 steps (256 numbers of the inner dimension; the last may be shorter,
// in whole groups of 8 steps): the codes of its groups, 32 bytes each (column c in byte c % 32, the low half for c < 32), padded to
// whole lines; then one line of 256 bytes per two steps, whose byte 4 c + j holds number j of column c, of the first step in the low
// half and of the second in the high half. Padding is zero, and is multiplied with zeros only.
#pragma once
#include "kernels/isa/int4.h"
#include "kernels/isa/ops.h"
#include "kernels/kernels.h"

namespace slip {

constexpr int64_t kNumbersPerWord[kWeightTypeCount] = {1, 2, 4, 4};

constexpr bool is_integer(WeightType type) { return type == WeightType::kI8 || type == WeightType::kI4; }

struct PackedLayout {
  PackedLayout(WeightType type, int64_t n, int64_t k)
      : per_word(kNumbersPerWord[static_cast<int>(type)]),
        steps(type == WeightType::kI4 ? (k + kInt4Group - 1) / kInt4Group * kInt4GroupSteps : (k + per_word - 1) / per_word),
        blocks((n + kBlockColumns - 1) / kBlockColumns),
        block_bytes(type == WeightType::kI4
                        ? steps / kChunkSteps * int4_chunk_bytes(kChunkSteps) + int4_chunk_bytes(steps % kChunkSteps)
                        : steps * kBlockColumns * 4),
        sums_at(blocks * block_bytes),
        scales_at(sums_at + (is_integer(type) ? blocks * kBlockColumns * 4 : 0)),
        bytes(scales_at + (is_integer(type) ? blocks * kBlockColumns * 4 : 0)) {}
  int64_t per_word;  // numbers of the inner dimension per word of activations
  int64_t steps;     // words of activations per row
  int64_t blocks, block_bytes;
  int64_t sums_at, scales_at;  // in bytes, as all that follows
  int64_t bytes;
};

}  // namespace slip
