// SPDX-License-Identifier: Apache-2.0
// Free text and forms on a chain: one strand, and for rollouts a strand per group of answers that are equal so far.
//
// Presets: ar, self-spec [Nemotron-Labs-Diffusion; Fast-dVLM], scaffold-ar, scaffold-spec [Fast-dDrive], and every other drafter.
// Differs from Fast-dDrive: fields may end early (END): their masks are laid out to the budget in the draft pass and dropped in the
// verifying pass, and the rest of the block moves up. With fixed sizes it is the paper's algorithm pass for pass.
//
// Rollouts: rows of equal answers are equal, so a group of them runs once and each answer picks from the same rows with its own uniforms.
// A rollout whose token differs forks: it shares the common prefix's KV rows and continues alone, or with those that forked with the same
// tokens. So whatever is greedy costs one answer, and so do the sampled tokens on which all agree.
// Tests: ScaffoldSpec.CommitsTheSameTokensAsOneAtATime, SelfSpec.CommitsTheSameTokensAsOneAtATime, Rollouts.*
#include <algorithm>
#include <deque>

#include "decode/schedule/known_keys.h"
#include "decode/schedule/schedule.h"

namespace slip {
namespace {

class ChainRun {
 public:
  ChainRun(ScheduleContext& context, bool pass_per_token)
      : t_(context), p_(context.scratch.passes), request_(p_.request()), keys_(p_), pass_per_token_(pass_per_token) {}

  Status run() {
    const auto n = static_cast<int32_t>(t_.answers.size());
    room_ = t_.capacity.strand_rows(request_.options.limit, t_.form ? t_.form->length() : 0);
    SLIP_TRY_(p_.reserve(t_.capacity.slots(int64_t{room_} * n, n)));
    t_.scratch.make_strands(static_cast<size_t>(n), t_.answers[0]);
    begin(n);
    p_.prefill().defer(!t_.form);
    SLIP_TRY_(keys_.prompt(&t_.drafter));
    if (t_.form && (pass_per_token_ || t_.drafter.drafts_in_passes())) SLIP_TRY_(p_.run_prefill());
    for (;;) {
      SLIP_TRY_(take_fixed());
      tell_fields();
      SLIP_TRY_(tell_keys());
      std::erase_if(groups_, [&](const Group& g) { return t_.form && g.lead->done() && finish(g); });
      if (groups_.empty()) return {};
      SLIP_TRY_(round());
    }
  }

 private:
  /// What answers whose tokens differ from their lead's hold after the round.
  struct Outcome {
    Rounds::Picks picks;
    Strand strand;
    Decoded answer;
  };

  /// Answers that are equal so far; the first of them is the lead's own.
  struct Group {
    Strand* lead = nullptr;
    std::vector<int32_t> members;
  };

  void begin(int32_t n) {
    // Drafts that are drawn (rejection) are each answer's own, so that no two share rows.
    const int32_t groups = p_.chooser().needs().sampled ? n : 1;
    for (int32_t g = 0; g < groups; ++g) {
      Strand& s = new_strand();
      s.cursor = t_.form ? Cursor::chain(*t_.form) : Cursor::text(0);
      s.context.assign(1, {0, request_.prompt_rows()});
      s.first_position = request_.prompt.next_position;
      groups_.push_back({&s, {}});
    }
    for (int32_t r = 0; r < n; ++r) groups_[static_cast<size_t>(r % groups)].members.push_back(r);
    for (Group& g : groups_) own(g);
    groups_.front().lead->logs = t_.form && request_.options.log_forced;
  }

  /// The next strand with its region of slots.
  Strand& new_strand() {
    const int32_t i = strands_++;
    const auto n = static_cast<int32_t>(t_.answers.size());
    Strand& s = t_.scratch.strands[static_cast<size_t>(i)];
    s.first_slot = request_.prompt_rows() + room_ * i;
    s.scratch_slot = request_.prompt_rows() + room_ * n + t_.capacity.scratch * i;
    return s;
  }

  /// The lead works for its first member.
  void own(Group& g) {
    g.lead->request = request_.options.request + static_cast<uint32_t>(g.members.front());
    g.lead->answer = &t_.answers[static_cast<size_t>(g.members.front())];
  }

  Status take_fixed() {
    for (Group& g : groups_) {
      if (!pass_per_token_) g.lead->take_fixed();
      while (pass_per_token_ && g.lead->cursor.at_fixed()) {
        SLIP_TRY_(feed(*g.lead));
        g.lead->take_fixed_once();
      }
    }
    return {};
  }

  /// The strand that answer 0 grows in; null when that is finished.
  Strand* first_strand() {
    const auto first = std::find_if(groups_.begin(), groups_.end(), [](const Group& g) { return g.members.front() == 0; });
    return first == groups_.end() ? nullptr : first->lead;
  }

  Status tell_keys() {
    Strand* s = keys_.next() ? first_strand() : nullptr;
    return s ? keys_.chain(*s, t_.answers[0].fields) : Status{};
  }

  /// Fields of answer 0 that its cursor has left.
  void tell_fields() {
    if (!t_.form || !request_.context.on_field) return;
    const Strand* first = first_strand();
    if (!first) return;
    const Cursor& at = first->cursor;
    const auto fields = t_.form->fields();
    for (; told_ < fields.size(); ++told_) {
      if (!at.done() && at.position() < fields[told_].start + fields[told_].budget) return;
      request_.field_done(static_cast<int32_t>(told_), t_.answers[0].fields[told_]);
    }
  }

  /// ar over a form: whatever is known and not cached (one token) gets a pass of its own, from which nothing is drawn.
  Status feed(Strand& s) {
    if (s.cached == s.length()) return {};
    p_.begin();
    for (int32_t i = s.cached; i < s.length(); ++i)
      p_.next().add_row(s.tokens[static_cast<size_t>(i)], s.first_position + i, s.first_slot + i,
                        p_.next().add_spans(s.context, {s.first_slot, s.first_slot + i + 1}), Want::kNothing);
    if (s.logs && !s.cursor.fixed_field()) p_.next().compare({p_.next().rows() - 1, s.cursor.position(), s.cursor.fixed()});
    s.cached = s.length();
    SLIP_TRY_(p_.run(PassKind::kVerify));
    tell_progress();
    return {};
  }

  Status round() {
    auto& ready = t_.scratch.ready;
    ready.clear();
    for (const Group& g : groups_) ready.push_back(g.lead);
    // Rollouts that have forked draft no more where drafts take passes, unless the policy on draft lengths knows that rows are cheap: a draft pass for all of
    // them has as many rows as all their blocks, for drafts that do not hold long once tokens are sampled (docs/lab/0011-decoders.md).
    const bool drafts = groups_.size() == 1 || t_.drafts_decide || !t_.drafter.drafts_in_passes() || t_.rounds.forks_draft();
    SLIP_TRY_(t_.rounds.propose(ready, drafts));
    t_.rounds.begin_verify();
    for (Strand* s : ready) t_.rounds.add(*s);
    SLIP_TRY_(t_.rounds.run_verify_pass(ready));
    const size_t groups = groups_.size();  // split() appends
    for (size_t g = 0; g < groups; ++g) commit(g);
    SLIP_TRY_(p_.chooser().failure());
    if (!t_.form) std::erase_if(groups_, [&](const Group& g) { return !emit(g); });
    tell_progress();
    return {};
  }

  /// The answer so far, after a round and after each pass of a fixed token.
  void tell_progress() const {
    request_.progress(t_.answers[0].tokens.empty() ? std::span<const TokenId>(t_.scratch.strands[0].tokens) : t_.answers[0].tokens);
  }

  /// Commits the lead's round, and with it those of its members; one whose tokens differ forks.
  void commit(size_t g) {
    Strand& lead = *groups_[g].lead;
    if (groups_[g].members.size() == 1) {
      t_.rounds.commit(lead);
      return;
    }
    outcomes_.clear();
    outcome_of_.clear();
    t_.rounds.verify_for(lead, lead.request, picks_, true);
    for (size_t m = 1; m < groups_[g].members.size(); ++m) {
      const int32_t member = groups_[g].members[m];
      t_.rounds.verify_for(lead, request_.options.request + static_cast<uint32_t>(member), other_picks_, false);
      outcome_of_.push_back(other_picks_ == picks_ ? nullptr : &outcome(lead, member, other_picks_));
    }
    t_.rounds.commit(lead, picks_);
    split(g);
  }

  /// What an answer whose tokens differ from the lead's holds now: one for all that picked the same.
  const Outcome& outcome(const Strand& lead, int32_t member, const Rounds::Picks& picks) {
    for (const Outcome& o : outcomes_)
      if (o.picks == picks) return o;
    outcomes_.push_back({picks, lead, *lead.answer});
    Outcome& o = outcomes_.back();
    o.strand.request = request_.options.request + static_cast<uint32_t>(member);
    o.answer.rounds.clear();
    o.strand.answer = &o.answer;
    t_.rounds.commit_beside(o.strand, picks);
    return o;
  }

  bool ends(TokenId id) const {
    const auto& e = request_.options.end_tokens;
    return std::find(e.begin(), e.end(), id) != e.end();
  }
  /// Tokens that count: free text ends with its first end token, or at its limit.
  std::span<const TokenId> counted(const Strand& s) const {
    size_t n = s.tokens.size();
    if (!t_.form) {
      const size_t emitted = s.answer->tokens.size() - static_cast<size_t>(s.first_row);
      for (size_t i = emitted; i < n; ++i)
        if (ends(s.tokens[i])) n = i + 1;
      n = std::min(n, static_cast<size_t>(request_.options.limit - s.first_row));
    }
    return std::span(s.tokens).first(n);
  }
  bool equal(const Strand& a, const Strand& b) const {
    const auto x = counted(a), y = counted(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end()) && (!t_.form || a.cursor.position() == b.cursor.position());
  }

  void split(size_t g) {
    const std::vector<int32_t> members = std::move(groups_[g].members);
    groups_[g].members.assign(1, members.front());
    const size_t first_new = groups_.size();
    std::vector<const Outcome*> of;  // the outcome of each new group
    for (size_t m = 1; m < members.size(); ++m) {
      const Outcome* o = outcome_of_[m - 1];
      if (!o || equal(o->strand, *groups_[g].lead)) {
        groups_[g].members.push_back(members[m]);
        continue;
      }
      size_t k = 0;
      while (k < of.size() && !equal(of[k]->strand, o->strand)) ++k;
      if (k == of.size()) {
        of.push_back(o);
        groups_.push_back({nullptr, {}});
      }
      groups_[first_new + k].members.push_back(members[m]);
    }
    for (size_t k = 0; k < of.size(); ++k) fork(*groups_[g].lead, *of[k], groups_[first_new + k]);
  }

  /// Forks a strand for a new group: the rows of the common prefix stay the old lead's, as context; one row at least is left to draw
  /// from.
  void fork(const Strand& lead, const Outcome& outcome, Group& group) {
    const Strand& picked = outcome.strand;
    const auto [a, b] = std::mismatch(lead.tokens.begin(), lead.tokens.end(), picked.tokens.begin(), picked.tokens.end());
    const int32_t common =
        std::min({static_cast<int32_t>(a - lead.tokens.begin()), lead.cached, picked.cached, picked.length() - 1});
    Strand& s = new_strand();
    const int32_t first_slot = s.first_slot, scratch_slot = s.scratch_slot;
    s = picked;
    s.first_slot = first_slot;
    s.scratch_slot = scratch_slot;
    s.first_row = lead.first_row + common;
    s.first_position = lead.first_position + common;
    s.before.insert(s.before.end(), lead.tokens.begin(), lead.tokens.begin() + common);
    s.tokens.erase(s.tokens.begin(), s.tokens.begin() + common);
    s.cached = 0;
    s.logs = false;
    s.context.push_back({lead.first_slot, lead.first_slot + common});
    s.group.reset();
    group.lead = &s;
    own(group);
    Decoded& answer = *s.answer;
    answer.fields = outcome.answer.fields;
    // The answer holds what stands before the strand; a lead's does too, and in free text more.
    answer.tokens.assign(lead.answer->tokens.begin(), lead.answer->tokens.begin() + lead.first_row);
    answer.tokens.insert(answer.tokens.end(), lead.tokens.begin(), lead.tokens.begin() + common);
  }

  /// Moves new tokens of free text into the answer; false when it ends with one of them.
  bool emit(const Group& g) {
    const DecodeOptions& o = request_.options;
    const Strand& s = *g.lead;
    std::vector<TokenId>& out = s.answer->tokens;
    const auto& asks_end = request_.context.ends_text;
    for (size_t i = out.size() - static_cast<size_t>(s.first_row); i < s.tokens.size(); ++i) {
      out.push_back(s.tokens[i]);
      if (ends(out.back()) || static_cast<int32_t>(out.size()) >= o.limit || (asks_end && asks_end(out))) {
        share(g);
        return false;
      }
    }
    return true;
  }

  bool finish(const Group& g) {
    Strand& s = *g.lead;
    s.answer->tokens.insert(s.answer->tokens.end(), s.tokens.begin(), s.tokens.end());
    share(g);
    return true;
  }

  void share(const Group& g) {
    for (const int32_t m : g.members) {
      Decoded& d = t_.answers[static_cast<size_t>(m)];
      if (&d == g.lead->answer) continue;
      d.tokens = g.lead->answer->tokens;
      d.fields = g.lead->answer->fields;
    }
  }

  ScheduleContext& t_;
  Passes& p_;
  const DecodeRequest& request_;
  KeysTeller keys_;
  bool pass_per_token_;
  int32_t room_ = 0, strands_ = 0;
  size_t told_ = 0;  // fields of answer 0 that were told to be final
  std::vector<Group> groups_;
  std::deque<Outcome> outcomes_;            // a strand points to the answer beside it
  std::vector<const Outcome*> outcome_of_;  // by member behind the first; null: it stays with the lead
  Rounds::Picks picks_, other_picks_;
};

}  // namespace

Status decode_text(ScheduleContext& context) { return ChainRun(context, false).run(); }

Status decode_chain(ScheduleContext& context, bool pass_per_token) { return ChainRun(context, pass_per_token).run(); }

}  // namespace slip
