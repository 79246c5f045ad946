// SPDX-License-Identifier: Apache-2.0
// What the training loop (trainer.cc) drives: parameters with gradients, and a step's loss. A whole model under a teacher-forced objective, a
// draft adapter on a frozen model (lora_example.h), or a head beside one (head_learner.h).
#pragma once
#include <filesystem>
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
  /// False: publish writes what the engine loads. True: the checkpoint is a model with the configuration's shape.
  virtual bool writes_a_model() const { return true; }
  /// Writes a head's files into a checkpoint's folder from the values that are to be published.
  virtual Status publish(const std::filesystem::path&, std::span<const float>) const { return {}; }
  /// Makes what `validate` needs and no step is to be timed with, once; before the first step. kCancelled on Ctrl-C.
  virtual Status make_held_out() { return {}; }
  /// How good the values are on the configuration's validation samples: larger is better. kCancelled on Ctrl-C, which is looked for between
  /// samples.
  virtual Result<double> validate() { return unsupported("validation: expected a kind that has one, got another"); }
  /// Leaves the gradient of step `step`'s loss, of all processes: each goes by config.range() and adds up through ShardSum. Steps come in order.
  virtual Result<LearnedStep> learn(int64_t step) = 0;
};

/// By config.objective. Both arguments outlive it.
std::unique_ptr<Learner> make_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_lora_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_lora_all_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_dflash_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_commit_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_pilot_learner(const TrainConfig& config, SampleSource& source);
std::unique_ptr<Learner> make_flow_learner(const TrainConfig& config, SampleSource& source);

}  // namespace slip
