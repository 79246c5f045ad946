// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/costs.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "base/measure.h"

namespace slip {
namespace {

// Dense where stairs are (tiles of 4 and 8 rows, 16 for the matrix units), sparse behind.
constexpr std::array<int32_t, 24> kRows = {1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 17, 20, 24, 28, 32, 33, 40, 48, 56, 64, 96, 128, 256};
constexpr std::array<int32_t, 9> kFewRows = {1, 2, 4, 8, 16, 32, 64, 128, 256};

// A pass of few rows behind one of many finds the caches full of the other's numbers, and takes twice its time on a model that fits them
// (docs/lab/0022). Decoders run passes of few rows behind each other, so such a pass is run twice before it is timed.
constexpr double kCachedMs = 5;  // of one row; slower models come from memory either way
constexpr int32_t kFewest = 32;
constexpr int kWarm = 2;

/// Passes of a model, causal, behind `visible` keys.
class PassBench {
 public:
  PassBench(Lm& lm, const CostSettings& s) : lm_(lm), s_(s) {}

  Status fill() {
    lay_out(0, s_.visible, Want::kNothing);
    return lm_.forward({rows_, spans_}, out_);
  }
  Result<double> once(int32_t n) {
    lay_out(s_.visible, n, s_.want);
    const auto begin = Clock::now();
    SLIP_TRY_(lm_.forward({rows_, spans_}, out_));
    return ms_since(begin);
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

/// Rounds of a draft head: [anchor, mask, ...] as often as fits into n rows, behind `visible` stored rows.
class HeadBench {
 public:
  HeadBench(DraftHead& head, int32_t first_slot, const CostSettings& s)
      : head_(head),
        first_(first_slot),
        s_(s),
        taps_NE_(static_cast<size_t>(s.most_rows) * static_cast<size_t>(head.info().taps_width), 0.0F) {}

  Status fill() {
    for (int32_t i = 0; i < s_.visible; i += s_.most_rows) SLIP_TRY_(store(first_ + i, std::min(s_.most_rows, s_.visible - i)));
    return {};
  }
  Result<double> once(int32_t n) {
    lay_out(n);
    const auto begin = Clock::now();
    SLIP_TRY_(store(first_, n));
    SLIP_TRY_(head_.forward({rows_, spans_}, out_));
    return ms_since(begin);
  }

 private:
  Status store(int32_t first, int32_t n) {
    slots_.clear();
    for (int32_t i = 0; i < n; ++i) slots_.push_back(first + i);  // positions as slots
    const auto numbers = static_cast<size_t>(n) * static_cast<size_t>(head_.info().taps_width);
    return head_.store(slots_, slots_, std::span<const float>(taps_NE_).first(numbers));
  }
  void lay_out(int32_t n) {
    const DraftHeadInfo& info = head_.info();
    rows_.clear();
    spans_.clear();
    for (int32_t i = 0; i < n; ++i) {
      const bool anchor = i % info.block == 0;
      if (anchor) {
        spans_.push_back({first_, first_ + s_.visible});
        spans_.push_back({info.context_slots + i, info.context_slots + std::min(i + info.block, n)});
      }
      rows_.push_back({anchor ? TokenId{1 % info.vocab} : info.mask, Position::text(first_ + s_.visible + i),
                       info.context_slots + i, static_cast<uint32_t>(spans_.size() - 2), 2,
                       anchor ? Want::kNothing : Want::kLogits});
    }
  }
  DraftHead& head_;
  int32_t first_;
  const CostSettings& s_;
  std::vector<float> taps_NE_;
  std::vector<int32_t> slots_;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  PassOutput out_;
};

/// A pass over few rows costs what reading the weights costs. Where that alone spends the budget, fewer points.
std::vector<int32_t> points(double one_ms, const CostSettings& s) {
  const bool slow = one_ms * static_cast<double>(kRows.size()) * 2 > s.budget_ms;
  std::vector<int32_t> rows;
  for (const int32_t n : slow ? std::span<const int32_t>(kFewRows) : std::span<const int32_t>(kRows))
    if (n <= s.most_rows) rows.push_back(n);
  if (rows.back() != s.most_rows) rows.push_back(s.most_rows);
  return rows;
}

template <class B>
Status run(B& bench, const CostSettings& s, CostTimes& t) {
  int64_t done = 0;
  const auto wanted = [&] { return s.cancel.check("draft length", done, "measurements"); };
  if (!t.rows.empty() && t.rows.back() != s.most_rows) t = {};  // points of a shorter or longer measurement
  SLIP_TRY_(wanted());
  if (s.fill) SLIP_TRY_(bench.fill());
  SLIP_TRY_(bench.once(1));
  SLIP_TRY(const double one, bench.once(1));
  if (t.rows.empty()) {
    t.rows = points(one, s);
    t.ms.resize(t.rows.size());
  }
  bool first = true;
  do {
    for (; t.next < t.rows.size(); ++t.next, ++done) {
      if (!std::exchange(first, false)) SLIP_TRY_(wanted());
      const int32_t n = t.rows[t.next];
      for (int i = 0; i < kWarm && one < kCachedMs && n <= kFewest; ++i) {
        SLIP_TRY(const double warm, bench.once(n));
        t.spent_ms += warm;
      }
      SLIP_TRY(const double ms, bench.once(n));
      t.ms[t.next].push_back(std::max(ms, 1e-6));
      t.spent_ms += t.ms[t.next].back();
    }
    t.next = 0;
  } while (t.spent_ms < s.budget_ms);
  return {};
}

template <class B>
Result<CostTable> medians(B bench, const CostSettings& s) {
  CostTimes own;
  CostTimes& t = s.times ? *s.times : own;
  SLIP_TRY_(run(bench, s, t));
  std::vector<double> medians;
  for (const std::vector<double>& ms : t.ms) medians.push_back(median(ms));
  return CostTable::make(t.rows, std::move(medians), "draft length: measured costs");
}

Status check_settings(const CostSettings& s) {
  if (s.visible < 1 || s.most_rows < 1)
    return usage_error("draft length: expected at least 1 visible key and 1 row, got {} and {}", s.visible, s.most_rows);
  return {};
}

}  // namespace

Result<CostTable> CostTable::make(std::vector<int32_t> rows, std::vector<double> ms, std::string_view where) {
  if (rows.empty() || rows.size() != ms.size())
    return bad_input("{}: expected as many times as numbers of rows, at least 1, got {} and {}", where, ms.size(), rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] < 1 || rows[i] > 65536 || (i > 0 && rows[i] <= rows[i - 1]))
      return bad_input("{}: expected ascending numbers of rows from 1 to 65536, got {}", where, rows[i]);
    if (!(ms[i] > 0) || !std::isfinite(ms[i]))
      return bad_input("{}: expected milliseconds above 0, got {} for {} rows", where, ms[i], rows[i]);
  }
  CostTable t;
  t.dense_.resize(static_cast<size_t>(rows.back()) + 1, ms.front());
  for (size_t i = 1; i < rows.size(); ++i)
    for (int32_t n = rows[i - 1]; n <= rows[i]; ++n)
      t.dense_[static_cast<size_t>(n)] = ms[i - 1] + (ms[i] - ms[i - 1]) * (n - rows[i - 1]) / (rows[i] - rows[i - 1]);
  const int32_t last = rows.back(), half = last / 2;
  t.slope_ = std::max(0.0, (ms.back() - t.dense_[static_cast<size_t>(half)]) / (last - half));
  t.rows_ = std::move(rows);
  t.ms_ = std::move(ms);
  return t;
}

double CostTable::ms(int32_t rows) const {
  if (rows_.empty() || rows <= 0) return 0;
  if (rows <= rows_.back()) return dense_[static_cast<size_t>(rows)];
  return ms_.back() + slope_ * (rows - rows_.back());
}

Result<CostTable> measure_costs(Lm& lm, const CostSettings& s) {
  SLIP_TRY_(check_settings(s));
  if (lm.info().slots < s.visible + s.most_rows)
    return resource_error("draft length: expected an arena of at least {} slots, got {}", s.visible + s.most_rows, lm.info().slots);
  return medians(PassBench(lm, s), s);
}

Result<CostTable> measure_costs(DraftHead& head, int32_t first_slot, const CostSettings& s) {
  SLIP_TRY_(check_settings(s));
  const DraftHeadInfo& info = head.info();
  const int64_t slots = int64_t{first_slot} + std::max(s.visible, s.most_rows);
  if (info.context_slots < slots || info.block_slots < s.most_rows)
    return resource_error("draft length: draft head {}: expected an arena of at least {} slots and {} for blocks, got {} and {}",
                          info.name, slots, s.most_rows, info.context_slots, info.block_slots);
  return medians(HeadBench(head, first_slot, s), s);
}

}  // namespace slip
