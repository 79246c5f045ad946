// SPDX-License-Identifier: Apache-2.0
// Order-ideal acceptance: a strand's draws are kept up to its first miss, which the target's token replaces; where all held, the row
// behind them gives one more. Strands of one pass do not see each other (or are discarded when what they saw did not hold), so the
// rows' laws are exact whatever travels with them.
#include "decode/rounds/rounds.h"

#include <algorithm>
#include <utility>

#include "decode/draft_length/model.h"

namespace slip {

void begin_path(Strand& s) {
  s.drafts.clear();
  s.path.assign(s.tokens.begin(), s.tokens.end());
  s.ahead = s.cursor;
  s.ahead_behind_end = s.behind_end;
  s.feed_last = s.has_next = false;
  s.next_group_row = -1;
}

namespace {

void walk_fixed(Strand& s) {
  while (s.ahead.at_fixed() && s.ahead.position() < s.window_end) s.walk_fixed();
}

constexpr size_t kUsualPicks = 128;  // of a round; more of them allocate

}  // namespace

bool allowed_here(const Form* form, const Cursor& at, TokenId token) {
  const Place place = at.place();
  if (place.field < 0 || form == nullptr) return true;
  const Field& f = form->fields()[static_cast<size_t>(place.field)];
  if (f.rules.unrestricted()) return true;
  if (f.end && token == *f.end) return f.rules.state(place.state).may_end || f.rules.next(place.state, token) >= 0;
  return f.rules.next(place.state, token) >= 0;
}

/// Drafts that were drawn (rejection sampling) may go only because of what came before them: the facts of later draws know which
/// token was drawn (docs/notes/speculation.md#cutting-drafts). The policy sees growing beginnings, and a draw stays if it stays as
/// the last one.
void Rounds::choose_without_looking_ahead() {
  shown_.assign(fact_spans_.begin(), fact_spans_.end());
  kept_.assign(keep_.size(), 0);
  for (int32_t depth = 1;; ++depth) {
    bool grows = false;
    for (size_t i = 0; i < shown_.size(); ++i) {
      const bool next = kept_[i] == depth - 1 && static_cast<int32_t>(fact_spans_[i].size()) >= depth;
      grows |= next;
      keep_[i] = next ? depth : kept_[i];
      shown_[i] = fact_spans_[i].first(static_cast<size_t>(keep_[i]));
    }
    if (!grows) break;
    width_.choose(shown_, keep_);
    for (size_t i = 0; i < shown_.size(); ++i)
      if (keep_[i] == depth) kept_[i] = depth;
  }
  keep_ = kept_;
}

/// Cuts every strand's drafts to what the policy keeps; sure draws behind a cut go with it.
void Rounds::cut(std::span<Strand* const> strands) {
  facts_.clear();
  fact_spans_.clear();
  keep_.clear();
  for (const Strand* s : strands)
    for (const DraftToken& d : s->drafts) {
      facts_.push_back(d.facts);
      facts_.back().row = d.row;
      facts_.back().sure = d.sure;
    }
  size_t at = 0;
  for (const Strand* s : strands) {
    fact_spans_.push_back(std::span<const DraftFacts>(facts_).subspan(at, s->drafts.size()));
    keep_.push_back(static_cast<int32_t>(s->drafts.size()));
    at += s->drafts.size();
  }
  if (verifier_.samples_drafts())
    choose_without_looking_ahead();
  else
    width_.choose(fact_spans_, keep_);
  for (size_t i = 0; i < strands.size(); ++i) {
    Strand& s = *strands[i];
    const auto keep = static_cast<size_t>(std::clamp(keep_[i], 0, static_cast<int32_t>(s.drafts.size())));
    if (keep == s.drafts.size()) continue;
    statistics_.proposed += static_cast<int64_t>(std::count_if(s.drafts.begin() + static_cast<ptrdiff_t>(keep), s.drafts.end(),
                                                               [](const DraftToken& d) { return !d.sure; }));
    s.drafts.resize(keep);
    s.path.assign(s.tokens.begin(), s.tokens.end());
    s.ahead = s.cursor;
    s.ahead_behind_end = s.behind_end;
    s.forget_ahead();
    for (const DraftToken& d : s.drafts) {
      while (s.ahead.at_fixed()) s.walk_fixed();
      s.walk(d.token);
    }
  }
}

void Drafter::propose_child(Strand&) {}

Rounds::Rounds(Passes& passes, Drafter& drafter, Verifier& verifier, DraftLengthPolicy& width, bool drafts_nothing)
    : passes_(passes),
      request_(passes.request()),
      next_(passes.next()),
      chooser_(passes.chooser()),
      drafter_(drafter),
      verifier_(verifier),
      width_(width),
      statistics_(passes.request().statistics),
      drafts_nothing_(drafts_nothing) {
  picks_.tokens.reserve(kUsualPicks);
  chooser_.set_needs({.facts = width.wants_facts() || request_.context.draft_length_observer,
                      .sampled = verifier.samples_drafts(),
                      .group_rows = verifier.wants_group_rows()});
}

Status Rounds::run(std::span<Strand* const> strands) {
  SLIP_TRY_(propose(strands));
  begin_verify();
  for (Strand* s : strands) add(*s);
  SLIP_TRY_(verify(strands));
  for (Strand* s : strands) commit(*s);
  return {};
}

Status Rounds::propose(std::span<Strand* const> strands, bool drafts) {
  chooser_.distributions().clear();
  for (Strand* s : strands) s->take_fixed();
  if (!drafts) {
    for (Strand* s : strands) {
      s->window_drafts = s->block_rows_end = 0;
      s->window_end = kNoEnd;
      begin_path(*s);
    }
    return {};
  }
  width_.open_all(DraftViews(strands));
  for (Strand* s : strands) {
    s->block_rows_end = 0;
    begin_path(*s);
  }
  SLIP_TRY_(drafter_.propose(strands));
  if (width_.window_ends_with_drafts())
    for (Strand* s : strands) s->window_end = kNoEnd;
  if (width_.chooses()) cut(strands);
  return {};
}

void Rounds::propose_child(Strand& s) {
  width_.open(DraftView(s));
  begin_path(s);
  drafter_.propose_child(s);
  walk_fixed(s);
}

void Rounds::begin_verify() { passes_.begin(); }

size_t Rounds::pass_row(const Strand& s, int32_t row) const {
  return row < 0 ? passes_.prefill().last_row() : s.pass_row + static_cast<size_t>(row - s.cached);
}

void Rounds::add(Strand& s) {
  // Fixed tokens behind the drafts come along up to the next draw, whose pick they make possible.
  walk_fixed(s);
  s.has_next = s.ahead.at_draw();
  if (s.has_next) s.next_place = s.ahead.place();
  auto end = static_cast<int32_t>(s.path.size());
  if (s.ahead.done() && !s.feed_last) {  // nothing follows: rows behind the last one that is asked are not needed
    end = s.cached;
    for (const DraftToken& d : s.drafts) end = std::max(end, d.row + 1);
  }
  s.pass_row = next_.rows();
  s.fed = end;
  for (int32_t i = s.cached; i < end; ++i)
    next_.add_row(s.path[static_cast<size_t>(i)], s.first_position + i, s.first_slot + i,
                    next_.add_spans(s.context, {s.first_slot, s.first_slot + i + 1}), Want::kNothing);
  const auto ask = [&](int32_t row, const Place& place) {
    chooser_.ask(pass_row(s, row), verifier_.want(s, place), place);  // rollouts share the prompt's last row
  };
  for (const DraftToken& d : s.drafts)
    if (!d.sure) ask(d.row, d.place);
  if (s.has_next) ask(static_cast<int32_t>(s.path.size()) - 1, s.next_place);
  if (!s.logs) return;
  for (const auto& [row, position] : s.template_rows)
    if (row > s.cached && row <= end) next_.compare({pass_row(s, row - 1), position, s.path[static_cast<size_t>(row)]});
  if (s.ahead.at_fixed() && s.ahead.fixed_field() < 0 && !s.ahead_behind_end &&
      end > s.cached)  // the window ended among fixed tokens
    next_.compare({pass_row(s, end - 1), s.ahead.position(), s.ahead.fixed()});
}

Status Rounds::verify(std::span<Strand* const> strands) {
  width_.lay_masks(DraftViews(strands));
  drafter_.add_rows(strands);
  if (drafter_.wants_taps()) next_.want_taps();
  SLIP_TRY_(passes_.run(PassKind::kVerify));
  ++statistics_.rounds;
  SLIP_TRY_(drafter_.after_pass());
  drafter_.read_rows(strands);
  return {};
}

std::span<const TokenId> Rounds::history(const Strand& s, const Place& place, int32_t row) const { return s.history(place, row); }

bool Rounds::commit(Strand& s) {
  judge(s, s.request, picks_, true);
  return commit(s, picks_);
}

bool Rounds::commit(Strand& s, const Picks& picks) {
  const int32_t cached = s.cached, before = s.length();
  const int32_t kept = commit_beside(s, picks);
  if (request_.options.trace) trace(s, cached, before, kept, false);
  drafter_.committed(s, kept);
  return picks.held;
}

void Rounds::judge(Strand& s, uint32_t request, Picks& picks, bool leads) {
  const uint32_t own = std::exchange(s.request, request);
  picks.tokens.clear();
  picks.held = true;
  for (const DraftToken& d : s.drafts) {
    if (d.sure) continue;
    statistics_.proposed += leads;
    if (!picks.held) continue;
    const Verification v = verifier_.check(pass_row(s, d.row), s, d, history(s, d.place, d.row));
    picks.tokens.push_back(v.token);
    picks.held = v.kept;
    if (!leads) continue;
    ++statistics_.tested;
    width_.seen(d.facts, v.kept);
    if (auto* observer = request_.context.draft_length_observer) observer->seen(d.facts, d.place, v.kept);
    statistics_.accepted += v.kept;
    statistics_.relaxed_accepts += v.kept && v.relaxed;
  }
  if (picks.held && s.has_next) {
    const auto row = static_cast<int32_t>(s.path.size()) - 1;
    picks.tokens.push_back(verifier_.draw(pass_row(s, row), s, s.next_place, history(s, s.next_place, row), !s.drafts.empty()));
  }
  s.request = own;
}

int32_t Rounds::commit_beside(Strand& s, const Picks& picks) {
  int32_t kept = 0;
  auto pick = picks.tokens.begin();
  s.forget_ahead();
  for (const DraftToken& d : s.drafts) {
    s.take_fixed();
    if (!d.sure && !picks.held && pick + 1 == picks.tokens.end()) {
      s.cached = std::min(s.fed, s.length());
      s.missed_field = d.place.field;
      s.take(*pick);
      return kept;
    }
    s.take(d.sure ? d.token : *pick++);
    ++kept;
  }
  if (!s.cursor.done() && s.cursor.position() < s.window_end) s.take_fixed();
  s.cached = std::min(s.fed, s.length());
  if (s.has_next) s.take(*pick);
  return kept;
}

void Rounds::discard(Strand& s) {
  for (const DraftToken& d : s.drafts) {
    statistics_.proposed += !d.sure;
    statistics_.discarded += !d.sure;
  }
  if (request_.options.trace) trace(s, s.cached, s.length(), 0, true);
  drafter_.discarded(s);
}

void Rounds::trace(const Strand& s, int32_t cached, int32_t before, int32_t kept, bool discarded) {
  if (s.drafts.empty() && drafts_nothing_ && s.field < 0) return;
  if (cached == 0 && s.field < 0 && s.drafts.empty() && (before == 0 || request_.form)) return;  // the prefill's own token
  const auto row_of = [&](int32_t row) {
    return row < 0 ? passes_.prefill().last_row() : s.pass_row + static_cast<size_t>(row - cached);
  };
  Round r{.number = statistics_.rounds, .field = s.field, .closed = s.done(), .discarded = discarded};
  r.block = s.block;
  r.rows = {cached, std::max(s.fed, s.block_rows_end)};
  r.accepted = kept;
  for (const DraftToken& d : s.drafts) {
    r.draft.push_back(d.token);
    r.positions.push_back(d.position);
  }
  if (discarded) {
    s.answer->rounds.push_back(std::move(r));
    return;
  }
  if (kept < static_cast<int32_t>(s.drafts.size())) r.stop = r.positions[static_cast<size_t>(kept)];
  // Every row's own pick, those behind the first miss too.
  for (const DraftToken& d : s.drafts)
    r.verify.push_back(d.sure ? d.token : verifier_.draw(row_of(d.row), s, d.place, history(s, d.place, d.row), true));
  const auto last = static_cast<int32_t>(s.path.size()) - 1;
  std::optional<TokenId> next;
  if (s.has_next) next = verifier_.draw(row_of(last), s, s.next_place, history(s, s.next_place, last), true);
  if (!r.stop) r.bonus = next;
  if (s.next_place.field < 0 && next) r.verify.push_back(*next);  // free text: width picks
  r.emitted.assign(s.tokens.begin() + before, s.tokens.end());
  s.answer->rounds.push_back(std::move(r));
}

}  // namespace slip
