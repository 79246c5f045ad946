// SPDX-License-Identifier: Apache-2.0
// An earlier answer as the drafter: what it said at the same place of the same field. Where it misses, another drafter may take over.
// Tests: Previous.*, tests/decode/gates_exact_test.cc
#include "decode/draft/methods.h"

namespace slip {
namespace {

/// The earlier answer drafts a field to its end; where it has missed, what follows there is likely wrong too, and `then`, if there is
/// one, drafts the rest of the field.
class PreviousDrafter : public Drafter {
 public:
  PreviousDrafter(const PreviousAnswer& previous, std::unique_ptr<Drafter> then, Passes& passes)
      : previous_(previous), then_(std::move(then)), request_(passes.request()) {}
  Status propose(std::span<Strand* const> strands) override {
    missed_.clear();
    for (Strand* s : strands) {
      if (then_ && s->missed_in(s->cursor.place().field))
        missed_.push_back(s);
      else
        along(*s);
    }
    return missed_.empty() ? Status{} : then_->propose(missed_);
  }
  void propose_child(Strand& s) override { along(s); }
  void add_rows(std::span<Strand* const> strands) override {
    if (!then_) return;
    missed_.clear();
    for (Strand* s : strands) {
      s->group.reset();
      if (s->round.next && s->missed_in(s->round.next->place.field)) missed_.push_back(s);
    }
    then_->add_rows(missed_);
  }
  void committed(Strand& s, int32_t kept) override {
    if (then_) then_->committed(s, kept);
  }
  void discarded(Strand& s) override {
    if (then_) then_->discarded(s);
  }

 private:
  void along(Strand& s) {
    if (then_ && request_.options.most_rows <= 0) {  // the draft length is the masks'; under a row cap it is everyone's
      s.round.window_drafts = kLongestPrevious;
      s.round.window_end = kNoEnd;
    }
    propose_along(s, [&](const Cursor& at, DraftToken&) { return said(at.place()); });
  }
  std::optional<TokenId> said(const Place& place) const {
    const auto i = static_cast<size_t>(place.index);
    if (!place.field) return i < previous_.tokens.size() ? std::optional(previous_.tokens[i]) : std::nullopt;
    const auto& content = previous_.fields[static_cast<size_t>(*place.field)];
    if (i < content.size()) return content[i];
    return i == content.size() ? request_.field(*place.field).end : std::nullopt;
  }
  const PreviousAnswer& previous_;
  std::unique_ptr<Drafter> then_;
  const DecodeRequest& request_;
  std::vector<Strand*> missed_;
};

}  // namespace

std::unique_ptr<Drafter> make_previous_drafter(const PreviousAnswer& previous, std::unique_ptr<Drafter> then, Passes& passes) {
  return std::make_unique<PreviousDrafter>(previous, std::move(then), passes);
}

}  // namespace slip
