// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/plan.h"

#include <algorithm>
#include <cmath>

namespace slip {
namespace {

constexpr double kTie = 0.5;  // passes: paths that are so close to the longest one are shortened with it

}  // namespace

void LevelsPlan::make(std::span<const Field> fields, std::span<const int32_t> order, std::span<const double> draws_F,
                      std::span<const double> price_F, double pass_ms) {
  fields_ = fields;
  order_ = order;
  price_F_ = price_F;
  pass_ms_ = pass_ms;
  steps_ = 0;
  passes_.assign(draws_F.begin(), draws_F.end());
  starts_.resize(fields.size());
  behind_.resize(fields.size());
  if (fields.size() > kCutOneByOne) {
    cut_levels();
  } else {
    const size_t rounds = 16 * fields.size();
    for (size_t i = 0; i < rounds && shorten(); ++i) {
    }
  }
  lay_times();
  fields_ = {};
  order_ = {};
  price_F_ = {};
}

/// When each field starts and what is behind it; the longest path.
double LevelsPlan::lay_times() {
  double longest = 0;
  for (const int32_t f : order_) {
    double& start = starts_[static_cast<size_t>(f)];
    start = 0;
    behind_[static_cast<size_t>(f)] = 0;
    for (const int32_t q : fields_[static_cast<size_t>(f)].parents)
      start = std::max(start, starts_[static_cast<size_t>(q)] + passes_[static_cast<size_t>(q)]);
    longest = std::max(longest, start + passes_[static_cast<size_t>(f)]);
    steps_ += 1 + static_cast<int64_t>(fields_[static_cast<size_t>(f)].parents.size());
  }
  for (size_t k = order_.size(); k-- > 0;) {
    const auto f = static_cast<size_t>(order_[k]);
    for (const int32_t q : fields_[f].parents)
      behind_[static_cast<size_t>(q)] = std::max(behind_[static_cast<size_t>(q)], passes_[f] + behind_[f]);
  }
  return longest;
}

/// Cuts the longest path by a pass at its cheapest moment; false where no cut pays.
bool LevelsPlan::shorten() {
  const double longest = lay_times();
  critical_.clear();
  for (size_t f = 0; f < passes_.size(); ++f)
    if (starts_[f] + passes_[f] + behind_[f] > longest - kTie) critical_.push_back(f);
  double least = pass_ms_, at = -1;
  for (const size_t moment : critical_) {
    double cost = 0;
    for (const size_t f : critical_) {
      ++steps_;
      if (starts_[f] > starts_[moment] || starts_[f] + passes_[f] <= starts_[moment]) continue;
      cost += passes_[f] > 1 + kTie ? price_F_[f] : 2 * pass_ms_;
      if (cost >= least) break;
    }
    if (cost >= least) continue;
    least = cost;
    at = starts_[moment];
  }
  if (at < 0) return false;
  for (const size_t f : critical_)
    if (starts_[f] <= at && starts_[f] + passes_[f] > at) passes_[f] = std::max(1.0, passes_[f] - 1);
  return true;
}

/// Every level whose masks together are cheaper than a pass, as far as cuts of one pass would have come.
void LevelsPlan::cut_levels() {
  std::vector<size_t> level_F(fields_.size(), 0);
  std::vector<double> price(fields_.size(), 0);
  for (const int32_t f : order_) {
    size_t& level = level_F[static_cast<size_t>(f)];
    for (const int32_t q : fields_[static_cast<size_t>(f)].parents) level = std::max(level, level_F[static_cast<size_t>(q)] + 1);
    if (passes_[static_cast<size_t>(f)] > 1 + kTie) price[level] += price_F_[static_cast<size_t>(f)];
    steps_ += 1 + static_cast<int64_t>(fields_[static_cast<size_t>(f)].parents.size());
  }
  for (size_t f = 0; f < passes_.size(); ++f)
    if (passes_[f] > 1 + kTie && price[level_F[f]] < pass_ms_)
      passes_[f] = std::max(1.0, passes_[f] - std::ceil(passes_[f] - 1 - kTie));
}

}  // namespace slip
