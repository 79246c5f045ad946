// SPDX-License-Identifier: Apache-2.0
// The measured width of a graph whose drafts travel with the verifying passes (draft_ahead.cc, earlier answers): a draft is worth what it takes
// off the longest path, not that it holds.
//
// A field without drafts takes a pass per draw; every mask that holds saves it one, down to one pass. Which fields should be quicker is a
// project's time-cost tradeoff [Kelley 1961, "crashing"]: while it pays, cut the longest path by one pass where that takes the fewest
// masks: at some moment all critical fields that are then at work. A cut pays while its masks cost less than a pass
// without rows. What is left is the plan: passes per field. In each round strands that the plan's end waits for get masks; the
// others go on at a draw a pass, which costs nothing.
//
// Verifying a draft that holds costs nothing either: its row would come anyway. One that does not costs its row, and so do the rows behind
// it; they are cut where that outweighs the pass they may save, and children start on their parents' drafts by the same rule.
// Tests: LevelsWidth.*, tests/gates_exact_test.cc
#include <algorithm>
#include <cmath>
#include <limits>

#include "decode/known_law.h"
#include "decode/width_methods.h"
#include "decode/width_model.h"

namespace slip {
namespace {

constexpr int32_t kNoEnd = std::numeric_limits<int32_t>::max();
constexpr double kTie = 0.5;  // passes: paths that are so close to the longest one are shortened with it

/// A pass as a constant and a slope: the slope between 8 and 40 rows, where passes over a graph lie.
struct LinearCost {
  double pass = 0, row = 0;
  explicit LinearCost(const CostTable& t) {
    row = std::max(0.0, (t.ms(40) - t.ms(8)) / 32);
    pass = std::max(t.ms(8) - 8 * row, 0.0);
  }
};

class LevelsWidth : public WidthPolicy {
 public:
  LevelsWidth(const Method& m, const Form& form, const WidthModel& model, const DecodeOptions& o)
      : form_(form),
        model_(model),
        tracker_(o.width_tracker ? *o.width_tracker : own_),
        law_of_(known_law(form)),
        law_(*law_of_),
        cost_(model.pass),
        stored_(std::holds_alternative<PreviousDrafter>(m.drafter)),
        chooses_(!std::holds_alternative<RejectionVerifier>(m.verifier)),
        chain_(static_cast<size_t>(form.fields().size()), 1) {
    make_plan();
  }

  void open_all(std::span<Strand* const> strands) override {
    std::fill(chain_.begin(), chain_.end(), 1.0F);
    fields_.clear();
    for (Strand* s : strands) {
      open_window(*s);
      fields_.push_back(s->field);
    }
  }
  void open(Strand& s) override {
    open_window(s);
    double holds = held(s.field);
    // What an earlier answer says of it is as long as such fields are.
    const int32_t draws = static_cast<int32_t>(std::lround(draws_from(s.field, 0)));
    for (int32_t i = 0; i < draws; ++i) holds *= kept_before(s.field, i, i);
    chain_[static_cast<size_t>(s.field)] = static_cast<float>(holds);
  }
  bool starts(const Strand& s) override {
    if (tracker_.drifted()) return true;
    const double holds = held(s.field), rows = stored_ ? draws_[field(&s)] : 1;
    return holds * cost_.pass >= (1 - holds) * rows * cost_.row;
  }
  bool chooses() const override { return chooses_; }  // not where drafts are drawn (width.h)
  bool wants_facts() const override { return true; }

  void choose(std::span<const std::span<const DraftFacts>> facts, std::span<int32_t> keep) override {
    for (size_t i = 0; i < facts.size(); ++i) {
      double holds = 1;
      int32_t n = 0;
      for (const DraftFacts& f : facts[i]) {
        const double next = holds * (f.sure ? 1 : kept(f));
        if (!tracker_.drifted() && next * cost_.pass < (1 - next) * cost_.row) break;
        holds = next;
        ++n;
      }
      keep[i] = n;
      chain_[static_cast<size_t>(fields_[i])] = static_cast<float>(holds);
    }
  }

  void lay_masks(std::span<Strand* const> strands) override {
    double target = 0;
    beside_.assign(chain_.size(), 0);
    for (const Strand* s : strands) ++beside_[field(s)];
    for (const Strand* s : strands) target = std::max(target, behind_[field(s)] + std::max(0.0, planned(*s) - 1));
    for (Strand* s : strands) {
      s->masks = 0;
      if (!s->has_next) continue;
      if (tracker_.drifted()) {
        s->masks = model_.static_width - 1;
        continue;
      }
      const double left = draws_from(s->field, s->next_place.index) - 1;  // behind this pass, without drafts
      const double masks = left + behind_[field(s)] - target;
      const double holds = chain_[field(s)] * held(s->field);
      if (masks < kTie || holds * cost_.pass < cost_.row) continue;
      // Rollouts that have parted: a mask for each, and the pass is saved only where all of them hold.
      const int32_t n = beside_[field(s)];
      if (n > 1 && std::pow(holds * kept_before(s->field, 1, 1), n) * cost_.pass < n * cost_.row) continue;
      s->masks = std::min({static_cast<int32_t>(std::lround(masks)), static_cast<int32_t>(std::lround(left)), model_.most_draws});
    }
  }

  void seen(const DraftFacts& f, bool was_kept) override { tracker_.seen(f.place.field, kept(f), was_kept); }

 private:
  static size_t field(const Strand* s) { return static_cast<size_t>(s->field); }
  void open_window(Strand& s) const { s.window_draws = s.window_end = kNoEnd; }
  double kept(const DraftFacts& f) const { return tracker_.corrected(f.place.field, model_.survival.kept(f)); }
  double kept_before(int32_t f, int32_t ahead, int32_t index) const {
    return tracker_.corrected(f, model_.survival.kept_before(f, ahead, index));
  }
  /// How likely all that the field's parents are drafted to holds.
  double held(int32_t f) const {
    double holds = 1;
    for (const int32_t q : form_.fields()[static_cast<size_t>(f)].parents)
      holds *= static_cast<double>(chain_[static_cast<size_t>(q)]);
    return holds;
  }
  double draws_from(int32_t f, int32_t i) const {
    const Field& x = form_.fields()[static_cast<size_t>(f)];
    if (!x.end) return x.budget - i;
    const double content = model_.lengths.mean(f, i, x.budget);
    return std::max(1.0, std::min<double>(content + 1, x.budget) - i);
  }
  /// Passes that the plan gives what is left of a strand, this one included.
  double planned(const Strand& s) const {
    if (!s.has_next) return 1;
    const size_t f = field(&s);
    return std::max(1.0, plan_[f] * draws_from(s.field, s.next_place.index) / draws_[f]);
  }

  void make_plan() {
    const auto n = form_.fields().size();
    draws_.resize(n);
    price_.resize(n);
    for (size_t f = 0; f < n; ++f) {
      draws_[f] = draws_from(static_cast<int32_t>(f), 0);
      price_[f] = cost_.row / std::max(0.1, kept_before(static_cast<int32_t>(f), 1, 1));
    }
    plan_ = draws_;
    starts_.resize(n);
    behind_.resize(n);
    const auto rounds = static_cast<int32_t>(16 * n);
    for (int32_t i = 0; i < rounds && shorten(); ++i) {
    }
    lay_times();
  }
  double lay_times() {
    double longest = 0;
    for (const int32_t f : law_.order()) {
      double& start = starts_[static_cast<size_t>(f)];
      start = 0;
      for (const int32_t q : form_.fields()[static_cast<size_t>(f)].parents)
        start = std::max(start, starts_[static_cast<size_t>(q)] + plan_[static_cast<size_t>(q)]);
      longest = std::max(longest, start + plan_[static_cast<size_t>(f)]);
    }
    for (size_t k = law_.order().size(); k-- > 0;) {
      const int32_t f = law_.order()[k];
      double& behind = behind_[static_cast<size_t>(f)];
      behind = 0;
      for (const int32_t c : law_.children(f))
        behind = std::max(behind, plan_[static_cast<size_t>(c)] + behind_[static_cast<size_t>(c)]);
    }
    return longest;
  }
  /// Cuts the longest path by a pass at its cheapest moment; false where no cut pays.
  bool shorten() {
    const double longest = lay_times();
    critical_.clear();
    for (size_t f = 0; f < plan_.size(); ++f)
      if (starts_[f] + plan_[f] + behind_[f] > longest - kTie) critical_.push_back(f);
    double least = cost_.pass, at = -1;
    for (const size_t moment : critical_) {
      double cost = 0;
      for (const size_t f : critical_) {
        if (starts_[f] > starts_[moment] || starts_[f] + plan_[f] <= starts_[moment]) continue;
        cost += plan_[f] > 1 + kTie ? price_[f] : 2 * cost_.pass;
        if (cost >= least) break;
      }
      if (cost >= least) continue;
      least = cost;
      at = starts_[moment];
    }
    if (at < 0) return false;
    for (const size_t f : critical_)
      if (starts_[f] <= at && starts_[f] + plan_[f] > at) plan_[f] = std::max(1.0, plan_[f] - 1);
    return true;
  }

  const Form& form_;
  const WidthModel& model_;
  WidthTracker own_;
  WidthTracker& tracker_;
  std::shared_ptr<const GraphLaw> law_of_;
  const GraphLaw& law_;
  LinearCost cost_;
  bool stored_, chooses_;                 // stored: drafts are an earlier answer's, as long as the field
  std::vector<float> chain_;              // by field: how likely its drafts of this round hold, those of its open parents included
  std::vector<int32_t> fields_, beside_;  // beside: strands of each field in this round
  std::vector<double> draws_, plan_, starts_, behind_;  // by field, in passes
  std::vector<double> price_;                           // of a mask that holds, in milliseconds
  std::vector<size_t> critical_;
};

}  // namespace

std::unique_ptr<WidthPolicy> make_levels_width(const Method& method, const Form& form, const WidthModel& model,
                                               const DecodeOptions& options) {
  return std::make_unique<LevelsWidth>(method, form, model, options);
}

}  // namespace slip
