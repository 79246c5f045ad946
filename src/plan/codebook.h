// SPDX-License-Identifier: Apache-2.0
// A trajectory in a few codes. Each names a short piece of path, told from the pose at which it begins; the next one goes on from where it
// ends. FastDriveCoT writes 6.4 s as six codes of an auto-encoder that is not published [FastDriveCoT, section 4.1]; here the codes are the
// means of clusters of such pieces, as the actions of other driving models are.
//
//   pose p, then piece q:  (p.x + q.x cos(p.yaw) - q.y sin(p.yaw),  p.y + q.x sin(p.yaw) + q.y cos(p.yaw),  p.yaw + q.yaw)
//   distance of poses:     |a - b|^2 + |front(a) - front(b)|^2, front being 2 m ahead: so headings count as metres
#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "plan/trajectory.h"

namespace slip {

class TrajectoryCodebook {
 public:
  static constexpr double kStepS = 0.1;

  /// {"format": "slipstream-codebook", "step_s": 0.1, "steps": P, "codes": [[x, y, yaw, x, y, yaw, ...], ...]}: P poses a code, in metres
  /// and radians. Other keys are notes. kBadInput for anything else, kUnsupported for another step.
  static Result<TrajectoryCodebook> parse(const json::value& v, std::string_view where);
  static Result<std::shared_ptr<const TrajectoryCodebook>> load(const std::filesystem::path& file);
  /// Exactly what parse reads again.
  json::object to_json() const;

  int32_t codes() const { return static_cast<int32_t>(poses_.size()) / steps_; }
  int32_t steps() const { return steps_; }  // of 0.1 s in a code
  /// `count` codes, each the one whose poses lie nearest to the truth's as seen from where the codes before it ended, the lowest of equal
  /// ones: what one code misses the next one makes good. `future`: poses at 0.1 s, 0.2 s, ..; where it ends within a piece, what there
  /// is of it decides; it must reach into the last one.
  std::vector<int32_t> encode(std::span<const Pose> future, int32_t count) const;
  /// steps() poses for each code, from (0, 0, 0). Every code must be below codes().
  std::vector<Pose> decode(std::span<const int32_t> codes) const;

  struct MakeOptions {
    int32_t codes = 256, steps = 11;
    int32_t iterations = 30;
    uint64_t seed = 1;
    std::function<Status(int32_t done, double error_m)> told =
        {};  // before every iteration, of the centres as they are; an error ends it
  };
  /// Lloyd's k-means over all whole pieces of the futures, each seen from the pose before it. Begins with pieces drawn without return; a
  /// cluster that nothing is nearest to takes the piece that lies farthest from its own centre. A function of its arguments alone.
  /// kBadInput where there are fewer different pieces than codes.
  static Result<TrajectoryCodebook> make(std::span<const std::vector<Pose>> futures, const MakeOptions& options);

 private:
  TrajectoryCodebook() = default;
  std::span<const Pose> piece(int32_t code) const {
    const auto steps = static_cast<size_t>(steps_);
    return std::span(poses_).subspan(static_cast<size_t>(code) * steps, steps);
  }
  int32_t steps_ = 1;
  std::vector<Pose> poses_;  // codes x steps
};

/// The squared distance of two poses, in square metres, as encode() and make() go by it.
double distance2_m2(const Pose& a, const Pose& b);

/// Points of a path of 10 Hz at another rate: linear between those that are there and from (0, 0); as many as fit.
Trajectory resampled(std::span<const Pose> path_10hz, double rate_hz);

}  // namespace slip
