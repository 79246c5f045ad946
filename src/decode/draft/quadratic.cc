// SPDX-License-Identifier: Apache-2.0
// Quadratic self-speculation [Nemotron-Labs-Diffusion, released code; docs/notes/speculation.md#quadratic]: the verifying pass carries
// drafts for every outcome of itself, so that a round is one pass. Per strand and k:
//
//   heads   the newest row and k - 1 drafts, as in every verifying pass: they see the strand up to themselves and never a mask
//   group   behind every head whose logits are asked: k masks, which see what the head sees and each other
//
// Whatever the walk keeps, the group behind its last head says what comes next: element 0 stands where the target's token now is,
// elements 1 .. k-1 are the drafts of the next round. Without token shift a mask's own row predicts it, with token shift the row
// before it does; element 1 is then read from element 0's row. The prefill carries the first group.
//
// Differs from the code: in a form the group lays out what follows by form positions, fixed tokens in place (2k rows at most),
// masks to the end of a field's budget; several strands share the pass. Groups lie in scratch slots, so heads need no compaction
// afterwards. A group is a function of the path before it, k and the form, and so is an ensemble's distribution.
// Tests: Quadratic.*, tests/decode/drafters_test.cc
#include <algorithm>

#include "base/check.h"
#include "decode/draft/methods.h"

namespace slip {
namespace {

class QuadraticDrafter : public Drafter {
 public:
  QuadraticDrafter(const DraftRule& rule, int32_t k, const Capacity& capacity, Passes& passes)
      : rule_(rule),
        k_(k),
        group_rows_(capacity.group),
        graph_(capacity.route == Route::kGraph),
        request_(passes.request()),
        next_(passes.next()),
        chooser_(passes.chooser()) {}

  Status propose(std::span<Strand* const> strands) override {
    for (Strand* s : strands) {
      s->round.window_drafts = std::min(s->round.window_drafts, k_ - 1);
      if (!s->group || s->group->readable_at != request_.statistics.forwards) continue;  // another pass has overwritten the outputs
      propose_along(*s, [&](const Cursor& at, DraftToken& draft) { return read(*s, at.position(), draft); });
    }
    return {};
  }

  void propose_child(Strand& s) override { s.round.window_drafts = std::min(s.round.window_drafts, k_ - 1); }

  void add_rows(std::span<Strand* const> strands) override {
    if (groups_.capacity() == 0) {
      const size_t most = std::max(strands.size(), graph_ ? request_.form->fields().size() : 1);
      groups_.reserve(most * static_cast<size_t>(k_));
      sees_.reserve(2 * most + 8);
    }
    groups_.clear();
    for (Strand* s : strands) {
      s->group.reset();
      slot_ = s->scratch_slot;
      for (DraftToken& d : s->round.drafts)
        if (!d.sure) d.group_row = first_mask(add_group(*s, d.rows, d.position));
      if (s->round.next) s->round.next->group_row = first_mask(add_group(*s, s->round.path_rows(), s->round.ahead.position()));
    }
  }

  void committed(Strand& s, int32_t kept) override {
    const bool missed = kept < static_cast<int32_t>(s.round.drafts.size());
    if (!missed && !s.round.next) return;
    const Entry* e = find(s, missed ? s.round.drafts[static_cast<size_t>(kept)].rows : s.round.path_rows());
    SLIP_CHECK(e != nullptr, "every row that is asked has a group behind it");
    s.group = {e->first, e->position, e->count, request_.statistics.forwards};
  }

 private:
  struct Entry {
    const Strand* strand = nullptr;  // null: behind the prompt's last row, for all
    int32_t rows = 0;                // of the strand, before it
    size_t first = 0;                // of the pass
    int32_t position = 0, count = 0;
  };

  const Entry* find(const Strand& s, int32_t rows) const {
    const Strand* of = rows == 0 ? nullptr : &s;
    const auto e = std::find_if(groups_.begin(), groups_.end(), [&](const Entry& x) { return x.strand == of && x.rows == rows; });
    return e == groups_.end() ? nullptr : &*e;
  }

  std::optional<int32_t> field_at(const Strand& s, int32_t u) const {
    return !s.field && request_.form ? request_.form->field_at(u) : s.field;
  }

  /// Form positions u .. end of the group behind a row: at most k masks, no fixed tokens behind the last.
  int32_t group_end(const Strand& s, int32_t u) const {
    if (s.field) return std::min(u + k_, request_.field(*s.field).start + request_.field(*s.field).budget);
    if (!request_.form) return u + k_;
    int32_t end = u;
    for (int32_t at = u, masks = 0; at < std::min(u + group_rows_, request_.form->length()) && masks < k_; ++at) {
      if (request_.form->fixed_at(at)) continue;
      ++masks;
      end = at + 1;
    }
    return end;
  }

  /// What an ensemble mixes in; with token shift the head itself predicts its first mask.
  std::optional<size_t> first_mask(size_t row) const {
    return chooser_.needs().group_rows && !rule_.shift ? std::optional(row) : std::nullopt;
  }

  /// The group's first row in the pass.
  size_t add_group(Strand& s, int32_t rows, int32_t u) {
    if (const Entry* e = rows == 0 ? find(s, rows) : nullptr) return e->first;  // rollouts share the prompt's last row
    const int32_t count = group_end(s, u) - u;
    sees_.assign(s.context.begin(), s.context.end());
    sees_.push_back({s.first_slot, s.first_slot + rows});
    const auto sees = next_.add_spans(sees_, {slot_, slot_ + count});
    groups_.push_back({rows == 0 ? nullptr : &s, rows, next_.rows(), u, count});
    for (int32_t e = 0; e < count; ++e) {
      const auto fixed = !s.field && request_.form ? request_.form->fixed_at(u + e) : std::nullopt;
      const size_t at = next_.add_row(fixed.value_or(rule_.mask), s.first_position + rows + e, slot_ + e, sees, Want::kNothing);
      if (fixed) continue;
      if (e > 0) next_.want(at - (rule_.shift ? 1 : 0), chooser_.draft_want(field_at(s, u + e)));
      if (e == 0 && chooser_.needs().group_rows && !rule_.shift) next_.want(at, Want::kLogits);
    }
    slot_ += count;
    return groups_.back().first;
  }

  std::optional<TokenId> read(const Strand& s, int32_t u, DraftToken& draft) {
    const int32_t e = u - s.group->position;
    if (e < 1 || e >= s.group->count) return std::nullopt;
    return chooser_.draft_from(s.group->row + static_cast<size_t>(e - (rule_.shift ? 1 : 0)), s, draft);
  }

  const DraftRule& rule_;
  int32_t k_, group_rows_;  // masks of a group, and its rows: in a chain fixed tokens stand between them
  bool graph_;
  const DecodeRequest& request_;
  PassBuilder& next_;
  Chooser& chooser_;
  int32_t slot_ = 0;
  std::vector<Entry> groups_;
  std::vector<SlotSpan> sees_;
};

}  // namespace

std::unique_ptr<Drafter> make_quadratic_drafter(const DraftRule& rule, int32_t k, const Capacity& capacity, Passes& passes) {
  return std::make_unique<QuadraticDrafter>(rule, k, capacity, passes);
}

}  // namespace slip
