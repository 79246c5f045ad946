// SPDX-License-Identifier: Apache-2.0
// Meta-actions of a motion, tenth of a second by tenth: the vocabulary of Alpamayo-R1 with the thresholds of a public extractor
// (docs/notes/driving.md). Our own reading of what FastDriveCoT describes in prose: not comparable with its table.
#pragma once
#include <string>
#include <vector>

#include "plan/trajectory.h"

namespace slip {

/// {longitudinal, lateral} of each of `intervals` tenths of a second. A trajectory that ends before is followed on at its last velocity.
/// Speeds are medians of five. Longitudinal: stop below 0.5 m/s, reverse below -0.3; gentle from 0.5, strong from 2.0 m/s^2, else
/// maintain speed. Lateral by yaw rate: steer from 0.05, sharp from 0.3 rad/s, else go straight.
std::vector<std::vector<std::string>> meta_actions_of(const Trajectory& t, double v0_mps, size_t intervals = 64);

}  // namespace slip
