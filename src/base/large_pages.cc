// SPDX-License-Identifier: Apache-2.0
// See large_pages.h.
#include "base/large_pages.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace slip {

void* allocate_numbers(size_t bytes) {
  constexpr size_t kLine = 64, kPage = size_t{2} << 20;
  const bool large = bytes >= 2 * kPage;
  const size_t alignment = large ? kPage : kLine;
  void* p = std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc();
#ifdef MADV_HUGEPAGE
  if (large) ::madvise(p, (bytes + kPage - 1) / kPage * kPage, MADV_HUGEPAGE);  // a wish: nothing is lost where it is refused
#endif
  return p;
}

}  // namespace slip
