// SPDX-License-Identifier: Apache-2.0
// Diffusion ahead: the model drafts in the very pass that verifies. Behind the last row of a field's path the pass carries masks, which
// see what that row sees and each other, on the guess that everything before them holds. Where it does, the next round has its
// drafts and no pass was spent on them; where it does not, the round that follows draws one token and lays masks again.
//
// The group behind the last head of quadratic self-speculation (quadratic.cc), alone: a row per draft in place of k. Rows of the path
// never see a mask, so their keys are final and each pass gives every field at work a token whatever becomes of its drafts. A child that
// starts on its parents' drafts gets masks in the same pass, so that with drafts that hold a level of the graph costs one pass.
// How many masks: StrandRound::masks, which the draft length sets (DraftLengthPolicy::lay_masks). Masks lie in scratch slots.
// Tests: Ahead.*, tests/decode/gates_exact_test.cc
#include <algorithm>

#include "decode/draft/methods.h"

namespace slip {
namespace {

class AheadDrafter : public Drafter {
 public:
  AheadDrafter(const DraftRule& rule, int32_t most, Passes& passes)
      : rule_(rule), most_(most), request_(passes.request()), next_(passes.next()), chooser_(passes.chooser()) {}

  Status propose(std::span<Strand* const> strands) override {
    for (Strand* s : strands) {
      if (!s->group || s->group->readable_at != request_.statistics.forwards) continue;  // what was before the masks did not hold
      propose_along(*s, [&](const Cursor& at, DraftToken& draft) { return read(*s, at.position(), draft); });
    }
    return {};
  }

  void add_rows(std::span<Strand* const> strands) override {
    sees_.reserve(2 * request_.form->fields().size() + 8);
    for (Strand* s : strands) {
      s->group.reset();
      if (s->round.next) add_group(*s);
    }
  }

  void committed(Strand& s, int32_t kept) override {
    if (kept == static_cast<int32_t>(s.round.drafts.size()) && s.round.next && s.group)
      s.group->readable_at = request_.statistics.forwards;
  }
  void discarded(Strand& s) override { s.group.reset(); }

 private:
  /// Drafts for the draws behind the next one, which the path's last row gives. With token shift the mask of a place says the place
  /// behind it; without, a further mask stands where the pass's own token will.
  void add_group(Strand& s) {
    const int32_t u = s.round.ahead.position(), last = request_.field(*s.field).start + request_.field(*s.field).budget - 1;
    const int32_t drafts = std::min({s.round.masks, most_, last - u});
    if (drafts < 1) return;
    const int32_t rows = drafts + (rule_.shift ? 0 : 1), end = s.round.path_rows();
    sees_.assign(s.context.begin(), s.context.end());
    sees_.push_back({s.first_slot, s.first_slot + end});
    const auto sees = next_.add_spans(sees_, {s.scratch_slot, s.scratch_slot + rows});
    const Want want = chooser_.draft_want(*s.field);
    s.group = {next_.rows(), u, drafts, {}};
    for (int32_t e = 0; e < rows; ++e)
      next_.add_row(rule_.mask, s.first_position + end + e, s.scratch_slot + e, sees, rule_.shift || e > 0 ? want : Want::kNothing);
  }

  std::optional<TokenId> read(const Strand& s, int32_t u, DraftToken& draft) {
    const int32_t e = u - s.group->position;
    if (e < 1 || e > s.group->count) return std::nullopt;
    return chooser_.draft_from(s.group->row + static_cast<size_t>(e - (rule_.shift ? 1 : 0)), s, draft);
  }

  const DraftRule& rule_;
  int32_t most_;
  const DecodeRequest& request_;
  PassBuilder& next_;
  Chooser& chooser_;
  std::vector<SlotSpan> sees_;
};

}  // namespace

std::unique_ptr<Drafter> make_ahead_drafter(const DraftRule& rule, int32_t most, Passes& passes) {
  return std::make_unique<AheadDrafter>(rule, most, passes);
}

}  // namespace slip
