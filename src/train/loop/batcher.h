// SPDX-License-Identifier: Apache-2.0
// Batches ahead of the trainer: background threads of low priority read samples, draw their noise and lay out the rows, a step each at a time.
// A step's batches are a function of (config, step) alone, however far ahead and by whichever thread they were made.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "train/data/source.h"
#include "train/loop/config.h"
#include "train/loop/learners/lora_example.h"
#include "train/model/rows.h"

namespace slip {

struct StepBatches {
  std::vector<RowBatch> parts;  // of this process's shards, in their order; for the adapter one per sample, the prompt alone
  std::vector<LoraTask> tasks;  // for the adapter: of each part
  std::vector<int64_t> shard;   // of each part; shards with few samples may have none
  double count = 0;             // denominator of these parts
  int64_t samples = 0;
};

/// What the objective says of sections and fields by name is about those of the source's form, or kBadInput.
Status check_names(const SampleSource& source, const TrainConfig& config);
/// The batches of step 1, 2, ... made here and now. A part holds at most `batch` samples of one shard. kCancelled once `stop` says so, which is
/// asked between samples.
Result<StepBatches> make_step(SampleSource& source, const TrainConfig& config, int64_t step,
                              const std::function<bool()>& stop = {});

class Batcher {
 public:
  /// Starts at `first_step`; source and config outlive the batcher. The first of config.data_threads asks `source`, every further one
  /// another source of config.data. A thread that the system refuses is an error of the first step.
  Batcher(SampleSource& source, const TrainConfig& config, int64_t first_step);
  ~Batcher();
  Result<StepBatches> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// What a learner is fed with: steps ahead of it, and the configuration's validation samples, one a part, all of them for every process;
/// their noise is the first step's of another seed. Both outlive it.
class LearnerBatches {
 public:
  LearnerBatches(SampleSource& source, const TrainConfig& config) : source_(source), config_(config) {}
  /// Makes the validation samples, once: before the first step, since a source is asked by one thread at a time. kCancelled on Ctrl-C.
  Status make_held_out();
  /// Steps come in order, from whichever is asked for first.
  Result<StepBatches> next(int64_t step);
  const StepBatches& held_out() const { return held_out_; }

 private:
  SampleSource& source_;
  const TrainConfig& config_;
  StepBatches held_out_;
  bool has_held_out_ = false;
  std::optional<Batcher> ahead_;
};

}  // namespace slip
