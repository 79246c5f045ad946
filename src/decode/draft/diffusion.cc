// SPDX-License-Identifier: Apache-2.0
// The model itself as the drafter, by diffusion [Nemotron-Labs-Diffusion; Fast-dDrive].
//
// Per strand: rows of what is known and not cached, then the window, masks where values go, fixed tokens in place; they see the strand's
// context and each other. A place's draft comes from its own row, or from the row before it (token shift). All strands share the pass.
// Tests: SelfSpec.*, ScaffoldSpec.*, DraftAdapter.*, tests/decode/gates_exact_test.cc
#include <algorithm>

#include "decode/draft/methods.h"

namespace slip {
namespace {

class DiffusionDrafter : public Drafter {
 public:
  DiffusionDrafter(const DraftRule& rule, bool adapter, Passes& passes)
      : rule_(rule),
        adapter_(adapter),
        passes_(passes),
        request_(passes.request()),
        next_(passes.next()),
        chooser_(passes.chooser()) {
    first_row_.reserve(64);
  }
  bool drafts_in_passes() const override { return true; }

  Status propose(std::span<Strand* const> strands) override {
    const auto has_block = [&](const Strand* s) { return block_end(*s) > s->cursor.position(); };
    if (std::none_of(strands.begin(), strands.end(), has_block)) return {};
    if (adapter_ && passes_.prefill().deferred()) SLIP_TRY_(passes_.run_prefill());  // the prompt's keys are final: without adapter
    passes_.begin(adapter_);
    first_row_.clear();
    for (Strand* s : strands) {
      first_row_.push_back(next_.rows());
      add_block(*s);
    }
    if (adapter_) next_.use_adapter();
    SLIP_TRY_(passes_.run(PassKind::kDraft));
    for (size_t i = 0; i < strands.size(); ++i) read_block(*strands[i], first_row_[i]);
    return {};
  }

 private:
  /// End of the strand's block in form positions; its beginning where there is nothing to draft.
  int32_t block_end(const Strand& s) const {
    const int32_t first = s.cursor.position();
    if (s.done() || s.tokens.empty()) return first;  // without a row before it nothing is drafted
    int32_t end = s.round.window_end;
    if (s.field) end = std::min(end, request_.field(*s.field).start + request_.field(*s.field).budget);
    if (!s.field && request_.form) end = std::min(end, request_.form->length());
    // Free text has no end of its own, and its slots are reserved for so many tokens (schedule/chain.cc).
    if (!s.field && !request_.form) end = std::min(end, request_.options.limit + kLongestDraft);
    return std::max(first, end);
  }

  void add_block(Strand& s) {
    const int32_t first = s.cursor.position(), end = block_end(s), known = s.length();
    if (end == first) return;
    const int32_t rows_end = known + end - first;
    s.round.block_rows_end = rows_end;
    const auto sees = next_.add_spans(s.context, {s.first_slot, s.first_slot + rows_end});
    const auto add = [&](TokenId token, int32_t i) {
      return next_.add_row(token, s.first_position + i, s.first_slot + i, sees, Want::kNothing);
    };
    for (int32_t i = s.cached; i < known; ++i) add(s.tokens[static_cast<size_t>(i)], i);
    for (int32_t u = first; u < end; ++u) {
      const bool chain = !s.field && request_.form;
      const auto fixed = chain ? request_.form->fixed_at(u) : std::nullopt;
      const size_t row = add(fixed.value_or(rule_.mask), known + u - first);
      const auto f = chain ? request_.form->field_at(u) : s.field;
      if (!fixed) next_.want(row - (rule_.shift ? 1 : 0), chooser_.draft_want(f));
    }
  }

  void read_block(Strand& s, size_t first_row) {
    const int32_t first = s.cursor.position(), end = block_end(s);
    if (end == first) return;
    const int32_t window_end = s.round.window_end;
    s.round.window_end = std::min(s.round.window_end, end);
    propose_along(s, [&](const Cursor& at, DraftToken& draft) {
      const size_t row = first_row + static_cast<size_t>(s.length() - s.cached + at.position() - first - (rule_.shift ? 1 : 0));
      return std::optional(chooser_.draft_from(row, s, draft));
    });
    s.round.window_end = window_end;
  }

  const DraftRule& rule_;
  bool adapter_;
  Passes& passes_;
  const DecodeRequest& request_;
  PassBuilder& next_;
  Chooser& chooser_;
  std::vector<size_t> first_row_;
};

}  // namespace

std::unique_ptr<Drafter> make_diffusion_drafter(const DraftRule& rule, bool adapter, Passes& passes) {
  return std::make_unique<DiffusionDrafter>(rule, adapter, passes);
}

}  // namespace slip
