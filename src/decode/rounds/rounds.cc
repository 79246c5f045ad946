// SPDX-License-Identifier: Apache-2.0
// Drafts are accepted in order: a strand's drafts are kept up to the first miss, which the target's token replaces; where all held, the
// row behind them gives one more token. Strands of one pass do not see each other (or are discarded when what they saw did not hold), so
// that each row says what it would say alone, whatever travels with it.
#include "decode/rounds/rounds.h"

#include <algorithm>
#include <utility>

#include "decode/draft_length/observer.h"

namespace slip {

namespace {

/// Fixed tokens behind the path, to the window's end.
void walk_fixed(Strand& s) {
  while (s.round.ahead.at_fixed() && s.round.ahead.position() < s.round.window_end) s.walk_fixed();
}

constexpr size_t kUsualPicks = 128;  // of a round; more of them allocate

}  // namespace

/// Drafts that were drawn (rejection sampling) may go only because of what came before them: the facts of later drafts know which
/// token was drawn (docs/notes/speculation.md#cutting-drafts). The policy sees growing beginnings, and a draft stays if it stays as the last
/// one.
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
    lengths_.choose(shown_, keep_);
    for (size_t i = 0; i < shown_.size(); ++i)
      if (keep_[i] == depth) kept_[i] = depth;
  }
  keep_ = kept_;
}

/// Cuts every strand's drafts to what the policy keeps; sure ones behind a cut go with it.
void Rounds::cut(std::span<Strand* const> strands) {
  facts_.clear();
  fact_spans_.clear();
  keep_.clear();
  for (const Strand* s : strands)
    for (const DraftToken& d : s->round.drafts) {
      facts_.push_back(d.facts);
      facts_.back().rows = d.rows;
      facts_.back().sure = d.sure;
    }
  size_t at = 0;
  for (const Strand* s : strands) {
    fact_spans_.push_back(std::span<const DraftFacts>(facts_).subspan(at, s->round.drafts.size()));
    keep_.push_back(static_cast<int32_t>(s->round.drafts.size()));
    at += s->round.drafts.size();
  }
  if (verifier_.samples_drafts())
    choose_without_looking_ahead();
  else
    lengths_.choose(fact_spans_, keep_);
  for (size_t i = 0; i < strands.size(); ++i) {
    Strand& s = *strands[i];
    const auto keep = static_cast<size_t>(std::clamp(keep_[i], 0, static_cast<int32_t>(s.round.drafts.size())));
    if (keep == s.round.drafts.size()) continue;
    statistics_.proposed += static_cast<int64_t>(std::count_if(s.round.drafts.begin() + static_cast<ptrdiff_t>(keep),
                                                               s.round.drafts.end(), [](const DraftToken& d) { return !d.sure; }));
    s.crop_drafts(keep);
  }
}

Rounds::Rounds(Passes& passes, Drafter& drafter, Verifier& verifier, DraftLengthPolicy& lengths, bool drafts_nothing)
    : passes_(passes),
      request_(passes.request()),
      next_(passes.next()),
      chooser_(passes.chooser()),
      drafter_(drafter),
      verifier_(verifier),
      lengths_(lengths),
      statistics_(passes.request().statistics),
      drafts_nothing_(drafts_nothing) {
  picks_.tokens.reserve(kUsualPicks);
  statistics_.accepted_at.reserve(kUsualPicks);
  chooser_.set_needs({.facts = lengths.wants_facts() || request_.context.draft_length_observer,
                      .sampled = verifier.samples_drafts(),
                      .group_rows = verifier.wants_group_rows()});
}

Status Rounds::run(std::span<Strand* const> strands) {
  SLIP_TRY_(propose(strands));
  begin_verify();
  for (Strand* s : strands) add(*s);
  SLIP_TRY_(run_verify_pass(strands));
  for (Strand* s : strands) commit(*s);
  return {};
}

Status Rounds::propose(std::span<Strand* const> strands, bool drafts) {
  chooser_.distributions().clear();
  for (Strand* s : strands) s->take_fixed();
  if (!drafts) {
    for (Strand* s : strands) {
      s->round.window_drafts = s->round.block_rows_end = 0;
      s->round.window_end = kNoEnd;
      s->begin_path();
    }
    return {};
  }
  lengths_.open_all(DraftViews(strands));
  for (Strand* s : strands) {
    s->round.block_rows_end = 0;
    s->begin_path();
  }
  SLIP_TRY_(drafter_.propose(strands));
  if (lengths_.window_ends_with_drafts())
    for (Strand* s : strands) s->round.window_end = kNoEnd;
  if (lengths_.chooses()) cut(strands);
  return {};
}

void Rounds::propose_child(Strand& s) {
  lengths_.open(DraftView(s));
  s.begin_path();
  drafter_.propose_child(s);
  walk_fixed(s);
}

void Rounds::begin_verify() { passes_.begin(); }

/// The pass row that gives the law of what comes behind so many rows of a strand.
size_t Rounds::pass_row(const Strand& s, int32_t rows) const {
  return rows == 0 ? passes_.prefill().last_row() : s.round.pass_row + static_cast<size_t>(rows - 1 - s.cached);
}

void Rounds::add(Strand& s) {
  StrandRound& r = s.round;
  // Fixed tokens behind the drafts come along up to the next draw, whose pick they make possible.
  walk_fixed(s);
  r.next.reset();
  if (r.ahead.at_draw()) r.next = {r.ahead.place(), {}};
  int32_t end = r.path_rows();
  if (r.ahead.done() && !r.feed_last) {  // nothing follows: rows behind the last one that is asked are not needed
    end = s.cached;
    for (const DraftToken& d : r.drafts) end = std::max(end, d.rows);
  }
  r.pass_row = next_.rows();
  r.fed = end;
  for (int32_t i = s.cached; i < end; ++i)
    next_.add_row(r.path[static_cast<size_t>(i)], s.first_position + i, s.first_slot + i,
                  next_.add_spans(s.context, {s.first_slot, s.first_slot + i + 1}), Want::kNothing);
  const auto ask = [&](int32_t rows, const Place& place) {
    chooser_.ask(pass_row(s, rows), verifier_.want(s, place), place);  // rollouts share the prompt's last row
  };
  for (const DraftToken& d : r.drafts)
    if (!d.sure) ask(d.rows, d.place);
  if (r.next) ask(r.path_rows(), r.next->place);
  if (s.logs) compare(s, end);
}

/// What the rows before fixed tokens say, for the log of forced tokens.
void Rounds::compare(const Strand& s, int32_t end) {
  const StrandRound& r = s.round;
  for (const auto& [row, position] : s.template_rows)
    if (row > s.cached && row <= end) next_.compare({pass_row(s, row), position, r.path[static_cast<size_t>(row)]});
  const bool stopped_at_fixed = r.ahead.at_fixed() && !r.ahead.fixed_field();  // the window ended there
  if (stopped_at_fixed && !r.ahead_behind_end && end > s.cached)
    next_.compare({pass_row(s, end), r.ahead.position(), r.ahead.fixed()});
}

Status Rounds::run_verify_pass(std::span<Strand* const> strands) {
  lengths_.lay_masks(DraftViews(strands));
  drafter_.add_rows(strands);
  if (drafter_.wants_taps()) next_.want_taps();
  SLIP_TRY_(passes_.run(PassKind::kVerify));
  ++statistics_.rounds;
  SLIP_TRY_(drafter_.after_pass());
  drafter_.read_rows(strands);
  return {};
}

bool Rounds::commit(Strand& s) {
  verify_for(s, s.request, picks_, true);
  return commit(s, picks_);
}

bool Rounds::commit(Strand& s, const Picks& picks) {
  const int32_t cached = s.cached, before = s.length();
  const int32_t kept = commit_beside(s, picks);
  if (request_.options.trace) trace(s, cached, before, kept, false);
  drafter_.committed(s, kept);
  return picks.held;
}

void Rounds::verify_for(Strand& s, uint32_t request, Picks& picks, bool leads) {
  const uint32_t own = std::exchange(s.request, request);
  picks.tokens.clear();
  picks.held = true;
  int32_t at = 0;  // among the round's tested drafts
  for (const DraftToken& d : s.round.drafts) {
    if (d.sure) continue;
    statistics_.proposed += leads;
    if (!picks.held) continue;
    const Verification v = verifier_.check(pass_row(s, d.rows), s, d, s.history(d.place, d.rows));
    picks.tokens.push_back(v.token);
    picks.held = v.kept;
    if (!leads) continue;
    ++statistics_.tested;
    lengths_.seen(d.facts, v.kept);
    if (auto* observer = request_.context.draft_length_observer) observer->seen(d.facts, d.place, v.kept);
    if (v.kept) statistics_.accept(at++);
    statistics_.relaxed_accepts += v.kept && v.relaxed;
  }
  if (picks.held && s.round.next) {
    const int32_t rows = s.round.path_rows();
    const Place& place = s.round.next->place;
    picks.tokens.push_back(verifier_.draw(pass_row(s, rows), s, place, s.history(place, rows), !s.round.drafts.empty()));
  }
  s.request = own;
}

int32_t Rounds::commit_beside(Strand& s, const Picks& picks) {
  int32_t kept = 0;
  auto pick = picks.tokens.begin();
  s.forget_ahead();
  for (const DraftToken& d : s.round.drafts) {
    s.take_fixed();
    if (!d.sure && !picks.held && pick + 1 == picks.tokens.end()) {
      s.cached = std::min(s.round.fed, s.length());
      s.missed = d.place;
      s.take(*pick);
      return kept;
    }
    s.take(d.sure ? d.token : *pick++);
    ++kept;
  }
  if (!s.cursor.done() && s.cursor.position() < s.round.window_end) s.take_fixed();
  s.cached = std::min(s.round.fed, s.length());
  if (s.round.next) s.take(*pick);
  return kept;
}

void Rounds::discard(Strand& s) {
  for (const DraftToken& d : s.round.drafts) {
    statistics_.proposed += !d.sure;
    statistics_.discarded += !d.sure;
  }
  if (request_.options.trace) trace(s, s.cached, s.length(), 0, true);
  drafter_.discarded(s);
}

void Rounds::trace(const Strand& s, int32_t cached, int32_t before, int32_t kept, bool discarded) {
  const StrandRound& r = s.round;
  if (r.drafts.empty() && drafts_nothing_ && !s.field) return;
  if (cached == 0 && !s.field && r.drafts.empty() && (before == 0 || request_.form)) return;  // the prefill's own token
  const auto row_of = [&](int32_t rows) {
    return rows == 0 ? passes_.prefill().last_row() : r.pass_row + static_cast<size_t>(rows - 1 - cached);
  };
  Round out{
      .number = statistics_.rounds, .pass = request_.last_pass(), .field = s.field, .closed = s.done(), .discarded = discarded};
  out.block = r.block;
  out.rows = {cached, std::max(r.fed, r.block_rows_end)};
  out.accepted = kept;
  for (const DraftToken& d : r.drafts) {
    out.draft.push_back(d.token);
    out.positions.push_back(d.position);
  }
  if (discarded) {
    s.answer->rounds.push_back(std::move(out));
    return;
  }
  if (kept < static_cast<int32_t>(r.drafts.size())) out.stop = out.positions[static_cast<size_t>(kept)];
  // Every row's own pick, those behind the first miss too: they are told, and are not what the answer drew.
  chooser_.record_drawn(false);
  for (const DraftToken& d : r.drafts)
    out.verify.push_back(d.sure ? d.token : verifier_.draw(row_of(d.rows), s, d.place, s.history(d.place, d.rows), true));
  if (r.next) {
    const Place& place = r.next->place;
    const TokenId next = verifier_.draw(row_of(r.path_rows()), s, place, s.history(place, r.path_rows()), true);
    if (!out.stop) out.bonus = next;
    if (!place.field) out.verify.push_back(next);  // free text: as many picks as rows
  }
  chooser_.record_drawn(true);
  out.emitted.assign(s.tokens.begin() + before, s.tokens.end());
  s.answer->rounds.push_back(std::move(out));
}

}  // namespace slip
