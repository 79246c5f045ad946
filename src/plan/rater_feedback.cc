// SPDX-License-Identifier: Apache-2.0
// Waymo's Rater Feedback Score. Per rater r and time k (3 s, 5 s), with thresholds scaled by the speed now:
//   d = max(|along| / (4 tau_k), |across| / tau_k),  s = label 0.1^max(d - 1, 0)
//   score = mean_k max_r s;  outside every trust region at least 4.
// The maximum over raters is taken per time, so two raters can each supply one half. The box is aligned with the *rater's*
// direction of travel, taken from the rater's last displacement that was not zero.
#include <algorithm>
#include <cmath>

#include "plan/metrics.h"

namespace slip {
namespace {

constexpr size_t kRaters = 3, kPoints = 20;
constexpr std::array<size_t, 2> kTimes = {11, 19};     // 3 s and 5 s at 4 Hz
constexpr std::array<double, 2> kAcross = {1.0, 1.8};  // metres, at full speed scale
constexpr double kAlongPerAcross = 4, kDecay = 0.1, kFloor = 4;
constexpr double kSlow = 1.4, kFast = 11;  // m/s

/// A rater at the two times that count.
struct Anchor {
  Waypoint point, along;  // along: unit vector
};

std::array<Anchor, 2> anchors_of(const std::vector<Waypoint>& rater) {
  std::array<Anchor, 2> out;
  Waypoint previous{}, along{1, 0};
  for (size_t t = 0, k = 0; t < kPoints; ++t) {
    const Waypoint here = rater[std::min(t, rater.size() - 1)];
    const double dx = here.x - previous.x, dy = here.y - previous.y, length = std::hypot(dx, dy);
    if (length > 0) along = {dx / length, dy / length};
    previous = here;
    if (t == kTimes[k]) out[k++] = {here, along};
    if (k == kTimes.size()) break;
  }
  return out;
}

/// How far a point is from an anchor, in thresholds: at most 1 is inside.
double thresholds_away(Waypoint p, const Anchor& a, double across_m) {
  const double ex = p.x - a.point.x, ey = p.y - a.point.y;
  const double along = std::abs(ex * a.along.x + ey * a.along.y), across = std::abs(ey * a.along.x - ex * a.along.y);
  return std::max(along / (kAlongPerAcross * across_m), across / across_m);
}

Status check(std::span<const std::vector<Waypoint>> proposals, std::span<const double> probabilities, const RatedFrame& f) {
  if (f.raters.empty() || f.raters.size() != f.labels.size())
    return bad_input("rated frame: expected raters with one label each, got {} and {}", f.raters.size(), f.labels.size());
  if (proposals.empty() || proposals.size() != probabilities.size())
    return bad_input("rated frame: expected proposals with one probability each, got {} and {}", proposals.size(),
                     probabilities.size());
  for (const auto& r : f.raters)
    if (r.empty()) return bad_input("rated frame: expected rater trajectories with points, got an empty one");
  for (const auto& p : proposals)
    if (p.size() < kPoints) return bad_input("rated frame: expected proposals of {} points, got {}", kPoints, p.size());
  return {};
}

}  // namespace

Result<RaterFeedback> rater_feedback_score(std::span<const std::vector<Waypoint>> proposals, std::span<const double> probabilities,
                                           const RatedFrame& frame) {
  SLIP_TRY_(check(proposals, probabilities, frame));
  const double scale = std::clamp(0.5 + 0.5 * (frame.v0_mps - kSlow) / (kFast - kSlow), 0.5, 1.0);
  const size_t raters = std::min(frame.raters.size(), kRaters);  // repeating the last one would not change a maximum
  std::vector<std::array<Anchor, 2>> anchors;
  for (size_t r = 0; r < raters; ++r) anchors.push_back(anchors_of(frame.raters[r]));

  RaterFeedback out;
  for (size_t i = 0; i < proposals.size(); ++i) {
    std::array<double, 2> best{};
    bool inside = false;
    for (size_t r = 0; r < raters; ++r) {
      double worst = 0;
      for (size_t k = 0; k < kTimes.size(); ++k) {
        const double d = thresholds_away(proposals[i][kTimes[k]], anchors[r][k], kAcross[k] * scale);
        worst = std::max(worst, d);
        best[k] = std::max(best[k], frame.labels[r] * std::pow(kDecay, std::max(d - 1, 0.0)));
      }
      inside |= worst <= 1;
    }
    const double mean = (best[0] + best[1]) / 2;
    out.proposals.push_back(inside ? mean : std::max(kFloor, mean));
    out.inside.push_back(inside);
    out.score += probabilities[i] * out.proposals.back();
  }
  return out;
}

Result<SplitScore> split_score(std::span<const double> scores, std::span<const size_t> cluster_of_frame, size_t clusters) {
  if (scores.empty() || scores.size() != cluster_of_frame.size())
    return bad_input("split: expected scores with one cluster each, got {} and {}", scores.size(), cluster_of_frame.size());
  std::vector<double> sums(clusters, 0.0), counts(clusters, 0.0);
  SplitScore out;
  for (size_t i = 0; i < scores.size(); ++i) {
    if (cluster_of_frame[i] >= clusters)
      return bad_input("split: expected clusters below {}, got {}", clusters, cluster_of_frame[i]);
    out.frame_mean += scores[i];
    sums[cluster_of_frame[i]] += scores[i];
    counts[cluster_of_frame[i]] += 1;
  }
  out.frame_mean /= static_cast<double>(scores.size());
  double present = 0;
  for (size_t g = 0; g < clusters; ++g) {
    out.cluster_means.push_back(sums[g] / counts[g]);  // 0 / 0 is the NaN that is promised
    if (counts[g] == 0) continue;
    out.cluster_mean += out.cluster_means[g];
    present += 1;
  }
  out.cluster_mean /= present;
  return out;
}

}  // namespace slip
