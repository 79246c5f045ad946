// SPDX-License-Identifier: Apache-2.0
// Grow-only scratch.
#include <cstdlib>

#include "base/check.h"
#include "base/large_pages.h"
#include "kernels/kernels.h"

namespace slip {

void Workspace::Free::operator()(void* p) const { std::free(p); }

void* Workspace::get(int slot, size_t bytes) {
  SLIP_CHECK(slot >= 0 && slot < 64, "workspace slots are small constants");
  if (buffers_.size() <= static_cast<size_t>(slot)) buffers_.resize(static_cast<size_t>(slot) + 1);
  Buffer& b = buffers_[static_cast<size_t>(slot)];
  if (b.bytes < bytes || !b.memory) {
    const size_t rounded = (bytes + bytes / 4 + 64) / 64 * 64;  // a quarter more: widths grow by small steps
    b.memory.reset();
    b.bytes = 0;
    b.memory.reset(allocate_numbers(rounded));
    b.bytes = rounded;
  }
  return b.memory.get();
}

size_t Workspace::bytes() const {
  size_t sum = 0;
  for (const Buffer& b : buffers_) sum += b.bytes;
  return sum;
}

}  // namespace slip
