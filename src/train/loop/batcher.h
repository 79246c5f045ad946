// SPDX-License-Identifier: Apache-2.0
// Batches ahead of the trainer: one background thread of low priority reads samples, draws their noise and lays out the rows.
// A step's batches are a function of (config, step) alone, however far ahead they were made.
#pragma once
#include <memory>
#include <vector>

#include "train/data/source.h"
#include "train/loop/config.h"
#include "train/loop/lora_example.h"
#include "train/model/rows.h"

namespace slip {

struct StepBatches {
  std::vector<RowBatch> parts;  // of this process's shards, in their order; for the adapter one per sample, the prompt alone
  std::vector<LoraTask> tasks;  // for the adapter: of each part
  std::vector<int64_t> shard;   // of each part; shards with few samples may have none
  double count = 0;             // denominator of these parts
  int64_t samples = 0;
};

/// The batches of step 1, 2, ... made here and now. A part holds at most `batch` samples of one shard.
Result<StepBatches> make_step(SampleSource& source, const TrainConfig& config, int64_t step);

/// The configuration's validation samples, one a part, all of them for every process; their noise is the first step's of another seed.
Result<StepBatches> make_validation(SampleSource& source, const TrainConfig& config);

class Batcher {
 public:
  /// Starts at `first_step`; source and config outlive the batcher.
  Batcher(SampleSource& source, const TrainConfig& config, int64_t first_step);
  ~Batcher();
  Result<StepBatches> next();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip
