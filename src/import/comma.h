// SPDX-License-Identifier: Apache-2.0
// comma2k19: a segment's folder. global_pose/frame_{times,positions,velocities} (.npy files, with or without the ending; seconds, ECEF metres
// and metres per second, 20 Hz) and, where it is there, frame_orientations (quaternions), here or one folder up. Layout:
// docs/notes/driving.md#comma2k19.
#pragma once
#include <filesystem>

#include "import/track.h"

namespace slip {

/// A NumPy array of float64 in C order, format 1 to 3. kBadInput for others, and for a size that the header does not say.
struct NpyArray {
  std::vector<int64_t> shape;
  std::vector<double> values;
};
Result<NpyArray> read_npy(std::string_view bytes, std::string_view name);

struct CommaSegment {
  TrackPieces track;               // east and north of the segment's first place, metres; seconds since its first frame
  std::vector<double> seconds;     // of each frame
  std::filesystem::path pictures;  // folder "frames" with 000000.jpg (or .png) .., empty where there is none
};
/// The heading is the velocity's. A car that stands has its camera's; without orientations that of the motion before, and before the first
/// motion that one's.
Result<CommaSegment> read_comma(const std::filesystem::path& segment);

}  // namespace slip
