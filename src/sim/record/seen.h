// SPDX-License-Identifier: Apache-2.0
// What stands around the ego at a moment, as boxes: what image cells are asked about when a model learns to see (train/data/grounding.h).
#pragma once
#include <vector>

#include "sim/record.h"
#include "sim/scene.h"

namespace slip::sim {

/// Bodies whose centres lie within so many metres of the ego's origin, from far to near; of more than kMostBodies the nearest.
/// A pedestrian 60 m away is 9 pixels high in the camera's picture (focal length 307 pixels) and 4 in one of half the size, which the
/// demonstration model sees: what stands farther cannot be told.
constexpr double kFarthestBody_m = 60;
constexpr size_t kMostBodies = 64;
std::vector<SeenBody> seen_bodies(const Moment& moment);

}  // namespace slip::sim
