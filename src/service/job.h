// SPDX-License-Identifier: Apache-2.0
// A pass that a request waits for, in the arena's own slots, and what of it has run.
#pragma once
#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "lm/lm.h"

namespace slip {

struct PassJob {
  Pass asked;  // as the decoder laid it out: its features and lists
  PassOutput* out = nullptr;
  std::vector<Row> rows;  // the same with slots and spans of the arena
  std::vector<SlotSpan> spans;
  /// cuts[k]: the rows before may run in a pass before the others: none of them sees a row behind. Ascending; the last is all rows.
  std::vector<int32_t> cuts;
  size_t done = 0;  // rows that have run
  Status status;    // of a part that failed: then all is done
  bool waiting = false;

  size_t left() const { return rows.size() - done; }
};

/// Rows of a job that run in one pass.
struct JobPart {
  PassJob* job = nullptr;
  size_t first = 0, rows = 0;
};

/// Fills `cuts`. A pass of at most `whole` rows is not looked into: it runs in one piece.
void find_cuts(PassJob& job, size_t whole);

/// Puts parts of several requests into one pass and hands each its outputs. All parts agree in draft adapter and taps. By contract W each
/// gets the bits that it would get alone.
class PassMerger {
 public:
  /// A pass that is refused, or has rows whose numbers are none, is run part by part, so that each request hears of its own.
  void run(Lm& lm, std::span<const JobPart> parts);
  int64_t passes() const { return passes_; }

 private:
  void alone(Lm& lm, const JobPart& part);
  void lay_out(Lm& lm, std::span<const JobPart> parts);
  Feature take_feature(const FeatureView& asked, Feature its, int32_t width);
  void hand_out(const LmInfo& info, const JobPart& part, size_t first);

  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  Features features_;  // blocks of all parts, then the numbers of rows
  std::vector<std::span<const TokenId>> allowed_;
  PassOutput out_;
  int64_t passes_ = 0;
};

}  // namespace slip
