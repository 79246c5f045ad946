// SPDX-License-Identifier: Apache-2.0
// loss.jsonl, one line per step, and loss.svg, drawn from it.
#pragma once
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace slip {

struct LossPoint {
  int64_t step = 0;
  double loss = 0;           // the objective
  double noisy = 0, ar = 0;  // per term: weighted mean of masked tokens, mean next-token loss (adapter: LK-hybrid, cross-entropy)
  double lr = 0, gradient_norm = 0, samples_per_s = 0, elapsed_s = 0;
  double acceptance = -1;            // of drafts; below 0: not logged
  std::optional<double> validation;  // of steps that were validated; larger is better
};

std::string to_line(const LossPoint& p);
Result<std::vector<LossPoint>> read_loss_log(const std::filesystem::path& file);
/// Log-scaled losses over steps, at most 600 points (means of neighbours), noisy and next-token apart.
std::string loss_svg(const std::vector<LossPoint>& points);

}  // namespace slip
