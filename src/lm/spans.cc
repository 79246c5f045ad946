// SPDX-License-Identifier: Apache-2.0
#include "lm/spans.h"

namespace slip {

void append_span(std::vector<SlotSpan>& spans, SlotSpan span, size_t from) {
  if (span.begin >= span.end) return;
  if (spans.size() > from && spans.back().end == span.begin) {
    spans.back().end = span.end;
  } else {
    spans.push_back(span);
  }
}

}  // namespace slip
