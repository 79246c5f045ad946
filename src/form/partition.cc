// SPDX-License-Identifier: Apache-2.0
// Fast-dDrive's partition, in the order in which its code assigns ids: values of a section, then its fixed tokens from left
// to right, then the next section; at the end whatever lies outside all sections.
#include "form/partition.h"

#include "base/check.h"

namespace slip {
namespace {

constexpr int32_t kNone = -1;
constexpr int32_t kReach = 9;  // the search goes this far beyond a section's own length (tests/fixtures/decode/partition.json)

/// The id of the nearest position that has one, right before left at equal distance.
int32_t nearest(std::span<const int32_t> ids, int32_t at, int32_t reach) {
  const auto n = static_cast<int32_t>(ids.size());
  for (int32_t d = 1; d <= reach; ++d) {
    if (at + d < n && ids[static_cast<size_t>(at + d)] != kNone) return ids[static_cast<size_t>(at + d)];
    if (at - d >= 0 && ids[static_cast<size_t>(at - d)] != kNone) return ids[static_cast<size_t>(at - d)];
  }
  return kNone;
}

}  // namespace

std::vector<int32_t> partition_ids(std::span<const uint8_t> is_value, std::span<const SectionRange> sections, int32_t block_size) {
  SLIP_CHECK(block_size >= 1, "Form::make checks the block size");
  const auto n = static_cast<int32_t>(is_value.size());
  std::vector<int32_t> ids(is_value.size(), kNone);
  int32_t next_id = 0;
  for (const SectionRange& s : sections) {
    int32_t values = 0;
    for (int32_t u = s.begin; u < s.end; ++u)
      if (is_value[static_cast<size_t>(u)]) ids[static_cast<size_t>(u)] = next_id + values++ / block_size;
    if (values == 0) {  // uses up an id, and its fixed tokens wait for the end, like what lies outside all sections
      ++next_id;
      continue;
    }
    next_id += (values + block_size - 1) / block_size;
    for (int32_t u = s.begin; u < s.end; ++u)
      if (ids[static_cast<size_t>(u)] == kNone) ids[static_cast<size_t>(u)] = nearest(ids, u, s.end - s.begin + kReach);
  }
  for (int32_t u = 0; u < n; ++u) {
    if (ids[static_cast<size_t>(u)] != kNone) continue;
    ids[static_cast<size_t>(u)] = nearest(ids, u, n + kReach);
    if (ids[static_cast<size_t>(u)] == kNone) break;  // no position has one
  }
  for (int32_t& id : ids)
    if (id == kNone) id = 0;
  return ids;
}

std::vector<Block> blocks_of_ids(std::span<const int32_t> ids) {
  std::vector<Block> blocks;
  for (size_t u = 0; u < ids.size(); ++u) {
    if (u == 0 || ids[u] != ids[u - 1]) blocks.push_back({static_cast<int32_t>(u), static_cast<int32_t>(u)});
    blocks.back().end = static_cast<int32_t>(u) + 1;
  }
  return blocks;
}

}  // namespace slip
