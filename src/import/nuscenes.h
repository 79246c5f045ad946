// SPDX-License-Identifier: Apache-2.0
// nuScenes: the JSON tables of a version's folder (v1.0-mini, v1.0-trainval), joined by their tokens. The ego's pose of a sample is that of
// its LIDAR_TOP key frame; places and boxes are seen from it by the full inverse of the 3-D pose, z dropped. Table columns: the
// devkit's page of the schema (nutonomy/nuscenes-devkit).
#pragma once
#include <array>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "import/track.h"

namespace slip {

struct NuScenesBox {
  std::string instance, category;
  Pose pose;  // ego frame
  std::array<double, 3> width_length_height{};
};
struct NuScenesSample {
  std::string token;
  int64_t timestamp_us = 0;
  std::map<std::string, std::string> files;  // by channel: the key frames, relative to the data set's folder
  std::vector<Pose> past, future;            // of the samples before (at most 4, oldest first) and after (at most 6), 0.5 s apart
  std::vector<NuScenesBox> boxes;
  Pose flat;  // in the world: x, y and the heading of the x axis
};
struct NuScenesScene {
  std::string name;
  std::vector<NuScenesSample> samples;  // in time
  std::vector<TimedPose> track;         // all poses of LIDAR_TOP, sweeps included, in seconds since the first
  std::vector<double> seconds;          // of each sample, on the track's clock
};

/// kBadInput names table, row and key; a token that leads nowhere or in a circle is an error.
Result<std::vector<NuScenesScene>> read_nuscenes(const std::filesystem::path& tables);

}  // namespace slip
