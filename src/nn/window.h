// SPDX-License-Identifier: Apache-2.0
// Sliding windows: a layer that slides sees the last part of what a row's spans list. What counts is order, not position: the
// cache of transformers compares indices of keys in the cache (`key > query - window`), and position ids never enter; on a fork,
// a packed prompt or a tree the order in the row's own list is what the cache index would be, had the row's strand been
// decoded alone.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"

namespace slip {

/// Appends what is left of `sees` under a window of `window` keys, the row's own (in `slot`) included: that one, the
/// window - 1 listed before it, and all that are listed behind it. A row that does not see itself stands behind its list.
void append_window(std::span<const SlotSpan> sees, int32_t slot, int32_t window, std::vector<SlotSpan>& out);

}  // namespace slip
