// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/collect.h"

#include <algorithm>
#include <cmath>

#include "decode/draft_length/model_file.h"

namespace slip {
namespace {

std::vector<int32_t> budgets_of(const Form* form) {
  std::vector<int32_t> b;
  if (form)
    for (const Field& f : form->fields()) b.push_back(f.budget);
  return b;
}

}  // namespace

void CalibrationError::add(double predicted, bool kept) {
  Bin& b = bins_[static_cast<size_t>(std::clamp(static_cast<int>(predicted * 10), 0, 9))];
  b.predicted += predicted;
  b.kept += kept;
  ++b.n;
  ++count_;
}

double CalibrationError::value() const {
  double sum = 0;
  for (const Bin& b : bins_) sum += std::abs(b.predicted - static_cast<double>(b.kept));
  return count_ > 0 ? sum / static_cast<double>(count_) : 0;
}

DraftLengthCollector::DraftLengthCollector(const Form* form)
    : survival_(form ? static_cast<int32_t>(form->fields().size()) : 0), lengths_(budgets_of(form)) {}

void DraftLengthCollector::begin(int64_t drive) { held_out_ = drive % 2 != 0; }

void DraftLengthCollector::seen(const DraftFacts& facts, const Place&, bool kept) {
  seen_.push_back({survival_.cell(facts), facts, kept, held_out_});
}

void DraftLengthCollector::answered(const Decoded& answer) {
  for (size_t f = 0; f < answer.fields.size() && f < static_cast<size_t>(lengths_.fields()); ++f)
    lengths_.add(static_cast<int32_t>(f), static_cast<int32_t>(answer.fields[f].size()));
}

Result<Calibration> DraftLengthCollector::finish(int64_t least) const {
  Calibration c{.survival = survival_, .lengths = lengths_};
  Survival half = survival_;
  for (const Seen& s : seen_) {
    c.survival.add(s.cell, {s.kept, 1});
    ++c.tested;
    if (s.held_out)
      ++c.held_out;
    else
      half.add(s.cell, {s.kept, 1});
  }
  if (std::min(c.held_out, c.tested - c.held_out) < least)
    return bad_input("calibrate: expected at least {} tested drafts in requests of odd and of even number, got {} and {}", least,
                     c.held_out, c.tested - c.held_out);
  c.survival.fit();
  half.fit();
  CalibrationError error;
  for (const Seen& s : seen_)
    if (s.held_out) error.add(half.kept(s.facts), s.kept);
  c.ece = error.value();
  return c;
}

DraftLengthModel model_of(Calibration calibration, CostTable costs, const Form* form, const Method& method) {
  constexpr int32_t kUsual = 32;
  DraftLengthModel out = DraftLengthModel::uninformed(std::move(costs), form);
  out.drafter = words_of(method).drafter;
  out.survival = std::move(calibration.survival);
  if (form) out.lengths = std::move(calibration.lengths);
  out.ece = calibration.ece;
  const bool fixed = method.draft_length.kind == DraftLengthSpec::Kind::kFixed;
  out.most_drafts = fixed ? std::min(method.draft_length.tokens, kMostDraftsKept) : kUsual;
  return out;
}

}  // namespace slip
