// SPDX-License-Identifier: Apache-2.0
// The measured draft length: before the drafts, how far drafting is worth its own rows (lengths, survival before the draft is seen); after
// them, how many are worth verifying (survival given each draft's top probability). Both times the total with the most expected
// progress per millisecond of the whole round (choice.h).
//
// Progress is draws. Along a graph a draw counts by the way that is still to go from its field, relative to the longest of the
// round, to the power kUrgency: passes are saved where the longest path shortens (docs/lab/0004-widths.md has the alternatives).
#include <algorithm>
#include <cmath>

#include "decode/draft_length/choice.h"
#include "decode/draft_length/methods.h"
#include "decode/draft_length/model.h"
#include "decode/sequence/known_visibility.h"

namespace slip {
namespace {

/// Rows of a pass: beyond, tables are extrapolated and attention is no longer small.
constexpr int32_t kMostRows = 256;
/// A draw that is reached less often than this is not laid out where laying out costs anything.
constexpr float kNever = 1e-4F;
constexpr double kUrgency = 4;

class MeasuredDraftLength : public DraftLengthPolicy {
 public:
  MeasuredDraftLength(const Method& m, const Form* form, const DraftLengthModel& model, const DraftLengthBasis& basis)
      : model_(model),
        form_(form),
        tracker_(basis.tracker ? *basis.tracker : own_),
        chooses_(!std::holds_alternative<RejectionSpec>(m.verifier)),
        most_rows_(basis.most_rows > 0 ? basis.most_rows : kMostRows),
        company_(basis.company) {
    cost_.pass = &model.pass;
    if (m.diffusion()) {
      by_positions_ = true;
      stored_ = std::holds_alternative<PreviousSpec>(m.drafter);
      cost_.drafts = RoundCost::Drafts::kRows;
      cost_.draft = &model.pass;
    } else if (!model.draft.empty() && std::holds_alternative<ModelSpec>(m.drafter)) {
      cost_.drafts = RoundCost::Drafts::kSteps;
      cost_.draft = &model.draft;
    } else if (!model.draft.empty() && std::holds_alternative<DFlashSpec>(m.drafter)) {
      cost_.drafts = RoundCost::Drafts::kRows;
      cost_.draft = &model.draft;
    } else if (std::holds_alternative<QuadraticSpec>(m.drafter)) {
      group_ = m.draft_length.tokens;
    }
    if (form && basis.graph) lay_graph();
  }

  /// Opens a child that starts on its parents' drafts. Its drafts are not cut afterwards, so its window is what it adds to the round's
  /// rows. Its draws count only where the parents' drafts hold.
  void open(DraftView s) override {
    if (by_positions_) {  // its drafts would need a draft pass: it has none
      s.set_window(0, kNoEnd);
      return;
    }
    float held = 1;
    if (!weight_.empty())
      for (const int32_t q : form_->fields()[static_cast<size_t>(*s.field())].parents) held *= whole_[static_cast<size_t>(q)];
    values_.clear();
    ends_.clear();
    walk(s, held * weight_of(s.field()));
    strands_.assign(1, {values_, held * weight_of(s.field()), 1, 0});
    strands_.push_back({{}, static_cast<float>(round_gain_), static_cast<float>(round_rows_), 0});
    take_.assign(2, 0);
    if (tracker_.drifted())
      take_[0] = model_.static_draft_length;
    else
      choice_.choose(strands_, {.pass = cost_.pass, .paid = paid_, .company = cost_.company}, most_rows_, take_);
    const auto n = std::min(static_cast<size_t>(take_[0]), values_.size());
    close(s, n, kNoEnd);
    if (!tracker_.drifted()) {
      round_gain_ = choice_.gain();
      round_rows_ = choice_.verify_rows();
    }
    if (!weight_.empty()) whole_[static_cast<size_t>(*s.field())] = n > 0 ? values_[n - 1].gain / weight_of(s.field()) : held;
  }
  void open_all(DraftViews strands) override {
    if (company_) cost_.company = std::max(1.0, *company_);
    weigh(strands);
    plan(strands);
    round_gain_ = choice_.gain();
    round_rows_ = choice_.verify_rows();
    std::fill(whole_.begin(), whole_.end(), 1.0F);
    base_.clear();
    fields_.clear();
    for (const DraftView s : strands) {
      base_.push_back({s.cached(), static_cast<float>(s.rows() - s.cached())});
      fields_.push_back(s.field());
    }
  }
  bool window_ends_with_drafts() const override { return true; }
  /// 32 rows for less than two passes of one row: weights come from memory. Where a model lies in the caches rows cost what they save.
  bool forks_draft() const override { return cost_.pass->ms(32) <= 2 * cost_.pass->ms(1); }
  bool chooses() const override { return chooses_; }
  bool wants_facts() const override { return true; }

  void choose(std::span<const std::span<const DraftFacts>> facts, std::span<int32_t> keep) override {
    if (tracker_.drifted()) return;
    values_.clear();
    strands_.clear();
    size_t all = 0;
    for (const auto& f : facts) all += f.size();
    values_.reserve(all);
    for (size_t i = 0; i < facts.size(); ++i) {
      const float weight = weight_of(fields_[i]);
      const size_t first = values_.size();
      float survival = weight, rows = base_[i].rows;
      for (size_t k = 0; k < facts[i].size(); ++k) {
        const DraftFacts& f = facts[i][k];
        survival *= f.sure ? 1 : static_cast<float>(kept(f));
        const auto next = static_cast<float>(k + 1 < facts[i].size() ? facts[i][k + 1].rows - f.rows : 1);
        values_.push_back({survival, next + static_cast<float>(group_), 0});
        if (k == 0) rows = static_cast<float>(f.rows - base_[i].cached);
      }
      strands_.push_back({std::span(values_).subspan(first), weight, rows + static_cast<float>(group_), 0});
    }
    RoundCost cost{.pass = cost_.pass, .paid = paid_, .company = cost_.company};
    choice_.choose(strands_, cost, most_rows_, keep);
    round_gain_ = choice_.gain();
    round_rows_ = choice_.verify_rows();
    if (weight_.empty()) return;
    for (size_t i = 0; i < facts.size(); ++i) {
      const auto n = static_cast<size_t>(keep[i]);
      whole_[static_cast<size_t>(*fields_[i])] = n > 0 ? strands_[i].drafts[n - 1].gain / strands_[i].gain : 1;
    }
  }

  void seen(const DraftFacts& f, bool was_kept) override { tracker_.seen(f.field, kept(f), was_kept); }

 private:
  struct Base {
    int32_t cached;
    float rows;
  };
  double kept(const DraftFacts& f) const { return tracker_.corrected(f.field, model_.survival.kept(f)); }
  double kept_before(std::optional<int32_t> field, int32_t ahead, int32_t index) const {
    return tracker_.corrected(field, model_.survival.kept_before(field, ahead, index));
  }
  float weight_of(std::optional<int32_t> field) const {
    return !field || weight_.empty() ? 1 : weight_[static_cast<size_t>(*field)];
  }

  void lay_graph() {
    const std::shared_ptr<const GraphVisibility> known = known_visibility(*form_);
    const GraphVisibility& visibility = *known;
    const auto n = form_->fields().size();
    children_.resize(n);
    behind_.assign(n, 0);
    weight_.assign(n, 1);
    whole_.assign(n, 1);
    for (size_t f = 0; f < n; ++f)
      children_[f].assign(visibility.children(static_cast<int32_t>(f)).begin(), visibility.children(static_cast<int32_t>(f)).end());
    for (size_t k = n; k-- > 0;) {
      const auto f = static_cast<size_t>(visibility.order()[k]);
      for (const int32_t c : children_[f]) behind_[f] = std::max(behind_[f], behind_[static_cast<size_t>(c)] + draws_from(c, 0));
    }
  }
  double draws_from(int32_t f, int32_t i) const { return model_.draws_from(form_->fields()[static_cast<size_t>(f)], f, i); }
  void weigh(DraftViews strands) {
    if (weight_.empty()) return;
    double longest = 0;
    for (const DraftView s : strands)
      if (!s.done()) longest = std::max(longest, to_go(s));
    for (const DraftView s : strands)
      if (!s.done()) weight_[static_cast<size_t>(*s.field())] = static_cast<float>(std::pow(to_go(s) / longest, kUrgency));
  }
  double to_go(DraftView s) const { return behind_[static_cast<size_t>(*s.field())] + draws_from(*s.field(), s.index()); }

  /// Windows of strands that share a pass.
  void plan(DraftViews strands) {
    foresee(strands);
    take_.assign(strands.size(), model_.static_draft_length);
    if (!tracker_.drifted()) choose_windows();
    double draft_rows = 0;
    for (size_t i = 0; i < strands.size(); ++i) {
      const auto n = std::min<size_t>(static_cast<size_t>(take_[i]), strands_[i].drafts.size());
      close(strands[i], n, n > 0 ? ends_[firsts_[i] + n - 1] : strands[i].position());
      draft_rows += strands_[i].draft_rows;
      for (size_t k = 0; k < n; ++k) draft_rows += strands_[i].drafts[k].draft_rows;
    }
    const auto rows = [&](double n) { return static_cast<int32_t>(std::lround(n * cost_.company)); };
    paid_ = cost_.drafts == RoundCost::Drafts::kRows ? cost_.draft->ms(rows(draft_rows)) : 0;
    if (cost_.drafts == RoundCost::Drafts::kSteps && strands.size() > 0)
      paid_ = *std::max_element(take_.begin(), take_.end()) * cost_.draft->ms(rows(static_cast<double>(strands.size())));
  }
  /// What each strand's draws are worth and cost, before any window.
  void foresee(DraftViews strands) {
    values_.clear();
    ends_.clear();
    strands_.clear();
    values_.reserve(strands.size() * 2 * static_cast<size_t>(model_.most_drafts));
    firsts_.clear();
    free_ = cost_.drafts == RoundCost::Drafts::kPaid || stored_;
    for (const DraftView s : strands) {
      firsts_.push_back(values_.size());
      if (!s.done() && !(by_positions_ && s.rows() == 0)) walk(s, weight_of(s.field()));
      if (stored_) charge_misses(s, firsts_.back());
    }
    firsts_.push_back(values_.size());
    for (size_t i = 0; i < strands.size(); ++i) {
      const auto known = static_cast<float>(strands[i].rows() - strands[i].cached());
      strands_.push_back({std::span(values_).subspan(firsts_[i], firsts_[i + 1] - firsts_[i]), weight_of(strands[i].field()), known,
                          stored_ ? 0 : known});
    }
  }
  /// Behind an earlier answer a draft pass runs for strands that it has missed alone; what they know travels with their first draw.
  void charge_misses(DraftView s, size_t first) {
    if (!s.missed()) {
      for (size_t k = first; k < values_.size(); ++k) values_[k].draft_rows = 0;
    } else if (first < values_.size()) {
      values_[first].draft_rows += static_cast<float>(s.rows() - s.cached());
      free_ = false;
    }
  }
  void choose_windows() {
    if (free_ && chooses_) {  // drafts for nothing: all, to be chosen from later
      for (size_t i = 0; i < strands_.size(); ++i) take_[i] = static_cast<int32_t>(strands_[i].drafts.size());
      return;
    }
    choice_.choose(strands_, cost_, most_rows_, take_);
  }
  void close(DraftView s, size_t draws, int32_t end) const {
    if (by_positions_)
      s.set_window(kNoEnd, end);
    else
      s.set_window(static_cast<int32_t>(draws), kNoEnd);
  }

  /// Draws ahead of a strand as far as they can be foreseen.
  void walk(DraftView s, float weight) {
    int32_t u = s.position();
    const int32_t most = model_.most_drafts;
    if (!s.field() && !form_) {
      double survival = weight;
      for (int32_t a = 0; a < most; ++a) {
        survival *= kept_before(std::nullopt, a, u + a);
        if (!push(survival, 1, 1, u + a + 1)) return;
      }
      return;
    }
    const Field* own = s.field() ? &form_->fields()[static_cast<size_t>(*s.field())] : nullptr;
    const int32_t end = own ? own->start + own->budget : form_->length();
    double survival = weight;
    float fixed = 0;
    int32_t ahead = 0;
    while (u < end && ahead < most) {
      const std::optional<int32_t> f = form_->field_at(u);
      if (!f) {
        ++fixed;
        ++u;
        continue;
      }
      const Field& x = form_->fields()[static_cast<size_t>(*f)];
      const int32_t known = u - x.start;
      double through = 0, reached = survival;  // `through`: the field ends and all of it held
      for (int32_t i = known; i < x.budget && ahead < most; ++i, ++ahead, fixed = 0) {
        const double there = x.end ? model_.lengths.at_least(*f, i, known) : 1;
        const double beyond = !x.end || i + 1 < x.budget ? (x.end ? model_.lengths.at_least(*f, i + 1, known) : 1) : 0;
        reached *= kept_before(f, ahead, i);
        if (!push(reached * there, (fixed + 1) * static_cast<float>(there), fixed + 1, x.start + i + 1)) return;
        through += (there - (i + 1 < x.budget ? beyond : 0)) * reached;
      }
      survival = through;
      u = x.start + x.budget;
    }
  }
  bool push(double gain, float verify_rows, float draft_rows, int32_t end) {
    if (gain < static_cast<double>(kNever)) return false;
    values_.push_back({static_cast<float>(gain), verify_rows, draft_rows});
    ends_.push_back(end);
    return true;
  }

  const DraftLengthModel& model_;
  const Form* form_;
  DraftLengthTracker own_;
  DraftLengthTracker& tracker_;
  bool chooses_, by_positions_ = false;
  bool stored_ = false;  // by positions: an earlier answer drafts, and the blocks where it has missed
  bool free_ = true;     // the drafts of this round cost nothing
  int32_t most_rows_;
  const double* company_;
  int32_t group_ = 0;  // quadratic: masks behind every row that is asked
  RoundCost cost_;
  double paid_ = 0;  // for the drafts of the round
  std::vector<std::vector<int32_t>> children_;
  std::vector<double> behind_;         // by field: draws of the longest path behind it
  std::vector<float> weight_, whole_;  // whole: how likely the drafts of this round hold to their last
  double round_gain_ = 0, round_rows_ = 0;
  std::vector<DrawValue> values_;
  std::vector<int32_t> ends_, take_;
  std::vector<std::optional<int32_t>> fields_;
  std::vector<size_t> firsts_;
  std::vector<StrandValues> strands_;
  std::vector<Base> base_;
  DraftLengthChoice choice_;
};

}  // namespace

std::unique_ptr<DraftLengthPolicy> make_measured_draft_length(const Method& m, const Form* form, const DraftLengthModel& model,
                                                              const DraftLengthBasis& basis) {
  return std::make_unique<MeasuredDraftLength>(m, form, model, basis);
}

}  // namespace slip
