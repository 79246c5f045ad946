// SPDX-License-Identifier: Apache-2.0
// What a measured draft length knows: what passes cost on this machine, how likely drafts hold, how long fields get. None of it can change
// an exact answer, only its time. model_file.h keeps it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "decode/draft_length/costs.h"
#include "decode/sequence/draft_view.h"

namespace slip {

/// The row of a field in tables whose first row is that of free text.
constexpr int32_t row_of_field(std::optional<int32_t> field) { return field ? *field + 1 : 0; }

/// How often drafts hold, given that those before them held: by field, draws ahead, index in the field and the draft's top probability.
/// A cell with few tests leans on the cell above it: field without index, field and top alone, all fields.
class Survival {
 public:
  static constexpr int32_t kAhead = 8, kIndex = 4, kTop = 6;
  struct Cell {
    std::optional<int32_t> field;  // none: free text, or any
    int32_t ahead = 0, index = 0, top = 0;
    bool operator==(const Cell&) const = default;
  };
  struct Count {
    int64_t kept = 0, tested = 0;
    bool operator==(const Count&) const = default;
  };
  explicit Survival(int32_t fields = 0);
  int32_t fields() const { return fields_; }
  Cell cell(const DraftFacts& facts) const;
  void add(const Cell& cell, Count more);
  Count count(const Cell& cell) const { return counts_[at(cell)]; }
  /// Call after the last add.
  void fit();
  double kept(const DraftFacts& facts) const { return table_[at(cell(facts))]; }
  /// Before the draft is there: the mean over tops as they came.
  double kept_before(std::optional<int32_t> field, int32_t ahead, int32_t index) const;
  template <class F>
  void for_each(F&& f) const {
    for (int32_t row = 0; row <= fields_; ++row)
      for (int32_t a = 0; a < kAhead; ++a)
        for (int32_t i = 0; i < kIndex; ++i)
          for (int32_t t = 0; t < kTop; ++t)
            if (const Cell c{row > 0 ? std::optional(row - 1) : std::nullopt, a, i, t}; count(c).tested > 0) f(c, count(c));
  }

 private:
  static size_t at(int32_t row, int32_t ahead, int32_t index, int32_t top) {
    return static_cast<size_t>(((row * kAhead + ahead) * kIndex + index) * kTop + top);
  }
  static size_t at(const Cell& c) { return at(row_of_field(c.field), c.ahead, c.index, c.top); }
  /// A field that was not measured counts as none.
  std::optional<int32_t> known(std::optional<int32_t> field) const { return field && *field < fields_ ? field : std::nullopt; }
  int32_t fields_ = 0;
  std::vector<Count> counts_;
  std::vector<float> table_, before_;
};

/// How long fields' contents were.
class Lengths {
 public:
  explicit Lengths(std::span<const int32_t> budgets = {});
  void add(int32_t field, int32_t content, int64_t times = 1);
  std::span<const int64_t> counts(int32_t field) const { return counts_[static_cast<size_t>(field)]; }
  int32_t fields() const { return static_cast<int32_t>(counts_.size()); }
  /// P(content of at least `length` | at least `known`). 1 where nothing was seen.
  double at_least(int32_t field, int32_t length, int32_t known) const;
  /// Mean content, given at least `known`; `otherwise` where nothing was seen.
  double mean(int32_t field, int32_t known, double otherwise) const;

 private:
  std::vector<std::vector<int64_t>> counts_;
};

/// Chance that a field says what it said half a second before where all of its parents do, and where not: 240 frames of models/demo-cot
/// (docs/lab/0021-auto.md).
inline constexpr double kRepeats = 0.88, kRepeatsBehindOthers = 0.45;
struct Persistence {
  double with_parents = kRepeats, behind_others = kRepeatsBehindOthers;
};

struct DraftLengthModel {
  std::string model, form, drafter, machine;  // what it was measured with; form empty: free text, or none in particular
  std::vector<std::string> fields;            // names, in the form's order
  int32_t visible = 0;                        // keys that a row saw
  CostTable pass;                             // of the big model
  CostTable draft;                            // of a second model (one step) or a head (a round); empty for other drafters
  Survival survival;
  Lengths lengths;
  int32_t most_drafts = 32;         // of a strand in a round; what the drafter was trained for
  int32_t static_draft_length = 8;  // where the drive has left the calibration
  double repeats = kRepeats;        // chance that a field says what an earlier answer did if its parents do; in no file
  std::vector<double> repeats_F;    // the same field by field, as answers have shown it; empty: `repeats` for all
  double ece = 0;                   // on requests that were held out; 0: not measured

  double repeats_of(int32_t field) const {
    const auto f = static_cast<size_t>(field);
    return f < repeats_F.size() ? repeats_F[f] : repeats;
  }
  /// Draws that a field still has, on average, at index i: its content and, where it is not full, END.
  double draws_from(const Field& field, int32_t number, int32_t i) const;
  /// No calibration: every draft holds with probability .7, fields run to their budgets. Learns from the answers (DraftLengthTracker).
  static DraftLengthModel uninformed(CostTable pass, const Form* form);
};

/// kBadInput unless it is one for this form (null: free text). One without a form fits all.
Status check_draft_length_model(const DraftLengthModel& model, const Form* form);

/// Follows the drive: per field a correction of the calibrated odds, and whether prediction and sight have parted. Kept by the caller
/// from answer to answer; one thread at a time.
class DraftLengthTracker {
 public:
  /// Steps of .05 in log-odds per draw and unit of surprise: half of an error of the calibration is gone after some 70 draws, and
  /// the correction's own noise is about .03 in probability. Over 256 draws the mean's standard error is at most .031: .1 is
  /// more than three of it.
  struct Settings {
    double rate = 0.05;
    int32_t window = 256;
    double drifted_above = 0.1, back_below = 0.05;
  };
  DraftLengthTracker();
  explicit DraftLengthTracker(Settings settings);
  double corrected(std::optional<int32_t> field, double kept) const {
    const auto f = static_cast<size_t>(row_of_field(field));
    if (f >= odds_.size()) return kept;
    return kept * odds_[f] / (kept * odds_[f] + 1 - kept);
  }
  /// `predicted` is the corrected probability that was used.
  void seen(std::optional<int32_t> field, double predicted, bool kept);
  bool drifted() const { return drifted_; }

 private:
  Settings settings_;
  std::vector<double> log_odds_, odds_;  // by row_of_field
  std::vector<float> last_;              // ring: kept - predicted
  size_t next_ = 0;
  double sum_ = 0;
  bool drifted_ = false;
};

}  // namespace slip
