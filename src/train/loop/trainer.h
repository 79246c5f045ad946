// SPDX-License-Identifier: Apache-2.0
// The training loop. With a schedule by steps a run is a function of its configuration and data: bit for bit the same weights when it is
// repeated, and whether it ran through or was stopped and resumed (with the same threads and machine). With a schedule by time
// ("schedule": {"by": "time"}) the learning rate reads the clock: such a run is neither bit-reproducible nor resumed bit for bit.
#pragma once
#include <filesystem>
#include <optional>

#include "train/data/source.h"
#include "train/loop/config.h"

namespace slip {

struct TrainReport {
  int64_t steps = 0;                 // done in total, earlier runs included
  double loss = 0;                   // of the last step
  double samples_per_s = 0;          // over this run
  bool stopped_early = false;        // interrupted or out of time
  bool interrupted = false;          // stopped early by Ctrl-C
  std::filesystem::path checkpoint;  // the last one written
};

struct RunOptions {
  std::optional<std::filesystem::path> resume;  // a step folder
  int64_t stop_after = 0;                       // > 0: checkpoint and stop after this step (tests)
  bool quiet = false;
};

/// Trains, logs to OUT/loss.jsonl and OUT/loss.svg, writes checkpoints. On Ctrl-C: checkpoint, then stop (report says so); a score that
/// was due is given by the run that goes on. kBadInput for an OUT that holds another run (check_out), and for other inputs than the run had
/// (check_inputs).
Result<TrainReport> train(const TrainConfig& config, SampleSource& source, const RunOptions& options = {});

}  // namespace slip
