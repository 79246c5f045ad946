// SPDX-License-Identifier: Apache-2.0
// The measured draft length of a graph whose drafts travel with the verifying passes (draft/ahead.cc, earlier answers): a draft is worth what it takes
// off the longest path, not that it holds.
//
// The plan says how many passes each field gets (plan.h). In each round strands that its end waits for get masks; the
// others go on at a draw a pass, which costs nothing.
//
// Verifying a draft that holds costs nothing either: its row would come anyway. One that does not costs its row, and so do the rows behind
// it; they are cut where that outweighs the pass they may save, and children start on their parents' drafts by the same rule.
//
// Where an earlier answer drafts, a child starts with all that its field said then. Fields are told apart by their level, the longest way
// behind them. Starting those of a level saves a pass only where every field of the levels before them ends in this pass, and only
// together, so they start where that pass, times its odds, outweighs all rows that they may lose. A pass of many rows waits for
// arithmetic and one of few for memory: a row more is priced in the pass that it joins, and the pass that is saved has the level's rows.
// Tests: LevelsDraftLength.*, tests/decode/gates_exact_test.cc
#include <algorithm>
#include <cmath>

#include "decode/draft_length/methods.h"
#include "decode/draft_length/model.h"
#include "decode/draft_length/plan.h"
#include "decode/sequence/known_visibility.h"

namespace slip {
namespace {

constexpr double kOneMask = 0.5;  // masks: fewer are none

/// A pass as a constant and a slope: the slope between 8 and 40 rows, where passes over a graph lie.
struct LinearCost {
  double pass = 0, row = 0;
  explicit LinearCost(const CostTable& t) {
    row = std::max(0.0, (t.ms(40) - t.ms(8)) / 32);
    pass = std::max(t.ms(8) - 8 * row, 0.0);
  }
};

class LevelsDraftLength : public DraftLengthPolicy {
 public:
  LevelsDraftLength(const Method& m, const Form& form, const DraftLengthModel& model, const DraftLengthBasis& basis)
      : form_(form),
        model_(model),
        tracker_(basis.tracker ? *basis.tracker : own_),
        visibility_of_(known_visibility(form)),
        visibility_(*visibility_of_),
        cost_(model.pass),
        table_(model.pass),
        stored_(std::holds_alternative<PreviousSpec>(m.drafter)),
        chooses_(!std::holds_alternative<RejectionSpec>(m.verifier)),
        chain_(static_cast<size_t>(form.fields().size()), 1) {
    make_plan();
  }

  void open_all(DraftViews strands) override {
    std::fill(chain_.begin(), chain_.end(), 1.0F);
    fields_.clear();
    views_.clear();
    starts_.clear();
    for (DraftView s : strands) {
      s.set_window(kNoEnd, kNoEnd);
      fields_.push_back(*s.field());
      views_.push_back(s);
    }
  }
  void open(DraftView s) override {
    s.set_window(kNoEnd, kNoEnd);
    const int32_t f = *s.field();
    chain_[static_cast<size_t>(f)] = static_cast<float>(held(f) * repeats(f));
  }
  bool starts(int32_t f) override {
    if (drifted()) return true;
    if (!stored_) {
      const double holds = held(f);
      return holds * cost_.pass >= (1 - holds) * cost_.row;
    }
    if (starts_.empty()) plan_starts();
    return starts_[static_cast<size_t>(f)] != 0;
  }
  bool chooses() const override { return chooses_; }  // not where drafts are drawn (policy.h)
  bool wants_facts() const override { return true; }

  void choose(std::span<const std::span<const DraftFacts>> facts, std::span<int32_t> keep) override {
    for (size_t i = 0; i < facts.size(); ++i) {
      double holds = 1;
      int32_t n = 0;
      for (const DraftFacts& f : facts[i]) {
        const double next = holds * (f.sure ? 1 : kept(f));
        if (!drifted() && next * cost_.pass < (1 - next) * cost_.row) break;
        holds = next;
        ++n;
      }
      keep[i] = n;
      chain_[static_cast<size_t>(fields_[i])] = static_cast<float>(holds);
    }
  }

  void lay_masks(DraftViews strands) override {
    double target = 0;
    beside_.assign(chain_.size(), 0);
    for (const DraftView s : strands) ++beside_[static_cast<size_t>(*s.field())];
    for (const DraftView s : strands) target = std::max(target, plan_.behind(*s.field()) + std::max(0.0, planned(s) - 1));
    for (DraftView s : strands) s.set_masks(masks_of(s, target));
  }

  void seen(const DraftFacts& f, bool was_kept) override { tracker_.seen(f.field, kept(f), was_kept); }

 private:
  /// Masks of a strand where the passes behind this one shall be `target`.
  int32_t masks_of(DraftView s, double target) const {
    if (!s.next_index()) return 0;
    if (drifted()) return model_.static_draft_length - 1;
    const int32_t f = *s.field();
    const double left = draws_from(f, *s.next_index()) - 1;  // behind this pass, without drafts
    const double masks = left + plan_.behind(f) - target;
    const double holds = chain_[static_cast<size_t>(f)] * held(f);
    if (masks < kOneMask || holds * cost_.pass < cost_.row) return 0;
    // Rollouts that have forked: a mask for each, and the pass is saved only where all of them hold.
    const int32_t n = beside_[static_cast<size_t>(f)];
    if (n > 1 && std::pow(holds * kept_before(f, 1, 1), n) * cost_.pass < n * cost_.row) return 0;
    return std::min({static_cast<int32_t>(std::lround(masks)), static_cast<int32_t>(std::lround(left)), model_.most_drafts});
  }
  /// What an earlier answer said does not hold as often as the model's own drafts, whose calibration this is: that is no drift. Drafts that
  /// the model makes where the earlier answer has ended go without the watch, too.
  bool drifted() const { return !stored_ && tracker_.drifted(); }
  double kept(const DraftFacts& f) const { return tracker_.corrected(f.field, model_.survival.kept(f)); }
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
  /// How likely all drafts of a field hold once its parents' do.
  double repeats(int32_t f) const {
    if (stored_) return model_.repeats_of(f);  // calibrated are the model's own drafts
    const auto draws = static_cast<int32_t>(std::lround(draws_from(f, 0)));
    double holds = 1;
    for (int32_t i = 0; i < draws; ++i) holds *= kept_before(f, i, i);
    return holds;
  }

  /// Which children start in this round, level by level from the first.
  void plan_starts() {
    const size_t n = form_.fields().size();
    starts_.assign(n, 0);
    ends_.assign(n, 1);  // odds that a field ends in this pass once its parents do; of those that have, 1
    waits_.assign(n, 0);
    std::vector<uint8_t> open(n, 0);
    for (size_t i = 0; i < views_.size(); ++i) {
      const auto f = static_cast<size_t>(fields_[i]);
      open[f] = 1;
      ends_[f] =
          !views_[i].drafted_to_end() ? 0 : std::min({ends_[f], static_cast<double>(chain_[f]), model_.repeats_of(fields_[i])});
    }
    for (const int32_t f : visibility_.order()) {
      const auto& parents = form_.fields()[static_cast<size_t>(f)].parents;
      const auto under_way = [&](int32_t q) { return open[static_cast<size_t>(q)] || waits_[static_cast<size_t>(q)]; };
      waits_[static_cast<size_t>(f)] = !open[static_cast<size_t>(f)] && std::any_of(parents.begin(), parents.end(), under_way);
      if (waits_[static_cast<size_t>(f)]) ends_[static_cast<size_t>(f)] = repeats(f);
    }
    double all = 1;    // odds that every field of the levels so far ends in this pass
    int32_t rows = 0;  // of this pass so far
    for (const DraftView v : views_) rows += std::max(1, v.rows() - v.cached());
    for (auto begin = by_level_.begin(); begin != by_level_.end();) {
      const int32_t level = level_[static_cast<size_t>(*begin)];
      const auto end = std::find_if(begin, by_level_.end(), [&](int32_t f) { return level_[static_cast<size_t>(f)] != level; });
      double own = 0, lost = 0, these = 1;
      for (auto f = begin; f != end; ++f) {
        these *= ends_[static_cast<size_t>(*f)];
        if (!waits_[static_cast<size_t>(*f)]) continue;
        own += draws_[static_cast<size_t>(*f)];
        lost += (1 - ancestors_end(*f)) * draws_[static_cast<size_t>(*f)];
      }
      if (!pays(rows, own, lost, all)) return;
      rows += static_cast<int32_t>(std::lround(own));
      for (auto f = begin; f != end; ++f) starts_[static_cast<size_t>(*f)] = waits_[static_cast<size_t>(*f)];
      all *= these;
      begin = end;
    }
  }
  /// Do `own` rows pay, of which `lost` are run in vain, in a pass that has `rows` others? With odds `all` they save the pass that would
  /// run them: all (C(own) - own s) >= lost s, where a row more costs s = (C(rows + own) - C(rows)) / own here.
  bool pays(int32_t rows, double own, double lost, double all) const {
    if (own <= 0) return true;
    const auto n = std::max(1, static_cast<int32_t>(std::lround(own)));
    const double row = std::max(0.0, table_.ms(rows + n) - table_.ms(rows)) / n;
    return all * std::max(0.0, table_.ms(n) - n * row) >= lost * row;
  }
  double ancestors_end(int32_t f) const {
    double holds = 1;
    for (const int32_t a : visibility_.ancestors(f)) holds *= ends_[static_cast<size_t>(a)];
    return holds;
  }

  double draws_from(int32_t f, int32_t i) const { return model_.draws_from(form_.fields()[static_cast<size_t>(f)], f, i); }
  /// Passes that the plan gives what is left of a strand, this one included.
  double planned(DraftView s) const {
    if (!s.next_index()) return 1;
    const int32_t f = *s.field();
    return std::max(1.0, plan_.passes(f) * draws_from(f, *s.next_index()) / draws_[static_cast<size_t>(f)]);
  }

  void make_plan() {
    const auto n = form_.fields().size();
    std::vector<double> price_F(n);
    draws_.resize(n);
    for (size_t f = 0; f < n; ++f) {
      draws_[f] = draws_from(static_cast<int32_t>(f), 0);
      price_F[f] = cost_.row / std::max(0.1, kept_before(static_cast<int32_t>(f), 1, 1));
    }
    plan_.make(form_.fields(), visibility_.order(), draws_, price_F, cost_.pass);
    level_.assign(n, 0);
    const auto order = visibility_.order();
    for (size_t k = n; k-- > 0;)
      for (const int32_t q : form_.fields()[static_cast<size_t>(order[k])].parents)
        level_[static_cast<size_t>(q)] = std::max(level_[static_cast<size_t>(q)], level_[static_cast<size_t>(order[k])] + 1);
    by_level_.assign(order.begin(), order.end());
    std::stable_sort(by_level_.begin(), by_level_.end(),
                     [&](int32_t a, int32_t b) { return level_[static_cast<size_t>(a)] > level_[static_cast<size_t>(b)]; });
  }

  const Form& form_;
  const DraftLengthModel& model_;
  DraftLengthTracker own_;
  DraftLengthTracker& tracker_;
  std::shared_ptr<const GraphVisibility> visibility_of_;
  const GraphVisibility& visibility_;
  LinearCost cost_;
  const CostTable& table_;
  bool stored_, chooses_;                  // stored: drafts are an earlier answer's, as long as the field
  std::vector<float> chain_;               // by field: how likely its drafts of this round hold, those of its open parents included
  std::vector<int32_t> fields_, beside_;   // beside: strands of each field in this round
  std::vector<DraftView> views_;           // of the round
  std::vector<double> draws_;              // by field, in passes
  std::vector<int32_t> level_, by_level_;  // by field: the longest way behind it, in fields; fields by that, the longest first
  std::vector<double> ends_;               // of plan_starts, by field
  std::vector<uint8_t> starts_, waits_;
  LevelsPlan plan_;
};

}  // namespace

std::unique_ptr<DraftLengthPolicy> make_levels_draft_length(const Method& method, const Form& form, const DraftLengthModel& model,
                                                            const DraftLengthBasis& basis) {
  return std::make_unique<LevelsDraftLength>(method, form, model, basis);
}

}  // namespace slip
