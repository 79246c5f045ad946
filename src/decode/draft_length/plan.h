// SPDX-License-Identifier: Apache-2.0
// How many passes each field of a graph gets, for drafts that travel with the verifying passes (levels.cc).
//
// A field without drafts takes a pass per draw; every mask that holds saves it one, down to one pass. Which fields should be quicker is a
// project's time-cost tradeoff [Kelley 1961, "crashing"]: while it pays, cut the longest path by one pass where that takes the fewest
// masks: at some moment all critical fields that are then at work. A cut pays while its masks cost less than a pass
// without rows.
//
// A cut looks at every pair of critical fields, and there are up to 16 cuts per field: for a chain of F fields some 8 F^3 steps, 2^24 for
// 128. Beyond kCutOneByOne fields whole levels of the graph (by the longest way from a root, in fields) are cut at once to a pass where
// their masks together cost less than it: the same on a chain whose fields draw at most 17 times, and coarser where fields of
// different lengths stand side by side. Tests: LevelsPlan.*
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "form/form.h"

namespace slip {

class LevelsPlan {
 public:
  static constexpr size_t kCutOneByOne = 128;
  /// `order`: parents before children. `draws_F`: passes without drafts; `price_F`: milliseconds of a mask that holds; `pass_ms`: of
  /// a pass without rows. Views: alive while make() runs.
  void make(std::span<const Field> fields, std::span<const int32_t> order, std::span<const double> draws_F,
            std::span<const double> price_F, double pass_ms);
  double passes(int32_t field) const { return passes_[static_cast<size_t>(field)]; }
  /// Passes of the longest path behind a field.
  double behind(int32_t field) const { return behind_[static_cast<size_t>(field)]; }
  /// Fields, parents and pairs looked at: what bounds the time.
  int64_t steps() const { return steps_; }

 private:
  double lay_times();
  bool shorten();
  void cut_levels();

  std::span<const Field> fields_;
  std::span<const int32_t> order_;
  std::span<const double> price_F_;
  double pass_ms_ = 0;
  std::vector<double> passes_, starts_, behind_;
  std::vector<size_t> critical_;
  int64_t steps_ = 0;
};

}  // namespace slip
