// SPDX-License-Identifier: Apache-2.0
// Lists of spans: what a row sees, in order (lm.h). Two lists that name the same slots in the same order give the same bits, however they
// are cut; joined ones are shorter to walk.
#pragma once
#include <cstddef>
#include <vector>

#include "base/ids.h"

namespace slip {

/// Appends a span, joined with the last one from index `from` on where they touch; an empty span is dropped.
void append_span(std::vector<SlotSpan>& spans, SlotSpan span, size_t from = 0);

}  // namespace slip
