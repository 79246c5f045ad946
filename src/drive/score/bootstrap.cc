// SPDX-License-Identifier: Apache-2.0
// See bootstrap.h.
#include "drive/score/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "base/philox.h"

namespace slip::drive {

namespace {

constexpr auto kPurpose = static_cast<Purpose>(16);

size_t draw(uint64_t seed, uint32_t resample, size_t field, size_t index, size_t n) {
  const double u = keyed_uniform(seed, {resample, static_cast<uint32_t>(field), static_cast<uint32_t>(index), kPurpose});
  return static_cast<size_t>(std::floor(u * static_cast<double>(n)));
}

/// Rows of each group, groups in the order of their names.
struct Groups {
  std::vector<std::vector<size_t>> rows;
  std::vector<size_t> group, place;  // by row

  explicit Groups(std::span<const std::string> names) {
    std::map<std::string, std::vector<size_t>> by_name;
    for (size_t i = 0; i < names.size(); ++i) by_name[names[i]].push_back(i);
    group.resize(names.size()), place.resize(names.size());
    for (auto& [name, members] : by_name) {
      for (size_t j = 0; j < members.size(); ++j) group[members[j]] = rows.size(), place[members[j]] = j;
      rows.push_back(std::move(members));
    }
  }
};

double resampled_mean(std::span<const double> d, const Groups& groups, Resampling way, uint64_t seed, uint32_t r) {
  double sum = 0;
  size_t n = 0;
  switch (way) {
    case Resampling::kPlain:
      for (size_t i = 0; i < d.size(); ++i, ++n) sum += d[draw(seed, r, 0, i, d.size())];
      break;
    case Resampling::kGrouped:
      for (size_t i = 0; i < groups.rows.size(); ++i)
        for (const size_t row : groups.rows[draw(seed, r, 0, i, groups.rows.size())]) sum += d[row], ++n;
      break;
    case Resampling::kStratified:
      for (size_t i = 0; i < d.size(); ++i, ++n) {
        const auto& rows = groups.rows[groups.group[i]];
        sum += d[rows[draw(seed, r, groups.group[i], groups.place[i], rows.size())]];
      }
      break;
  }
  return sum / static_cast<double>(n);
}

double quantile(const std::vector<double>& sorted, double q) {
  const double at = q * (static_cast<double>(sorted.size()) - 1);
  const auto low = static_cast<size_t>(std::floor(at));
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (at - static_cast<double>(low)) * (sorted[high] - sorted[low]);
}

}  // namespace

Interval paired_interval(std::span<const double> a, std::span<const double> b, std::span<const std::string> groups, Resampling way,
                         uint64_t seed, uint32_t resamples, std::vector<double>* means) {
  SLIP_CHECK(a.size() == b.size() && a.size() == groups.size() && resamples > 0, "pairs come with their groups");
  if (a.empty()) return {};
  std::vector<double> d(a.size()), drawn;
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += d[i] = a[i] - b[i];
  const Groups by_name(groups);
  for (uint32_t r = 0; r < resamples; ++r) drawn.push_back(resampled_mean(d, by_name, way, seed, r));
  if (means) *means = drawn;
  std::sort(drawn.begin(), drawn.end());
  return {sum / static_cast<double>(a.size()), quantile(drawn, 0.025), quantile(drawn, 0.975)};
}

Interval interval_of(std::span<const double> a, std::span<const std::string> groups, Resampling way, uint64_t seed,
                     uint32_t resamples) {
  const std::vector<double> zero(a.size());
  return paired_interval(a, zero, groups, way, seed, resamples);
}

}  // namespace slip::drive
