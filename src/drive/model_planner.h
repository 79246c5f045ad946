// SPDX-License-Identifier: Apache-2.0
// A model drives: three cameras rendered where the ego is, its own history and the route's intent, one answer, the fitted plan.
#pragma once
#include "drive/planner.h"
#include "engine/engine.h"

namespace slip::drive {

/// What is taken away from the model to see how much it matters.
enum class Ablation : uint8_t { kNone, kGreyImages, kShuffledHistory, kSteadyHistory };

/// Several answers for every decision: the plan is their average. Draws are keyed by the scene's seed and the moment.
struct DrawnPlans {
  int rollouts = 1;
  std::vector<std::pair<std::string, float>> section_temperatures;
  std::string trajectory_head;  // whose plan is driven in place of the answer's own; empty: none
};

class ModelPlanner : public Planner {
 public:
  ModelPlanner(Engine& engine, Method method, Ablation ablation = Ablation::kNone, DrawnPlans drawn = {})
      : engine_(engine), method_(std::move(method)), ablation_(ablation), drawn_(std::move(drawn)) {}
  Result<Planned> plan(const Situation& s, const CancelToken& cancel) override;
  /// Of the last answer.
  const Answer& answer() const { return answer_; }
  const Counts& counts() const { return counts_; }

 private:
  Engine& engine_;
  Method method_;
  Ablation ablation_;
  DrawnPlans drawn_;
  Answer answer_;
  Counts counts_;
};

/// What a decoder's answers cost here. Answers of one shape do not tell passes and rows apart: `row_in_passes` says what a row takes in passes, and
/// decoding times are (passes + row_in_passes * rows) times the cost of a pass. Prefill is shared out by rows.
struct Measured {
  Counts counts;
  double encode_ms = 0, prefill_ms = 0, decode_ms = 0, plan_ms = 0;
  double drafter_ms = 0;  // of another model, a draft head or a trajectory head, prompts included; not in decode_ms
};
Costs fitted_costs(std::span<const Measured> answers, double row_in_passes);
/// The slope over the intercept of a line through measured passes, by least squares of relative errors; 0 where more rows take no longer.
double row_in_passes(const CostTable& passes);

}  // namespace slip::drive
