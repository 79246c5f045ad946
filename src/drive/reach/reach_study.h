// SPDX-License-Identifier: Apache-2.0
// Reach and grasp by a model's actions, with several decoders over the same episodes: success, counts and milliseconds of each, and what the
// formulas of speculative decoding say of them. Counts and successes depend on no clock.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "drive/score/bootstrap.h"
#include "engine/engine.h"
#include "limits/speculation_algebra.h"
#include "sim/reach/reach.h"

namespace slip::drive {

/// Somebody who reaches: a decoder with so many drafts a round and a radius.
struct Reacher {
  std::string decoder;  // its preset
  int32_t drafts = 0;   // a round; 0: none
  int32_t radius = 0;   // bins; 0: exact
  bool second_model = false;
  Method method;
};

/// What a reacher's actions took together.
struct ReachCounts {
  int64_t actions = 0, passes = 0, draft_passes = 0, rounds = 0, tested = 0, accepted = 0, invalid = 0;
  double ms = 0, prompt_ms = 0, decode_ms = 0, draft_ms = 0, draft_prompt_ms = 0;  // ms: whole answers
};

/// One step of an episode, for a replay.
struct ReachMoment {
  sim::ToolPose tool, object;
  bool holds = false;
  sim::ArmStep step{};
  int64_t passes = 0, accepted = 0;
};

struct ReachEpisode {
  sim::ReachEnd end = sim::ReachEnd::kGoesOn;
  ReachCounts counts;
  std::vector<ReachMoment> moments;  // behind the wait
};
/// `seed` says where tool and object begin. Errors of the engine; kCancelled between answers. `told`, where it is, of every step.
Result<ReachEpisode> reach_episode(Engine& engine, const Reacher& who, uint64_t seed, const CancelToken& cancel,
                                   const std::function<void(int64_t steps)>& told = {});

/// All episodes of one reacher.
struct Reached {
  Reacher who;
  ReachCounts counts;
  std::vector<double> successes;  // 1 or 0, an episode each
  std::map<std::string_view, int64_t> ends;
  void add(const ReachEpisode& e);
  double alpha() const;  // of tested drafts, those that were kept
};

/// The times of an action as the robot papers' table 5 has them, out of what was measured: the target's from `plain` (one drawn number a pass), the
/// draft model's from `drafted`.
ActionTimes action_times(const Reached& plain, const Reached& drafted);

/// What speed-up an action of n numbers has: (prefill + (n - 1) step) over (both prefills + (R - 1) step + D draft steps), with R rounds and D draft
/// steps that emitting n numbers takes on average at this alpha (finite_run). Unlike speculative_action_ms it has the first round's drafts in
/// the prompt's pass, as this engine has.
double action_speedup(const ActionTimes& times, int numbers, double alpha, int gamma);

/// Wilson's 95 % interval of a share: k successes of n.
Interval wilson_interval(int64_t successes, int64_t n);

/// The study's table. The first of `all` decodes one number a pass, the scaffold for nothing, and the others are told relative to it. Intervals
/// are 95 %: Wilson's of successes, of differences a paired bootstrap over episodes.
json::object reach_json(const std::vector<Reached>& all);
std::string reach_table(const json::object& study);
std::string reach_csv(const json::object& study);
json::object replay_json(const ReachEpisode& e, const Reacher& who, uint64_t seed);

}  // namespace slip::drive
