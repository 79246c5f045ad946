// SPDX-License-Identifier: Apache-2.0
// What a row sees and the limits of the kernels, apart from kernels.h so that the instruction-set files can include it without any inline function of
// the standard library.
#pragma once
#include <cstdint>

#include "base/ids.h"

namespace slip {

// What matrices and heads may measure; whoever reads a model refuses more.
constexpr int64_t kMaxHeadWidth = 256;      // bounds the scratch of a piece of attention (about 450 KiB); Gemma's heads have 256
constexpr int64_t kMaxInt8Inner = 1 << 16;  // an int32 sum holds 65536 products of 255 * 127

/// What one query row sees: spans[first .. first + count) of key/value slots, added in that order, keys in fixed blocks
/// counted along what the row sees (so two span lists that name the same slots in the same order give the same bits).
struct RowSpans {
  uint32_t first = 0, count = 0;
};

}  // namespace slip
