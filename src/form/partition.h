// SPDX-License-Identifier: Apache-2.0
// The block partition of Fast-dDrive's inference [Fast-dDrive, scaffold builder]: which draft covers which position of the
// answer. Values are cut into runs of `block_size`, section by section; fixed tokens join the nearest position that has a
// block already, right before left, so that a run of fixed tokens mostly joins the block on its left.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "form/form.h"

namespace slip {

/// A half-open run of positions that the partition treats as one section; gaps between sections are allowed.
struct SectionRange {
  int32_t begin = 0, end = 0;
};

/// Block id of every position. Ids may skip numbers: a section without values uses one up and joins its neighbours at the end. A
/// position that finds no neighbour with an id gets 0 (only where no section has a value).
std::vector<int32_t> partition_ids(std::span<const uint8_t> is_value, std::span<const SectionRange> sections, int32_t block_size);

/// Runs of equal ids as half-open blocks.
std::vector<Block> blocks_of_ids(std::span<const int32_t> ids);

}  // namespace slip
