// SPDX-License-Identifier: Apache-2.0
// Sizes of a packed matrix in words (packed_matrix.cc says what lies where).
#pragma once
#include "kernels/kernels.h"
#include "kernels/ops.h"

namespace slip {

struct PackedLayout {
  PackedLayout(WeightType type, int64_t n, int64_t k)
      : per_word(type == WeightType::kF32    ? 1
                 : type == WeightType::kBF16 ? 2
                                             : 4),
        steps((k + per_word - 1) / per_word),
        blocks((n + kBlockColumns - 1) / kBlockColumns),
        block_words(steps * kBlockColumns),
        sums_at(blocks * block_words),
        words(sums_at + (type == WeightType::kI8 ? blocks * kBlockColumns : 0)) {}
  int64_t per_word;  // numbers of the inner dimension per word
  int64_t steps;     // words per column
  int64_t blocks, block_words;
  int64_t sums_at;  // int8: where the column sums begin
  int64_t words;
};

}  // namespace slip
