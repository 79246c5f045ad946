// SPDX-License-Identifier: Apache-2.0
// One drive: 12 s of a scene with somebody's plans, each followed from when its own latency lets it be there, and what became of it.
#pragma once
#include <optional>
#include <vector>

#include "drive/planner.h"

namespace slip::drive {

/// How long an answer takes: priced by its counts, or the same for all.
struct Delay {
  std::optional<Costs> costs;
  int64_t fixed_ms = 0;  // without costs
  int64_t latency(const Counts& c) const { return costs ? rounded_latency(costs->raw_ms(c)) : fixed_ms; }
};

struct EpisodeSettings {
  uint64_t seed = 0;
  uint32_t family = 0;
  Mode mode = Mode::kAsync;
  Delay delay;
  bool reactive = true;
  bool record = false;  // keep what a replay shows
};

/// What a replay shows of a tenth of a second.
struct Snapshot {
  int64_t time_ms = 0;
  Motion ego;
  std::vector<ActorNow> actors;
  std::vector<sim::Vec2> plan;  // the one followed
  int64_t age_ms = 0;
  sim::Moment moment;
};

struct Episode {
  TrackScore track;
  double v0 = 0;
  int64_t calls = 0, invalid = 0, latency_sum_ms = 0, age_sum_ms = 0, followed_steps = 0;
  int64_t passes = 0, rows = 0, tested = 0, accepted = 0;  // of all answers
  double ncap = 5;
  std::vector<Snapshot> snapshots;
  double mean_latency_ms() const { return calls ? static_cast<double>(latency_sum_ms) / static_cast<double>(calls) : 0; }
  double mean_age_ms() const { return followed_steps ? static_cast<double>(age_sum_ms) / static_cast<double>(followed_steps) : 0; }
};

/// kCancelled between decisions; the planner's errors.
Result<Episode> drive_episode(const EpisodeSettings& settings, Planner& planner, const CancelToken& cancel);

/// An episode beside the expert's own of the same scene.
struct EpisodeScore {
  double score = 0, ep = 0, ttc = 0, comfort = 0, nc = 0, dac = 0, tlc = 0, ncap = 0, age_ms = 0, latency_ms = 0;
  double passes = 0, rows = 0, acceptance = 0;  // an answer's, and the share of tested drafts that were kept
  bool success = false;  // no collision of its own fault, on the road, no red light, four fifths of the expert's way
};
EpisodeScore score_episode(const Episode& e, const Episode& expert);

}  // namespace slip::drive
