// SPDX-License-Identifier: Apache-2.0
// The gradient of a step, the same bits at any number of processes. A step's samples are split into V shards (V a power of two); a process of N
// owns V / N neighbouring ones, N dividing V. Each shard's gradient is computed alone, and
//   sum = ((s_0 + s_1) + (s_2 + s_3)) + ((s_4 + s_5) + (s_6 + s_7))            for V = 8,
// one float addition each: what a process adds of its own shards is a subtree, what processes exchange are the tree's upper levels.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "train/parallel/processes.h"

namespace slip {

/// a += b, number by number; in parallel, which changes nothing.
void add_into(std::span<float> a, std::span<const float> b);

/// Sums in a fixed tree, as they come: at most log2 V + 1 of them are kept.
class TreeSum {
 public:
  void add(std::vector<float> next);
  /// The sum of a power of two of summands; empty before the first.
  std::vector<float> take();

 private:
  std::vector<std::pair<int, std::vector<float>>> nodes_;  // level, sum; levels descend
};

/// Which shards and samples are whose.
struct ShardRange {
  int64_t shards = 1, first = 0, last = 1;  // of this process: first .. last - 1
  /// Samples of shard v of a step of n: [n v / V, n (v + 1) / V).
  int64_t sample_begin(int64_t shard, int64_t samples) const { return samples * shard / shards; }
  int64_t shard_of(int64_t sample, int64_t samples) const { return ((sample + 1) * shards - 1) / samples; }
};
/// kUsage where V is no power of two or N does not divide it.
Result<ShardRange> shards_of(int64_t shards, int rank, int size);

/// A step's sums. Usage: for each shard of the range, in order, `add`; then `finish`, or `fail` so that the others do not wait.
class ShardSum {
 public:
  static constexpr size_t kNumbers = 8;  // that may be summed beside the gradient
  using Numbers = std::array<double, kNumbers>;

  ShardSum(Processes& processes, const ShardRange& range) : processes_(processes), range_(range) {}
  const ShardRange& range() const { return range_; }
  /// A shard without samples gives a gradient of zeros.
  void add(std::span<const float> gradient, const Numbers& numbers);
  /// The sums over all shards of all processes. kResource where a process is gone, and where one of them failed.
  Result<Numbers> finish(std::span<float> gradient);
  /// Tells the others that this process cannot go on; `why` comes back.
  Error fail(Error why);

 private:
  Processes& processes_;
  ShardRange range_;
  TreeSum gradients_;
  std::vector<double> numbers_;  // of this process's shards
};

}  // namespace slip
