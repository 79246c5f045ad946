// SPDX-License-Identifier: Apache-2.0
// Paired bootstrap intervals: of the mean difference of two decoders over the same scenes. Draws are keyed (base/philox.h), so that an
// interval is a function of the numbers and the seed.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace slip::drive {

/// kPlain draws pairs, kGrouped whole groups (cautious: scenes of one seed, or of one family, are alike), kStratified within each group.
enum class Resampling : uint8_t { kPlain, kGrouped, kStratified };

struct Interval {
  double mean = 0, low = 0, high = 0;  // 2.5 % and 97.5 % quantiles of the resampled means, linear in between
};
/// Of the mean of a - b (a and groups as long as b). Resampled means come back through `means` where it is given.
Interval paired_interval(std::span<const double> a, std::span<const double> b, std::span<const std::string> groups, Resampling way,
                         uint64_t seed, uint32_t resamples, std::vector<double>* means = nullptr);
/// Of the mean of a alone.
Interval interval_of(std::span<const double> a, std::span<const std::string> groups, Resampling way, uint64_t seed,
                     uint32_t resamples);

}  // namespace slip::drive
