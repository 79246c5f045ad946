// SPDX-License-Identifier: Apache-2.0
// What the benchmarks share: the machine's state around every measurement, and the matrix products of a pass alone.
//
// A shared machine changes under a benchmark: its read bandwidth flips between two states for seconds at a time, and cores are taken
// away for milliseconds. So every sample carries the bandwidth measured right before and right after it, samples whose state is not
// the run's most frequent one are left out, and ratios are taken between samples of one round.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/cancel.h"
#include "cli/bench/commands.h"
#include "engine/engine.h"
#include "kernels/probe.h"
#include "nn/decoder.h"

namespace slip::cli {

/// Loads the model with a progress bar.
Result<std::unique_ptr<Engine>> load_engine(const std::string& model, const std::string& dtype, int threads, int slots,
                                            const std::string& device = "cpu", const std::string& kv_type = "auto");

/// What runs the decoder: the processor's instruction set, or the kind of a device. In words where_it_runs.
std::string_view isa_of(const std::string& device);
std::string where_it_runs(const std::string& device);

struct MachineState {
  double read_gbps = 0;  // around the sample
  double change = 0;     // of the bandwidth between before and after, relative
  bool steady() const { return change <= kSteady; }
  bool like(double gbps) const;
  static constexpr double kSteady = 0.12;  // the two states lie 1.6 apart, noise within one is some percent
};

/// The samples of a run that count: steady ones in the state of most; all, and `is` false, where none is.
struct Steady {
  bool is = true;
  double read_gbps = 0;  // median over them
  std::vector<size_t> samples;
};
Steady steady_samples(std::span<const MachineState> states);

/// Reads bandwidth between samples: each sample's state lies between two readings.
class StateWatch {
 public:
  explicit StateWatch(ThreadPool& pool) : probe_(pool) { last_ = probe_.gbps(); }
  /// The state since the last call.
  MachineState next();

 private:
  ReadProbe probe_;
  double last_;
};

/// Products of a pass with nothing between them, on activations that are there: four per layer, and the head with its argmax.
class Products {
 public:
  Products(const DecoderLm& lm, int most_rows, ThreadPool& pool);
  void run(int rows, int head_rows);
  /// Numbers in the matrices, and their bytes as packed; the head's apart.
  double layer_weights() const { return layer_weights_; }
  double head_weights() const { return head_weights_; }
  double bytes(bool head) const { return layer_bytes_ + (head ? head_bytes_ : 0); }

 private:
  const DecoderLm& lm_;
  ThreadPool& pool_;
  Workspace workspace_;
  std::vector<float> x_, out_;
  std::vector<TokenId> best_;
  double layer_weights_ = 0, head_weights_ = 0, layer_bytes_ = 0, head_bytes_ = 0;
};

/// Rows [begin, end) of a causal sequence in slots 0 .., as a pass.
struct CausalRows {
  std::vector<Row> rows;
  std::vector<SlotSpan> spans;
  PassOutput out;
  Status run(Lm& lm, const Prompt& sequence, int begin, int end, int wanted);  // the last `wanted` rows want the argmax
  /// Keys for a measurement, whose numbers do not matter: each of the first `keys` rows sees itself alone. kCancelled on Ctrl-C.
  Status fill(Lm& lm, const Prompt& sequence, int keys);
};

/// `bench forward|prefill` with --device (device.cc).
Status bench_on_device(const BenchForwardOptions& o, bool prefill, const std::string& dtype, const std::vector<int>& widths);

}  // namespace slip::cli
