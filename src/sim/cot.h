// SPDX-License-Identifier: Apache-2.0
// The truth of the form drive-cot: what a driver would say of a scene, field by field, in FastDriveCoT's order
// (docs/notes/driving.md#fastdrivecot). One phrase per state and coarse bands, so that a small model learns them and a draft can
// guess them; whatever a phrase says of the world is shown by the cameras, and what it says of the ego follows from the expert's
// plan. A function of (kSimVersion, seed, family, frame) like a record. Record sets hold such texts where egos may be elsewhere than
// their seeds put them (record/label_blocks.h).
#pragma once
#include <optional>
#include <string>

#include "base/result.h"
#include "sim/cot_labels.h"
#include "sim/record.h"

namespace slip::sim {

/// Of the scene that make_record labels (make_frame at t_s). kBadInput as those.
Result<CotLabels> cot_labels(uint64_t seed, std::optional<uint32_t> family = {}, double t_s = 0);

struct Scene;
/// Of a scene in the ego's frame and its labels. `moved`: the ego is not where the scene's seed puts it, and may be about to go on from a stop.
CotLabels describe_scene(const Scene& sc, const Labels& l, bool moved = false);

}  // namespace slip::sim
