// SPDX-License-Identifier: Apache-2.0
// A drive to look at: every tenth of a second as JSON for a page or MCAP for Foxglove, pictures of the cameras, one picture from above.
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include "base/json.h"
#include "drive/episode.h"
#include "plot/map.h"

namespace slip::drive {

/// {"seconds_per_step", "ego": {length, width, rear_to_centre}, "actors": [{id, kind, length, width}], "centre_line", "lanes", "steps": [{"t",
/// "ego": [x, y, heading, v], "actors": [[x, y, heading, speed], ...], "plan": [[x, y], ...], "age_ms"}]}: metres, radians, the frame of the ego at
/// the start. Of an episode with EpisodeSettings::record.
Result<json::object> replay_of(const Episode& e, const EpisodeSettings& settings);
/// Told behind each moment whose pictures are drawn.
using Drawn = std::function<void(int64_t done, int64_t total)>;
/// DIR/000.png ... : the three cameras side by side, ten a second. The folder is a new one (AtomicFolder).
Status write_frames(const Episode& e, const std::filesystem::path& folder, const CancelToken& cancel, const Drawn& drawn = {});
/// Cameras (foxglove.CompressedImage, PNG), /ego/pose and /ego/plan (PoseInFrame, PosesInFrame), /actors (SceneUpdate), /drive (speed, age
/// of the plan), ten a second.
Status write_mcap(const Episode& e, const EpisodeSettings& settings, const std::filesystem::path& file, const CancelToken& cancel,
                  const Drawn& drawn = {});
/// From above: the road, where the ego drove and where the expert did, everybody's boxes every second.
Result<MapView> view_of(const Episode& e, const Episode& expert, const EpisodeSettings& settings, std::string title);

}  // namespace slip::drive
