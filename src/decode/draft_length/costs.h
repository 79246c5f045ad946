// SPDX-License-Identifier: Apache-2.0
// What passes cost on this machine, by their rows: a table, and how it is measured.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "lm/draft_head.h"
#include "lm/lm.h"

namespace slip {

/// Milliseconds of a pass by its rows. Real curves are staircases (tiles, threads, graph buckets): no shape is assumed. Between
/// measured points straight lines; before the first its value; behind the last the mean slope of the upper half.
class CostTable {
 public:
  CostTable() = default;
  /// Rows ascending from 1 up, milliseconds finite and above 0; kBadInput, which begins with `where`.
  static Result<CostTable> make(std::vector<int32_t> rows, std::vector<double> ms, std::string_view where);
  bool empty() const { return rows_.empty(); }
  double ms(int32_t rows) const;
  std::span<const int32_t> rows() const { return rows_; }
  std::span<const double> measured_ms() const { return ms_; }

 private:
  std::vector<int32_t> rows_;
  std::vector<double> ms_, dense_;  // dense_[n]: n rows, up to the last point
  double slope_ = 0;                // behind it
};

/// What a measurement has found so far, by point.
struct CostTimes {
  std::vector<int32_t> rows;
  std::vector<std::vector<double>> ms;
  size_t next = 0;      // point
  double spent_ms = 0;  // of the budget
};

struct CostSettings {
  int32_t visible = 512;  // keys that the rows see; slots 0 .. visible are used and must be written where `fill` is off
  bool fill = true;       // runs a pass that writes them first
  int32_t most_rows = 128;
  double budget_ms = 200;  // of measuring; every point is run at least once
  Want want = Want::kArgmax;
  /// Asked before the first pass and between points. Every call that gets past the first asking comes to a point at least, so that
  /// calls that are ended come to the end together.
  CancelToken cancel = {};
  CostTimes* times = nullptr;  // goes on from a measurement that was ended; begins anew where most_rows is another
};
/// Median milliseconds of passes of 1 .. most_rows rows. Points are visited in turns, so that a machine that slows down meanwhile
/// bends no curve. kResource where the arena is too small.
Result<CostTable> measure_costs(Lm& lm, const CostSettings& settings);
/// The same for a round of a draft head: it stores the context of n rows and drafts in blocks of n rows together, all logits wanted.
/// Writes context slots from `first_slot` on: what is stored before it stays. kResource where context or blocks are too small.
Result<CostTable> measure_costs(DraftHead& head, int32_t first_slot, const CostSettings& settings);

}  // namespace slip
