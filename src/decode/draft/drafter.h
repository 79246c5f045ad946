// SPDX-License-Identifier: Apache-2.0
// A drafter proposes tokens for a round. There is one object per answer, and it keeps its buffers from round to round.
//
// A round: the drafter proposes, in passes of its own for all strands together; the schedule may start children; the rows of the
// verifying pass are laid out, and the drafter may add rows that draft the next round; the pass runs; the drafter reads its rows; strands
// commit. Nothing that a drafter does can change an exact answer: only its time.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "decode/pass/passes.h"
#include "decode/sequence/strand.h"
#include "decode/types/capacity.h"
#include "decode/types/method.h"

namespace slip {

class Drafter {
 public:
  virtual ~Drafter() = default;
  /// Does propose() run passes of the big model? Then the first round does not travel with the prefill of a chain.
  virtual bool drafts_in_passes() const { return false; }
  /// The big model's passes must bring taps (after_pass).
  virtual bool wants_taps() const { return false; }
  /// Fills the drafts and the path of every strand, whose path has just begun (propose_along), within the strand's window.
  virtual Status propose(std::span<Strand* const> strands) = 0;
  /// Proposes for one more strand, which the schedule has started in the middle of the round; without passes. Default: nothing.
  virtual void propose_child(Strand& /*strand*/) {}
  /// Rows that travel with the verifying pass to draft the next round; then, after it, their reading.
  virtual void add_rows(std::span<Strand* const>) {}
  virtual void read_rows(std::span<Strand* const>) {}
  /// After every pass of the big model that holds final rows or rows that may become final (prefill, verify).
  virtual Status after_pass() { return {}; }
  /// After a strand's commit: how many of its drafts were kept.
  virtual void committed(Strand&, int32_t /*kept*/) {}
  /// A child that was started on its parents' drafts did not hold; its strand may be opened again.
  virtual void discarded(Strand&) {}
  /// Along a graph: a field's strand has all its tokens, drawn or forced.
  virtual void closed(Strand&) {}
};

/// Walks ahead from where the path ends through the strand's window: fixed tokens and sure ones by themselves, others as
/// `token_at(const Cursor& at, DraftToken& draft) -> std::optional<TokenId>` says; stops where it says nothing or what the rules do not
/// allow, at the window's end, or where the strand would be done. token_at may fill DraftToken::facts and DraftToken::q.
template <class F>
void propose_along(Strand& s, F&& token_at) {
  StrandRound& r = s.round;
  auto drafted = static_cast<int32_t>(std::count_if(r.drafts.begin(), r.drafts.end(), [](const DraftToken& d) { return !d.sure; }));
  while (!r.ahead.done() && r.ahead.position() < r.window_end) {
    if (r.ahead.at_fixed()) {
      s.walk_fixed();
      continue;
    }
    DraftToken d{.place = r.ahead.place(), .rows = r.path_rows(), .position = r.ahead.position()};
    d.facts.field = d.place.field;
    d.facts.index = d.place.index;
    d.facts.ahead = static_cast<int32_t>(r.drafts.size());
    if (const auto only = r.ahead.only(); only && r.window_drafts > 0) {
      d.token = *only;
      d.sure = true;
    } else {
      if (drafted >= r.window_drafts) return;
      const std::optional<TokenId> token = token_at(r.ahead, d);
      if (!token || !r.ahead.allows(*token)) return;
      d.token = *token;
      ++drafted;
    }
    r.drafts.push_back(d);
    s.walk(d.token);
  }
}

/// The drafter of a method. `passes` outlives it. Errors: what DecodeContext lacks (draft_model, draft_head, previous).
Result<std::unique_ptr<Drafter>> make_drafter(const Method& method, const LmInfo& info, const Capacity& capacity, Passes& passes);

}  // namespace slip
