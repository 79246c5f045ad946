// SPDX-License-Identifier: Apache-2.0
// Several answers to one request: the best of them, their average, how far they lie apart.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "plan/trajectory.h"

namespace slip {

struct RolloutErrors {
  std::vector<double> ade, fde;  // of each
  std::vector<double> min_ade;   // of the first k, by k - 1
  double mean_ade = 0, ade_of_average = 0, fde_of_average = 0;
  double spread_rms = 0, spread_rms_final = 0;  // mean over time, and at the end, of the root mean square distance from the average
};
/// Over the first n points. kBadInput without rollouts or where one side has fewer than n points.
Result<RolloutErrors> rollout_errors(std::span<const std::vector<Waypoint>> rollouts, std::span<const Waypoint> truth, size_t n);

}  // namespace slip
