// SPDX-License-Identifier: Apache-2.0
// What passes cost, by running them.
#include <algorithm>
#include <array>
#include <chrono>

#include "base/interrupt.h"
#include "decode/width_model.h"

namespace slip {
namespace {

using Clock = std::chrono::steady_clock;

// Dense where stairs are (tiles of 4 and 8 rows, 16 for the matrix units), sparse behind.
constexpr std::array<int32_t, 24> kRows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 20, 24, 28, 32, 33, 40, 48, 56, 64, 96, 128, 256};
constexpr std::array<int32_t, 9> kFewRows = {1, 2, 4, 8, 16, 32, 64, 128, 256};

class Bench {
 public:
  Bench(Lm& lm, const CostSettings& s) : lm_(lm), s_(s) {}

  Status fill() {
    lay_out(0, s_.visible, Want::kNothing);
    return lm_.forward({rows_, spans_}, out_);
  }
  Result<double> once(int32_t n) {
    SLIP_TRY_(check_interrupt());
    lay_out(s_.visible, n, s_.want);
    const auto begin = Clock::now();
    SLIP_TRY_(lm_.forward({rows_, spans_}, out_));
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

 private:
  void lay_out(int32_t first, int32_t n, Want want) {
    rows_.clear();
    spans_.clear();
    for (int32_t i = first; i < first + n; ++i) {
      spans_.push_back({0, i + 1});
      rows_.push_back(
          {TokenId{(i * 7 + 1) % lm_.info().vocab}, Position::text(i), i, static_cast<uint32_t>(spans_.size() - 1), 1, want});
    }
  }
  Lm& lm_;
  const CostSettings& s_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  PassOutput out_;
};

}  // namespace

Result<CostTable> measure_costs(Lm& lm, const CostSettings& s) {
  if (s.visible < 1 || s.most_rows < 1)
    return usage_error("width: expected at least 1 visible key and 1 row, got {} and {}", s.visible, s.most_rows);
  if (lm.info().slots < s.visible + s.most_rows)
    return resource_error("width: expected an arena of at least {} slots, got {}", s.visible + s.most_rows, lm.info().slots);
  Bench bench(lm, s);
  if (s.fill) SLIP_TRY_(bench.fill());
  SLIP_TRY_(bench.once(1));
  SLIP_TRY(const double one, bench.once(1));
  // A pass over few rows costs what reading the weights costs. Where that alone spends the budget, fewer points.
  const bool slow = one * static_cast<double>(kRows.size()) * 2 > s.budget_ms;
  const std::span<const int32_t> points = slow ? std::span<const int32_t>(kFewRows) : std::span<const int32_t>(kRows);
  std::vector<int32_t> rows;
  for (const int32_t n : points)
    if (n <= s.most_rows) rows.push_back(n);
  if (rows.back() != s.most_rows) rows.push_back(s.most_rows);
  std::vector<std::vector<double>> times(rows.size());
  const auto begin = Clock::now();
  do {
    for (size_t i = 0; i < rows.size(); ++i) {
      SLIP_TRY(const double ms, bench.once(rows[i]));
      times[i].push_back(std::max(ms, 1e-6));
    }
  } while (std::chrono::duration<double, std::milli>(Clock::now() - begin).count() < s.budget_ms);
  std::vector<double> medians;
  for (auto& t : times) {
    const auto middle = t.begin() + static_cast<ptrdiff_t>(t.size() / 2);
    std::nth_element(t.begin(), middle, t.end());
    medians.push_back(*middle);
  }
  return CostTable::make(std::move(rows), std::move(medians), "width: measured costs");
}

}  // namespace slip
