// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/model.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/check.h"

namespace slip {
namespace {

constexpr std::array<int32_t, Survival::kAhead> kAheadFrom = {0, 1, 2, 3, 4, 6, 9, 15};
constexpr std::array<int32_t, Survival::kIndex> kIndexFrom = {0, 1, 2, 5};
constexpr std::array<float, Survival::kTop> kTopFrom = {0, 0.3F, 0.5F, 0.7F, 0.85F, 0.95F};

template <class T, size_t N>
int32_t bin(const std::array<T, N>& from, T x) {
  int32_t b = 0;
  for (size_t i = 1; i < N; ++i) b += x >= from[i];
  return b;
}

double logit(double p) { return std::log(p / (1 - p)); }
double of_logit(double x) { return 1 / (1 + std::exp(-x)); }

/// Tests that a parent's estimate weighs as much as.
constexpr double kLean = 12;
constexpr double kUninformed = 0.7;

double lean(Survival::Count c, double parent) {
  return (static_cast<double>(c.kept) + kLean * parent) / (static_cast<double>(c.tested) + kLean);
}

}  // namespace

Survival::Survival(int32_t fields) : fields_(fields), counts_(static_cast<size_t>((fields + 1) * kAhead * kIndex * kTop)) { fit(); }

Survival::Cell Survival::cell(const DraftFacts& f) const {
  return {known(f.field), bin(kAheadFrom, f.ahead), bin(kIndexFrom, f.index), bin(kTopFrom, f.top)};
}

void Survival::add(const Cell& c, Count more) {
  SLIP_CHECK(row_of_field(c.field) <= fields_ && c.ahead < kAhead && c.index < kIndex && c.top < kTop, "a cell of the table");
  Count& to = counts_[at(c)];
  to.kept += more.kept;
  to.tested += more.tested;
}

/// From the top down: all fields by top, moved by how the draws ahead and the index shift the odds of all; then the field's own.
void Survival::fit() {
  table_.assign(counts_.size(), 0);
  before_.assign(static_cast<size_t>((fields_ + 1) * kAhead * kIndex), 0);
  using One = std::optional<int32_t>;
  constexpr One kAll;
  const auto sum = [&](One row, One ahead, One index, One top) {
    Count s;
    for (int32_t r = row.value_or(0); r <= row.value_or(fields_); ++r)
      for (int32_t a = ahead.value_or(0); a <= ahead.value_or(kAhead - 1); ++a)
        for (int32_t i = index.value_or(0); i <= index.value_or(kIndex - 1); ++i)
          for (int32_t t = top.value_or(0); t <= top.value_or(kTop - 1); ++t) {
            s.kept += counts_[at(r, a, i, t)].kept;
            s.tested += counts_[at(r, a, i, t)].tested;
          }
    return s;
  };
  const Count everything = sum(kAll, kAll, kAll, kAll);
  const double all = lean(everything, kUninformed);
  std::array<double, kTop> by_top{}, share{};  // share: of the tests, as many as kLean
  std::array<std::array<double, kAhead>, kTop> shift{};
  for (int32_t t = 0; t < kTop; ++t) {
    const Count of_top = sum(kAll, kAll, kAll, t);
    by_top[static_cast<size_t>(t)] = lean(of_top, all);
    share[static_cast<size_t>(t)] =
        kLean * (static_cast<double>(of_top.tested) + 1) / (static_cast<double>(everything.tested) + kTop);
    for (int32_t a = 0; a < kAhead; ++a)
      shift[static_cast<size_t>(t)][static_cast<size_t>(a)] =
          logit(lean(sum(kAll, a, kAll, t), by_top[static_cast<size_t>(t)])) - logit(by_top[static_cast<size_t>(t)]);
  }
  for (int32_t r = 0; r <= fields_; ++r) {
    for (int32_t t = 0; t < kTop; ++t) {
      const double of_field = lean(sum(r, kAll, kAll, t), by_top[static_cast<size_t>(t)]);
      for (int32_t a = 0; a < kAhead; ++a) {
        const double moved = of_logit(logit(of_field) + shift[static_cast<size_t>(t)][static_cast<size_t>(a)]);
        const double ahead = lean(sum(r, a, kAll, t), moved);
        for (int32_t i = 0; i < kIndex; ++i) table_[at(r, a, i, t)] = static_cast<float>(lean(counts_[at(r, a, i, t)], ahead));
      }
    }
    for (int32_t i = 0; i < kIndex; ++i) {
      // How often each top came at this index (any draws ahead), and a small share of all fields' tops: an index without tests has those.
      std::array<double, kTop> w{};
      for (int32_t t = 0; t < kTop; ++t)
        w[static_cast<size_t>(t)] = static_cast<double>(sum(r, kAll, i, t).tested) + share[static_cast<size_t>(t)];
      for (int32_t a = 0; a < kAhead; ++a) {
        double weight = 0, mean = 0;
        for (int32_t t = 0; t < kTop; ++t) {
          weight += w[static_cast<size_t>(t)];
          mean += w[static_cast<size_t>(t)] * table_[at(r, a, i, t)];
        }
        before_[static_cast<size_t>((r * kAhead + a) * kIndex + i)] = static_cast<float>(mean / weight);
      }
    }
  }
}

double Survival::kept_before(std::optional<int32_t> field, int32_t ahead, int32_t index) const {
  return before_[static_cast<size_t>((row_of_field(known(field)) * kAhead + bin(kAheadFrom, ahead)) * kIndex +
                                     bin(kIndexFrom, index))];
}

Lengths::Lengths(std::span<const int32_t> budgets) {
  for (const int32_t b : budgets) counts_.emplace_back(static_cast<size_t>(b) + 1, 0);
}

void Lengths::add(int32_t field, int32_t content, int64_t times) {
  auto& c = counts_[static_cast<size_t>(field)];
  c[std::min(c.size() - 1, static_cast<size_t>(content))] += times;
}

double Lengths::at_least(int32_t field, int32_t length, int32_t known) const {
  if (length <= known || field >= fields()) return 1;
  double those = 0.5, all = 0.5;  // half an answer that runs to the end: nothing is ruled out by not having been seen
  const auto& c = counts_[static_cast<size_t>(field)];
  for (size_t n = static_cast<size_t>(known); n < c.size(); ++n) {
    all += static_cast<double>(c[n]);
    if (n >= static_cast<size_t>(length)) those += static_cast<double>(c[n]);
  }
  return those / all;
}

double Lengths::mean(int32_t field, int32_t known, double otherwise) const {
  if (field >= fields()) return otherwise;
  double sum = 0, all = 0;
  const auto& c = counts_[static_cast<size_t>(field)];
  for (size_t n = static_cast<size_t>(known); n < c.size(); ++n) {
    all += static_cast<double>(c[n]);
    sum += static_cast<double>(c[n]) * static_cast<double>(n);
  }
  return all > 0 ? sum / all : otherwise;
}

double DraftLengthModel::draws_from(const Field& field, int32_t number, int32_t i) const {
  if (!field.end) return field.budget - i;
  const double content = lengths.mean(number, i, field.budget);
  return std::max(1.0, std::min<double>(content + 1, field.budget) - i);
}

DraftLengthModel DraftLengthModel::uninformed(CostTable pass, const Form* form) {
  DraftLengthModel m;
  m.pass = std::move(pass);
  if (!form) return m;
  m.form = form->name();
  std::vector<int32_t> budgets;
  for (const Field& f : form->fields()) {
    m.fields.push_back(f.name);
    budgets.push_back(f.budget);
  }
  m.survival = Survival(static_cast<int32_t>(m.fields.size()));
  m.lengths = Lengths(budgets);
  return m;
}

Status check_draft_length_model(const DraftLengthModel& m, const Form* form) {
  if (m.pass.empty()) return bad_input("draft length model: expected what passes cost, got none");
  if (m.form.empty()) return {};
  if (!form) return bad_input("draft length model: expected one for free text, got one for form {}", m.form);
  if (m.form != form->name())
    return bad_input("draft length model: expected one for form {}, got one for {}", form->name(), m.form);
  bool same = m.fields.size() == form->fields().size() && m.survival.fields() == static_cast<int32_t>(m.fields.size()) &&
              m.lengths.fields() == m.survival.fields();
  for (size_t f = 0; same && f < m.fields.size(); ++f)
    same = m.fields[f] == form->fields()[f].name &&
           m.lengths.counts(static_cast<int32_t>(f)).size() == static_cast<size_t>(form->fields()[f].budget) + 1;
  if (!same)
    return bad_input("draft length model: expected the fields and budgets of form {} as it is now, got those of an earlier one",
                     m.form);
  return {};
}

DraftLengthTracker::DraftLengthTracker() : DraftLengthTracker(Settings{}) {}
DraftLengthTracker::DraftLengthTracker(Settings settings) : settings_(settings) {
  last_.reserve(static_cast<size_t>(settings.window));
}

void DraftLengthTracker::seen(std::optional<int32_t> field, double predicted, bool kept) {
  const auto f = static_cast<size_t>(row_of_field(field));
  if (f >= odds_.size()) {
    odds_.resize(f + 1, 1);
    log_odds_.resize(f + 1, 0);
  }
  const double surprise = (kept ? 1.0 : 0.0) - predicted;
  log_odds_[f] = std::clamp(log_odds_[f] + settings_.rate * surprise, -3.0, 3.0);
  odds_[f] = std::exp(log_odds_[f]);
  if (last_.size() < static_cast<size_t>(settings_.window)) {
    last_.push_back(static_cast<float>(surprise));
  } else {
    sum_ -= static_cast<double>(last_[next_]);
    last_[next_] = static_cast<float>(surprise);
    next_ = (next_ + 1) % last_.size();
  }
  sum_ += static_cast<double>(static_cast<float>(surprise));
  if (last_.size() < static_cast<size_t>(settings_.window)) return;
  const double gap = std::abs(sum_) / static_cast<double>(last_.size());
  drifted_ = gap > (drifted_ ? settings_.back_below : settings_.drifted_above);
}

}  // namespace slip
