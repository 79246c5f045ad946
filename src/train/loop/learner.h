// SPDX-License-Identifier: Apache-2.0
// What the training loop (trainer.cc) drives: parameters with gradients, and a step's loss. Two kinds: a whole model under a
// teacher-forced objective, and a draft adapter on a frozen model (lora_example.h).
#pragma once
#include <memory>
#include <span>

#include "train/data/source.h"
#include "train/loop/config.h"

namespace slip {

struct LearnedStep {
  double loss = 0;           // the objective
  double noisy = 0, ar = 0;  // its two parts (loss_log.h)
  int64_t samples = 0;
  double acceptance = -1;  // of drafts, where the objective runs a decoder
};

class Learner {
 public:
  virtual ~Learner() = default;
  virtual const ParameterTable& table() const = 0;
  virtual std::span<float> values() = 0;
  virtual std::span<float> gradients() = 0;
  /// Reads what does not change in training; before anything else.
  virtual Status open() { return {}; }
  /// The values that training starts from; not called on resuming.
  virtual Status start(bool quiet) = 0;
  /// Leaves the gradient of step `step`'s loss. Steps come in order.
  virtual Result<LearnedStep> learn(int64_t step) = 0;
};

/// How many numbers a run trains.
int64_t numbers_trained(const TrainConfig& config);
/// By config.objective. Both arguments outlive it.
std::unique_ptr<Learner> make_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_lora_learner(const TrainConfig& config, SampleSource& source);

}  // namespace slip
