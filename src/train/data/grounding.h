// SPDX-License-Identifier: Apache-2.0
// Grounding: what each merged image cell of a simulated record shows, as one more target of the clean stream. A vision tower
// that starts from random numbers learns to see from a dozen yes/no answers a scene only slowly; a word per cell (pedestrian,
// cyclist, construction ...) gives 168 answers a scene in place of twelve. Training only: inference asks nothing of image rows.
// Not part of Fast-dDrive's objective (it starts from a trained tower); docs/decisions/0004.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/record.h"
#include "sim/scene.h"

namespace slip {

/// A word for each of sim::Seen, which must be one token.
constexpr std::array<std::string_view, sim::kSeenKinds> kGroundingWords = {
    "no", " vehicle", "pedestrian", "cyclist", "construction", "traffic", "go", "road", "emergency", "animal", "special", "door"};

/// How far: letter k of this many, A first, says 3 m x 20^(k / 19), to the nearest: a sixth more from letter to letter, 60 m at the last.
constexpr int kRangeLetters = 20;
/// The letter's number for a distance in metres; at most 3 m is 0.
int range_letter(double distance_m);

/// From the ego's origin to the nearest point of a body's footprint, metres over the ground: 0 within it. What a car would hit is a body's near end, and
/// the middle of a bus of 12 m lies 6 m behind it.
double near_end_m(const sim::SeenBody& body);

struct SeenCell {
  sim::Seen what = sim::Seen::kNothing;
  double distance_m = 0;  // to the body's near end; 0 with kNothing
};

/// Cells of one camera, row-major, rows x columns over the whole picture; later bodies win (sim/record/seen.h: nearer ones). Occlusion is not
/// considered.
std::vector<SeenCell> seen_in_cells(std::span<const sim::SeenBody> bodies, const sim::Camera& camera, int rows, int columns);

}  // namespace slip
