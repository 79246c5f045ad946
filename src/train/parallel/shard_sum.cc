// SPDX-License-Identifier: Apache-2.0
// See shard_sum.h.
#include "train/parallel/shard_sum.h"

#include <bit>

#include "base/check.h"

namespace slip {

void add_into(std::span<float> a, std::span<const float> b) {
  SLIP_CHECK(a.size() == b.size(), "summands are of one size");
  const auto n = static_cast<int64_t>(a.size());
  float* to = a.data();
  const float* from = b.data();
#pragma omp parallel for simd schedule(static) if (n > 65536)
  for (int64_t i = 0; i < n; ++i) to[i] += from[i];
}

void TreeSum::add(std::vector<float> next) {
  nodes_.emplace_back(0, std::move(next));
  while (nodes_.size() > 1 && nodes_[nodes_.size() - 2].first == nodes_.back().first) {
    auto& left = nodes_[nodes_.size() - 2];
    add_into(left.second, nodes_.back().second);
    ++left.first;
    nodes_.pop_back();
  }
}

std::vector<float> TreeSum::take() {
  SLIP_CHECK(nodes_.size() <= 1, "a power of two of summands");
  std::vector<float> out;
  if (!nodes_.empty()) out = std::move(nodes_[0].second);
  nodes_.clear();
  return out;
}

Result<ShardRange> shards_of(int64_t shards, int rank, int size) {
  if (shards < 1 || !std::has_single_bit(static_cast<uint64_t>(shards)))
    return usage_error("shards: expected a power of two, got {}", shards);
  if (shards % size != 0)
    return usage_error("processes: expected a number that divides the {} shards of a step (\"shards\"), got {}", shards, size);
  const int64_t each = shards / size;
  return ShardRange{shards, each * rank, each * (rank + 1)};
}

void ShardSum::add(std::span<const float> gradient, const Numbers& numbers) {
  gradients_.add({gradient.begin(), gradient.end()});
  numbers_.insert(numbers_.end(), numbers.begin(), numbers.end());
}

Error ShardSum::fail(Error why) {
  if (processes_.size() == 1) return why;
  std::vector<double> mine(1 + kNumbers * static_cast<size_t>(range_.last - range_.first), 0);
  mine[0] = 1;
  (void)processes_.gather(mine);
  return why;
}

Result<ShardSum::Numbers> ShardSum::finish(std::span<float> gradient) {
  const auto own = static_cast<size_t>(range_.last - range_.first);
  SLIP_CHECK(numbers_.size() == own * kNumbers, "every shard was added");
  std::vector<double> mine{0};
  mine.insert(mine.end(), numbers_.begin(), numbers_.end());
  SLIP_TRY(const std::vector<double> all, processes_.gather(mine));
  Numbers sums{};
  for (size_t r = 0; r < static_cast<size_t>(processes_.size()); ++r) {
    const double* from = all.data() + r * mine.size();
    if (*from != 0) return resource_error("process {}: expected it to go on, got an error there; its own message says which", r);
    for (size_t s = 0; s < own; ++s)
      for (size_t k = 0; k < kNumbers; ++k) sums[k] += from[1 + s * kNumbers + k];  // in the shards' order
  }
  const std::vector<float> subtree = gradients_.take();
  SLIP_CHECK(subtree.size() == gradient.size(), "a gradient for every number that is trained");
  std::copy(subtree.begin(), subtree.end(), gradient.begin());
  SLIP_TRY_(processes_.sum(gradient));
  return sums;
}

}  // namespace slip
