// SPDX-License-Identifier: Apache-2.0
// Memory for numbers that are read and written line by line across many pages: weights, activations, scratch.
#pragma once
#include <cstddef>

namespace slip {

/// `bytes` of memory, contents undefined, at a multiple of 64; ends by std::free. From 4 MiB on it asks the system for pages of 2 MiB (Linux,
/// transparent_hugepage `madvise` or `always`): rows of a product lie kilobytes apart, so that of small pages each row has its own, and more of them
/// than a processor's translation buffers hold (docs/lab/0010). Throws std::bad_alloc.
void* allocate_numbers(size_t bytes);

}  // namespace slip
