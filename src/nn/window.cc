// SPDX-License-Identifier: Apache-2.0
// Trimming of span lists; rule in window.h.
#include "nn/window.h"

#include <algorithm>

namespace slip {

void append_window(std::span<const SlotSpan> sees, int32_t slot, int32_t window, std::vector<SlotSpan>& out) {
  int64_t listed = 0, own = -1;
  for (const SlotSpan s : sees) {
    if (slot >= s.begin && slot < s.end) own = listed + slot - s.begin;
    listed += s.end - s.begin;
  }
  int64_t hidden = (own < 0 ? listed : own) - window + 1;  // keys in front of the window
  for (const SlotSpan s : sees) {
    const int64_t cut = std::clamp<int64_t>(hidden, 0, s.end - s.begin);
    hidden -= cut;
    if (s.begin + cut < s.end) out.push_back({static_cast<int32_t>(s.begin + cut), s.end});
  }
}

}  // namespace slip
