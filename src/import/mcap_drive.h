// SPDX-License-Identifier: Apache-2.0
// A drive in an MCAP file: poses of the ego and pictures of its cameras, by topic. Poses: /ego/pose, JSON, {"x", "y", "yaw"} or
// foxglove.PoseInFrame; pictures: /camera/front_left, /camera/front, /camera/front_right, encoding "jpeg" or "png" (the file's bytes), or JSON
// of foxglove.CompressedImage. Poses of another frame_id are another drive. Schemas: docs.foxglove.dev, "Schemas".
#pragma once
#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "import/mcap.h"
#include "import/track.h"

namespace slip {

inline constexpr std::array<std::string_view, sim::kCameras> kCameraTopics = {"/camera/front_left", "/camera/front",
                                                                              "/camera/front_right"};

struct McapDrive {
  std::string frame;  // frame_id, "ego" where poses have none
  std::vector<TimedPose> poses;
  struct Picture {
    double t_s = 0;
    std::string bytes;
    std::string name;
  };
  std::array<std::vector<Picture>, sim::kCameras> cameras;
  /// Where records are made: at the front camera's pictures, or every so many seconds where there is none.
  std::vector<double> moments(double every_s) const;
  /// The newest picture of each camera up to then.
  Result<std::vector<uint8_t>> pictures_at(double now_s) const;
};

/// Pictures belong to the drive whose poses surround them in time. kBadInput for JSON that is none, missing numbers, a file without poses.
Result<std::vector<McapDrive>> read_mcap_drives(Bytes file, const std::string& name);

/// The standard alphabet, with padding. Decoding refuses everything else.
std::string to_base64(std::string_view bytes);
Result<std::string> from_base64(std::string_view text, std::string_view name);

}  // namespace slip
