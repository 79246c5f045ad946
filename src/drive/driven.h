// SPDX-License-Identifier: Apache-2.0
// Records from a closed loop that is disturbed on purpose: the ego follows the expert's plans, and now and then a wrong one for a while
// (turned aside, straight on, too fast, too slow), or a learner's own for most of the time. Every record is a state that the loop came to, with
// what the expert does from there. [Ross 2011] and [Laskey 2017] name why: who learns from the expert's own states alone sees others as soon as
// he drives himself. With a learner this is DAgger [Ross 2011], the expert taking over now and then.
#pragma once
#include <functional>
#include <optional>

#include "base/cancel.h"
#include "base/result.h"
#include "drive/planner.h"
#include "sim/record.h"

namespace slip::drive {

/// One episode of 12 s; some `frames` of its decisions, drawn from the seed, become records, in order of time. States from which the
/// expert collides, or in which he reacts to what no camera shows, are left out, so there may be fewer. `learner` (may be null): drives in
/// place of the wrong plans, its answers 100 to 300 ms late. Same bytes from the same arguments on every machine (with a learner: where it
/// answers the same). kBadInput for an unknown family; the errors of `take` and of the learner; kCancelled between decisions.
Status driven_records(uint64_t seed, std::optional<uint32_t> family, int frames, bool with_images, Planner* learner,
                      const std::function<Status(sim::Record&&)>& take, const CancelToken& cancel);

}  // namespace slip::drive
