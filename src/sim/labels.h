// SPDX-License-Identifier: Apache-2.0
// What is true of a scene: which classes are seen, which of them matter, what the driver does about it, and how to say so.
#pragma once
#include <string>

#include "sim/expert.h"
#include "sim/world.h"

namespace slip::sim {

/// Whether an upright box (pose at its centre) shows at least 7 pixels high, 5 wide and 70 in area in one of the three cameras at t0,
/// through the fog, and not hidden behind vehicles or buildings.
bool box_visible(const Scene& sc, const Pose& pose, double length, double width, double bottom, double top, const Actor* self);

/// Inside the ego's corridor, or that of its lane change, within 4 s (3 s for nearby vehicles).
bool comes_in_the_way(const Scene& sc, const Actor& a);

/// The ego t <= 0 seconds before the scene begins, steady or braking.
EgoState ego_before(const Scene& sc, double t);

/// Everything in Labels but the seed, the family and the frame.
Labels labels_of(const Scene& sc, const Plan& plan);
/// The same for a frame: `sc` and `plan` begin `step` tenths of a second into `whole`, which was driven as `first` until then.
Labels labels_of(const Scene& sc, const Plan& plan, const Scene& whole, const Plan& first, int step);

/// The expert reacts to something that no camera shows: nothing could be learned from such a picture.
bool acts_on_the_unseen(const Labels& l);

/// The sentence pair: what decides, then what to do. Lower-case words of a fixed list of about 150, no digits, no quotes.
std::string explain(const Scene& sc, const Labels& l);

}  // namespace slip::sim
