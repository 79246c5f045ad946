// SPDX-License-Identifier: Apache-2.0
// Forms on a chain: scaffold-ar and scaffold speculation [Fast-dDrive].
//
//   f  rows of the answer that have causal keys      p  answer so far (its length is the next row's index)
// A round over the block that the next draw is in: rows f .. hold what is known, then the rest of the block, masks where values go.
//   draft   the rows see the cache and each other; a value's draft comes from the row before it (shift) or its own (no shift)
//   verify  the same with drafts in place, causal; picks are compared in order, the first miss is replaced by the pick
// Differs from the paper: fields may end early (END): their masks are laid out to the budget in the draft pass and dropped in the
// verify pass, and the rest of the block moves up. With fixed sizes this is the paper's algorithm pass for pass.
// Test: ScaffoldSpec.CommitsTheSameTokensAsOneAtATime.
#include "decode/methods.h"
#include "decode/walk.h"

namespace slip {
namespace {

/// The answer being built: what is known, how much of it is cached, and what comes next.
struct Chain {
  Passes& passes;
  Decoded& answer;
  FormWalk walk;
  int32_t cached = 0;  // f

  int32_t length() const { return static_cast<int32_t>(answer.tokens.size()); }
  void take_fixed() {
    answer.tokens.push_back(walk.fixed());
    ++answer.statistics.forced_tokens;
    walk.take_fixed();
  }
  void take(TokenId token) {
    const auto f = static_cast<size_t>(walk.field());
    if (!walk.take(token)) return;
    answer.tokens.push_back(token);
    answer.fields[f].push_back(token);
  }
  TokenId pick(size_t row, const FormWalk& at) { return passes.pick(row, at.field(), at.index, at.state); }
};

/// Draws one token from the last known row: whatever is known and not cached travels with it.
Status draw_one(Chain& c, bool with_prompt) {
  Passes& p = c.passes;
  const Want want = p.want_for(c.walk.field());
  p.clear();
  const bool prompt = with_prompt && p.add_prompt(c.length() == 0 ? want : Want::kNothing) > 0;
  for (int32_t i = c.cached; i < c.length(); ++i)
    p.add(c.answer.tokens[static_cast<size_t>(i)], i, i + 1, i + 1 == c.length() ? want : Want::kNothing);
  SLIP_TRY_(p.run(prompt ? PassKind::kPrefill : PassKind::kVerify));
  c.cached = c.length();
  c.take(c.pick(p.rows() - 1, c.walk));
  return {};
}

/// ar_forced: whatever is known and not cached (one token) gets a pass of its own, from which nothing is drawn.
Status feed_one(Chain& c) {
  Passes& p = c.passes;
  if (c.cached == c.length()) return {};
  p.clear();
  for (int32_t i = c.cached; i < c.length(); ++i) p.add(c.answer.tokens[static_cast<size_t>(i)], i, i + 1, Want::kNothing);
  SLIP_TRY_(p.run(PassKind::kVerify));
  c.cached = c.length();
  return {};
}

class SpecRound {
 public:
  SpecRound(Work& work, const DraftRule& rule, Chain& chain) : work_(work), rule_(rule), c_(chain), p_(work.passes) {}

  /// Returns the token after the block where the last row gives one for nothing.
  Result<std::optional<TokenId>> run() {
    const int32_t block = c_.walk.form->block_at(c_.walk.position);
    end_ = c_.walk.form->blocks()[static_cast<size_t>(block)].end;
    if (c_.passes.options().trace) {
      trace_ = Round{.block = c_.walk.form->blocks()[static_cast<size_t>(block)]};
      trace_.rows.begin = c_.cached;
    }
    SLIP_TRY_(draft());
    SLIP_TRY_(verify());
    return commit();
  }

 private:
  /// Form positions from here to the block's end, fixed or mask, behind what is known.
  Status draft() {
    p_.clear();
    const int32_t known = c_.length(), first = c_.walk.position;
    const int32_t rows_end = known + end_ - first;
    if (p_.options().trace) trace_.rows.end = rows_end;
    for (int32_t i = c_.cached; i < known; ++i) p_.add(c_.answer.tokens[static_cast<size_t>(i)], i, rows_end, Want::kNothing);
    for (int32_t u = first; u < end_; ++u) {
      const auto fixed = c_.walk.form->fixed_at(u);
      p_.add(fixed.value_or(rule_.mask), known + u - first, rows_end, Want::kNothing);
      if (!fixed) p_.want(source(u), p_.draft_want(c_.walk.form->field_at(u)));
    }
    SLIP_TRY_(p_.run(PassKind::kDraft));
    work_.draft.clear();
    work_.positions.clear();
    for (FormWalk w = c_.walk; !w.done() && w.position < end_;) {
      if (w.at_fixed()) {
        w.take_fixed();
        continue;
      }
      work_.positions.push_back(w.position);
      work_.draft.push_back(p_.draft(source(w.position), w.field(), w.state));
      w.take(work_.draft.back());
    }
    return {};
  }

  /// Row of the draft pass that a value at form position u is drafted from.
  size_t source(int32_t u) const {
    return static_cast<size_t>(c_.length() + u - c_.walk.position - c_.cached - (rule_.shift ? 1 : 0));
  }

  Status verify() {
    p_.clear();
    int32_t i = c_.cached;
    for (; i < c_.length(); ++i) p_.add(c_.answer.tokens[static_cast<size_t>(i)], i, i + 1, Want::kNothing);
    FormWalk w = c_.walk;
    size_t d = 0;
    while (!w.done() && w.position < end_) {
      if (w.at_fixed()) {
        p_.add(w.fixed(), i, i + 1, Want::kNothing);
        w.take_fixed();
        ++i;
        continue;
      }
      p_.want(p_.rows() - 1, p_.want_for(w.field()));
      const TokenId token = work_.draft[d++];
      if (w.take(token)) {
        p_.add(token, i, i + 1, Want::kNothing);
        ++i;
      }
    }
    if (w.at_draw()) p_.want(p_.rows() - 1, p_.want_for(w.field()));
    return p_.run(PassKind::kVerify);
  }

  Result<std::optional<TokenId>> commit() {
    Statistics& stats = c_.answer.statistics;
    stats.proposed += static_cast<int64_t>(work_.draft.size());
    if (p_.options().trace) trace_picks();
    const int32_t before = c_.cached;
    for (size_t d = 0; c_.walk.position < end_ && !c_.walk.done();) {
      if (c_.walk.at_fixed()) {
        c_.take_fixed();
        continue;
      }
      const auto row = static_cast<size_t>(c_.length() - 1 - before);
      const TokenId pick = c_.pick(row, c_.walk);
      ++stats.tested;
      if (pick != work_.draft[d]) {
        if (p_.options().trace) trace_.stop = work_.positions[d];
        c_.cached = c_.length();
        c_.take(pick);
        finish_trace(static_cast<int32_t>(d));
        return std::optional<TokenId>();
      }
      ++stats.accepted;
      ++d;
      c_.take(pick);
    }
    c_.cached = c_.length();
    std::optional<TokenId> bonus;
    if (c_.walk.at_draw()) bonus = c_.pick(p_.rows() - 1, c_.walk);
    trace_.bonus = bonus;
    finish_trace(static_cast<int32_t>(work_.draft.size()));
    return bonus;
  }

  /// All picks, those behind the first miss too, as the fixtures list them.
  void trace_picks() {
    FormWalk w = c_.walk;
    auto row = static_cast<size_t>(c_.length() - 1 - c_.cached);
    for (size_t d = 0; w.position < end_ && !w.done();) {
      if (w.at_fixed()) {
        w.take_fixed();
        ++row;
        continue;
      }
      trace_.verify.push_back(c_.pick(row, w));
      if (w.take(work_.draft[d++])) ++row;
    }
  }

  void finish_trace(int32_t accepted) {
    if (!p_.options().trace) return;
    trace_.positions = work_.positions;
    trace_.draft = work_.draft;
    trace_.accepted = accepted;
    c_.answer.rounds.push_back(std::move(trace_));
  }

  Work& work_;
  const DraftRule& rule_;
  Chain& c_;
  Passes& p_;
  int32_t end_ = 0;
  Round trace_;
};

}  // namespace

Status decode_scaffold(Work& work, const Form& form, Decoded& answer) {
  Chain c{work.passes, answer, FormWalk(form)};
  SLIP_TRY_(work.passes.reserve(form.length()));
  const bool forced = work.passes.options().ar_forced;
  bool with_prompt = true;
  if (forced) {  // the plain law: the prompt alone, then one pass for every token but the last
    SLIP_TRY_(c.passes.prefill(Want::kNothing));
    with_prompt = false;
  }
  while (!c.walk.done()) {
    if (c.walk.at_fixed()) {
      if (forced) SLIP_TRY_(feed_one(c));
      c.take_fixed();
      continue;
    } else {
      SLIP_TRY_(draw_one(c, with_prompt));
    }
    with_prompt = false;
    work.passes.progress(answer.tokens);
  }
  return {};
}

Status decode_scaffold_spec(Work& work, const LmInfo& info, const Form& form, Decoded& answer) {
  Passes& p = work.passes;
  Chain c{p, answer, FormWalk(form)};
  SLIP_TRY_(p.reserve(form.length()));
  work.draft.reserve(static_cast<size_t>(form.length()));
  work.positions.reserve(static_cast<size_t>(form.length()));
  SLIP_TRY_(p.prefill(Want::kNothing));
  std::optional<TokenId> bonus;
  while (!c.walk.done()) {
    if (c.walk.at_fixed()) {
      c.take_fixed();
      continue;
    }
    if (bonus) {
      c.take(*bonus);
      bonus.reset();
      p.progress(answer.tokens);
      continue;
    }
    SLIP_TRY(bonus, SpecRound(work, info.rule, c).run());
    p.progress(answer.tokens);
  }
  return {};
}

}  // namespace slip
