// SPDX-License-Identifier: Apache-2.0
// What slipstream::limits runs on this machine: its ceilings and kernels, passes, the stages of answers, and decoders over held-out scenes.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "api/tools/limits/work.h"

namespace slip::api {

/// The ceilings of this machine for weights of this type and size.
Result<Machine> measured_machine(const LimitsWork& w, ThreadPool& pool);
/// What this machine's kernels reach at a case's shapes, and at those of its towers.
Status measure_kernels(LimitsWork& w, const LimitsCase& c, ThreadPool& pool, Machine& to);
/// Requests of a set of records, of held-out scenes, or of free text for models of text.
Result<std::vector<Request>> limits_scenes(LimitsWork& w, int64_t count, const std::string& records);

/// Answers to the scenes by one decoder: what they took behind the prompt and what the prompt's pass took, of every scene the least.
class MeasuredDecoder {
 public:
  void saw(size_t scene, const Statistics& s);
  double ms() const { return mean(&Scene::ms); }
  double forwards() const { return mean(&Scene::forwards); }
  double rows() const { return mean(&Scene::rows); }
  double tokens() const { return mean(&Scene::tokens); }
  double prompt_ms() const;

 private:
  struct Scene {
    double ms = 0, prompt_ms = 0, forwards = 0, rows = 0, tokens = 0;
  };
  double mean(double Scene::*of) const;
  std::vector<Scene> scenes_;
};

/// What was measured here. The machine changes its speed from one second to the next where others use it too: so everything is measured in
/// turns, several times, and the least of every time counts.
struct Measured {
  CostTable passes;
  std::optional<CostTable> head_rounds, draft_steps;             // of the model's own draft head, of a second model
  std::optional<double> tower_ms;                                // over the pictures of the first scene
  std::map<std::string, MeasuredDecoder, std::less<>> decoders;  // by candidate; those that cannot run are not there
  std::string draft_model_refused;  // why the second model cannot draft; empty: it can, or there is none
  int rounds = 0;
};
/// Fills the scenes, their prompt and the machine's kernels too, and fits the empty pass. Up to four rounds, two at least, no new one
/// behind twenty seconds.
Result<Measured> measure_here(LimitsWork& w);

}  // namespace slip::api
