// SPDX-License-Identifier: Apache-2.0
// Calibration: what a model of draft lengths is made of, gathered from answers. Any exact decoder will do as a source: draws are tested in
// order, so that a test's outcome given the earlier ones is what survival asks for. Wide fixed windows see the most.
//
//   DraftLengthCollector c(&form);
//   for each request { c.begin(drive number); context.draft_length_observer = &c; decode; c.answered(answer); }
//   Calibration k = *c.finish();   // k.ece on the drives that were held out
#pragma once
#include <cstdint>
#include <vector>

#include "decode/draft_length/model.h"
#include "decode/draft_length/observer.h"
#include "decode/types/method.h"
#include "decode/types/options.h"
#include "decode/types/result.h"

namespace slip {

struct Calibration {
  Survival survival;  // of all that was seen
  Lengths lengths;
  double ece = 0;  // of one half's survival on the other half
  int64_t tested = 0, held_out = 0;
};

/// What a file keeps of it (model_file.h), made by a method with passes of such costs; null: free text. Model, machine and visible keys are the caller's.
DraftLengthModel model_of(Calibration calibration, CostTable costs, const Form* form, const Method& method);

class DraftLengthCollector : public DraftLengthObserver {
 public:
  /// Null: free text.
  explicit DraftLengthCollector(const Form* form);
  /// A request of a drive begins. Drives with odd numbers are the held-out half: frames of one drive are alike and never split.
  void begin(int64_t drive);
  void seen(const DraftFacts& facts, const Place& place, bool kept) override;
  void answered(const Decoded& answer);
  /// kBadInput where either half has fewer than `least` tested drafts.
  Result<Calibration> finish(int64_t least = 200) const;

 private:
  struct Seen {
    Survival::Cell cell;
    DraftFacts facts;
    bool kept, held_out;
  };
  std::vector<Seen> seen_;
  Survival survival_;
  Lengths lengths_;
  bool held_out_ = false;
};

/// Expected calibration error: mean over predictions of |mean prediction - share kept| in ten bins of equal width.
class CalibrationError {
 public:
  void add(double predicted, bool kept);
  double value() const;
  int64_t count() const { return count_; }

 private:
  struct Bin {
    double predicted = 0;
    int64_t kept = 0, n = 0;
  };
  std::array<Bin, 10> bins_{};
  int64_t count_ = 0;
};

}  // namespace slip
