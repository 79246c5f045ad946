// SPDX-License-Identifier: Apache-2.0
// Free text and forms on a chain: one strand, or, for rollouts, one up to the first sampled token and a branch for each from there.
//
// Presets: ar, self-spec [Nemotron-Labs-Diffusion; Fast-dVLM], scaffold-ar, scaffold-spec [Fast-dDrive], and every other drafter.
// Differs from Fast-dDrive: fields may end early (END): their masks are laid out to the budget in the draft pass and dropped in the
// verifying pass, and the rest of the block moves up. With fixed sizes it is the paper's algorithm pass for pass.
// Tests: ScaffoldSpec.CommitsTheSameTokensAsOneAtATime, SelfSpec.CommitsTheSameTokensAsOneAtATime, Rollouts.*
#include <algorithm>

#include "decode/methods.h"

namespace slip {
namespace {

/// Moves new tokens into the answer; false when it ends with one of them.
bool emit(const DecodeOptions& o, Strand& s) {
  std::vector<TokenId>& out = s.answer->tokens;
  const auto ends = [&](TokenId id) { return std::find(o.end_tokens.begin(), o.end_tokens.end(), id) != o.end_tokens.end(); };
  for (size_t i = out.size(); i < s.tokens.size(); ++i) {
    out.push_back(s.tokens[i]);
    if (ends(out.back()) || static_cast<int32_t>(out.size()) >= o.limit) return false;
  }
  return true;
}

void place_on_chain(Strand& s, const Passes& p, int32_t first_row, int32_t first_slot) {
  s.context.assign(1, {0, p.prompt_rows()});
  if (first_row > 0) s.context.push_back({p.prompt_rows(), p.prompt_rows() + first_row});
  s.first_slot = first_slot;
  s.first_position = p.prompt().next_position + first_row;
}

/// ar over a form: whatever is known and not cached (one token) gets a pass of its own, from which nothing is drawn.
Status feed(Passes& p, Strand& s) {
  if (s.cached == s.length()) return {};
  p.begin();
  for (int32_t i = s.cached; i < s.length(); ++i)
    p.add_row(s.tokens[static_cast<size_t>(i)], s.first_position + i, s.first_slot + i,
              p.add_spans(s.context, {s.first_slot, s.first_slot + i + 1}), Want::kNothing);
  s.cached = s.length();
  return p.run(PassKind::kVerify);
}

/// Does the strand's next draw differ between rollouts?
bool is_sampled(const Passes& p, const Strand& s) { return p.temperature_at(s.cursor.place()) > 0; }

/// Form position where the first field from `position` on begins that differs between rollouts; behind all where none does.
int32_t first_sampled(const Passes& p, const Form& form, int32_t position) {
  for (const Field& f : form.fields())
    if (f.start >= position && p.temperature_of(f.section) > 0) return f.start;
  return std::numeric_limits<int32_t>::max();
}

/// Branch r: what the prefix has cached is context, its newest tokens are the branch's first rows.
void fork(Task& t, const Strand& prefix, Strand& branch, size_t r, int32_t slots_each) {
  const Passes& p = t.work.passes;
  branch = prefix;
  branch.answer = &t.answers[r];
  branch.request = p.options().request + static_cast<uint32_t>(r);
  const int32_t before = std::min(prefix.cached, prefix.length() - 1);  // the first draw needs a row before it
  branch.tokens.assign(prefix.tokens.begin() + before, prefix.tokens.end());
  branch.cached = 0;
  branch.shared_end = std::numeric_limits<int32_t>::max();
  place_on_chain(branch, p, before, p.prompt_rows() + slots_each * static_cast<int32_t>(r + 1));
  if (r > 0) branch.answer->fields = prefix.answer->fields;
}

}  // namespace

Status decode_text(Task& t) {
  Passes& p = t.work.passes;
  const auto n = static_cast<int32_t>(t.answers.size());
  const int32_t room = p.options().limit + t.widest;
  SLIP_TRY_(p.reserve((room + t.drafting.scratch_slots()) * n));
  t.work.make_strands(static_cast<size_t>(n), t.answers[0]);
  auto& ready = t.work.ready;
  ready.clear();
  for (int32_t r = 0; r < n; ++r) {
    Strand& s = t.work.strands[static_cast<size_t>(r)];
    s.answer = &t.answers[static_cast<size_t>(r)];
    s.request = p.options().request + static_cast<uint32_t>(r);
    s.cursor = Cursor::text(0);
    place_on_chain(s, p, 0, p.prompt_rows() + room * r);
    s.scratch_slot = p.prompt_rows() + room * n + t.drafting.scratch_slots() * r;
    ready.push_back(&s);
  }
  p.defer_prefill(true);
  while (!ready.empty()) {
    SLIP_TRY_(t.rounds.run(ready));
    std::erase_if(ready, [&](Strand* s) { return !emit(p.options(), *s); });
    p.progress(t.answers[0].tokens);
  }
  return {};
}

Status decode_chain(Task& t, bool pass_per_token) {
  Passes& p = t.work.passes;
  const auto n = static_cast<int32_t>(t.answers.size());
  const int32_t room = t.form->length(), regions = n == 1 ? 1 : n + 1;
  SLIP_TRY_(p.reserve(room * regions + t.drafting.scratch_slots() * n));
  t.work.make_strands(static_cast<size_t>(regions), t.answers[0]);
  Strand& first = t.work.strands[0];
  first.request = p.options().request;
  first.cursor = Cursor::chain(*t.form);
  place_on_chain(first, p, 0, p.prompt_rows());
  first.scratch_slot = p.prompt_rows() + room * regions;
  p.defer_prefill(false);
  if (pass_per_token || t.drafting.drafts_in_passes()) SLIP_TRY_(p.run_prefill());
  auto& ready = t.work.ready;
  ready.assign(1, &first);
  const auto finish = [](Strand& s) {
    s.answer->tokens.insert(s.answer->tokens.end(), s.tokens.begin(), s.tokens.end());
    return true;
  };
  while (!ready.empty()) {
    for (Strand* s : ready) {
      if (!pass_per_token) s->take_fixed();
      while (pass_per_token && s->cursor.at_fixed()) {
        SLIP_TRY_(feed(p, *s));
        s->take_fixed_once();
      }
    }
    if (n > 1 && ready.front() == &first && first.cursor.at_draw() && is_sampled(p, first)) {
      const std::vector<TokenId> prefix(first.tokens.begin(), first.tokens.begin() + std::min(first.cached, first.length() - 1));
      ready.clear();
      for (int32_t r = 0; r < n; ++r) {
        Strand& branch = t.work.strands[static_cast<size_t>(r + 1)];
        fork(t, first, branch, static_cast<size_t>(r), room);
        branch.scratch_slot = p.prompt_rows() + room * regions + t.drafting.scratch_slots() * r;
        branch.answer->tokens = prefix;
        ready.push_back(&branch);
      }
    }
    std::erase_if(ready, [&](Strand* s) { return s->done() && finish(*s); });
    if (ready.empty()) break;
    if (n > 1) first.shared_end = first_sampled(p, *t.form, first.cursor.position());
    SLIP_TRY_(t.rounds.run(ready));
    if (ready.front() == &first) p.progress(first.tokens);
  }
  for (int32_t r = 1; r < n; ++r)  // nothing was sampled: all answers are the first
    if (t.answers[static_cast<size_t>(r)].tokens.empty()) {
      t.answers[static_cast<size_t>(r)].tokens = t.answers[0].tokens;
      t.answers[static_cast<size_t>(r)].fields = t.answers[0].fields;
    }
  return {};
}

}  // namespace slip
