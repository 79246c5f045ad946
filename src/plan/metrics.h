// SPDX-License-Identifier: Apache-2.0
// Metrics of plans. All distances in metres, all trajectories in the ego frame, "now" excluded.
// The same name hides different numbers in the literature: say with every result which reference and convention it used.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "plan/trajectory.h"

namespace slip {

/// Mean and last distance of the first n points. kBadInput where either side has fewer.
Result<double> average_displacement(std::span<const Waypoint> prediction, std::span<const Waypoint> truth, size_t n);
Result<double> final_displacement(std::span<const Waypoint> prediction, std::span<const Waypoint> truth, size_t n);

/// At 3 s and 5 s of the first prediction, and the least over all predictions at 5 s (20 points at 4 Hz).
struct Displacement {
  double ade_3s = 0, ade_5s = 0, fde_3s = 0, fde_5s = 0, min_ade_5s = 0, min_fde_5s = 0;
};
Result<Displacement> displacement(std::span<const std::vector<Waypoint>> predictions, std::span<const Waypoint> truth,
                                  double rate_hz = 4);

/// nuScenes planning L2: six points at 2 Hz. UniAD takes the error at 1, 2, 3 s, and a step without truth counts 0 m over all
/// samples; ST-P3 (and VAD) take the mean error up to 1, 2, 3 s, over the samples that have a whole future. About 2x apart.
class NuscenesL2 {
 public:
  struct Row {
    std::array<double, 3> uniad{};              // at 1, 2, 3 s
    std::optional<std::array<double, 3>> stp3;  // none: no whole future
  };
  struct Summary {
    std::array<double, 3> at_1s_2s_3s{};
    double average = 0;
    int64_t samples = 0;  // the denominator
  };
  using Six = std::array<Waypoint, 6>;
  Row add(const Six& prediction, const Six& truth, const std::array<bool, 6>& mask);
  Summary uniad() const { return mean(uniad_, samples_); }
  Summary stp3() const { return mean(stp3_, whole_); }

 private:
  static Summary mean(const std::array<double, 3>& sums, int64_t n);
  std::array<double, 3> uniad_{}, stp3_{};
  int64_t samples_ = 0, whole_ = 0;
};

/// Waymo's Rater Feedback Score of one frame (Waymo Open Dataset, rater_feedback_utils). 20 points at 4 Hz; only 3 s and 5 s
/// matter. The first three raters count, fewer are padded by repeating the last; their trajectories are cut or padded to 20.
struct RatedFrame {
  std::vector<std::vector<Waypoint>> raters;
  std::vector<double> labels;  // 0 to 10
  double v0_mps = 0;           // speed now; widens the trust region from half (1.4 m/s) to full size (11 m/s)
};
struct RaterFeedback {
  double score = 0;               // sum of probability * proposal score
  std::vector<double> proposals;  // at least 4 each where outside all trust regions
  std::vector<bool> inside;       // within some rater's trust region at both times
};
/// kBadInput where there is no rater, a trajectory is empty or too short, or counts differ.
Result<RaterFeedback> rater_feedback_score(std::span<const std::vector<Waypoint>> proposals, std::span<const double> probabilities,
                                           const RatedFrame& frame);

/// A split's score: the plain mean over frames, and the unweighted mean over clusters' means (clusters without frames left out).
struct SplitScore {
  double frame_mean = 0, cluster_mean = 0;
  std::vector<double> cluster_means;  // NaN where a cluster has no frame
};
constexpr size_t kWaymoClusters = 11;
Result<SplitScore> split_score(std::span<const double> scores, std::span<const size_t> cluster_of_frame,
                               size_t clusters = kWaymoClusters);

/// Mean over intervals of |A n B| / |A u B| of the sets of meta-actions; two empty sets agree (1). Our own definition of what
/// FastDriveCoT describes in prose (64 intervals of 0.1 s); not comparable with its table.
Result<double> meta_action_iou(std::span<const std::vector<std::string>> predicted,
                               std::span<const std::vector<std::string>> truth);
/// One kind of action as runs [name, intervals]; an empty name means none.
struct ActionRun {
  std::string name;
  int64_t intervals = 0;
};
/// The sets per interval, from one list of runs per kind. kBadInput unless each kind covers `intervals`.
Result<std::vector<std::vector<std::string>>> action_sets(std::span<const std::vector<ActionRun>> kinds, size_t intervals = 64);

}  // namespace slip
