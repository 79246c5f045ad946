// SPDX-License-Identifier: Apache-2.0
// The drafters that need no other network: none, the model itself by diffusion, and an earlier answer.
//
// Diffusion, per strand: rows of what is known and not cached, then the window, masks where values go, fixed tokens in place; they see
// the strand's context and each other. A draw's draft comes from its own row, or from the row before it (token shift). All strands
// share the pass.
#include <algorithm>
#include <limits>

#include "decode/draft/methods.h"

namespace slip {
namespace {

class NoDrafter : public Drafter {
 public:
  Status propose(std::span<Strand* const>) override { return {}; }
};

/// The earlier answer drafts a field to its end; where it has missed, what follows there is likely wrong too, and `then`, if there is
/// one, drafts the rest of the field.
class PreviousDrafter : public Drafter {
 public:
  PreviousDrafter(const PreviousAnswer& previous, std::unique_ptr<Drafter> then, Passes& passes)
      : previous_(previous), then_(std::move(then)), request_(passes.request()) {}
  Status propose(std::span<Strand* const> strands) override {
    missed_.clear();
    for (Strand* s : strands) {
      if (then_ && s->missed_field == s->cursor.place().field)
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
      if (s->round.next && s->missed_field == s->round.next->place.field) missed_.push_back(s);
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
    if (then_ && request_.options.most_rows <= 0) {  // the width is the masks'; under a row cap it is everyone's
      s.round.window_drafts = kLongestPrevious;
      s.round.window_end = kNoEnd;
    }
    propose_along(s, [&](const Cursor& at, DraftToken&) { return said(at.place()); });
  }
  std::optional<TokenId> said(const Place& place) const {
    const auto i = static_cast<size_t>(place.index);
    if (place.field < 0) return i < previous_.tokens.size() ? std::optional(previous_.tokens[i]) : std::nullopt;
    const auto& content = previous_.fields[static_cast<size_t>(place.field)];
    if (i < content.size()) return content[i];
    return i == content.size() ? request_.field(place.field).end : std::nullopt;
  }
  const PreviousAnswer& previous_;
  std::unique_ptr<Drafter> then_;
  const DecodeRequest& request_;
  std::vector<Strand*> missed_;
};

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
    if (s.field >= 0) end = std::min(end, request_.field(s.field).start + request_.field(s.field).budget);
    if (s.field < 0 && request_.form) end = std::min(end, request_.form->length());
    // Free text has no end of its own, and its slots are reserved for so many tokens (schedule/chain.cc).
    if (s.field < 0 && !request_.form) end = std::min(end, request_.options.limit + kLongestDraft);
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
      const bool chain = s.field < 0 && request_.form;
      const auto fixed = chain ? request_.form->fixed_at(u) : std::nullopt;
      const size_t row = add(fixed.value_or(rule_.mask), known + u - first);
      const int32_t f = s.field >= 0 ? s.field : chain ? request_.form->field_at(u) : -1;
      if (!fixed) next_.want(row - (rule_.shift ? 1 : 0), want_of(f));
    }
  }

  Want want_of(int32_t field) const { return chooser_.draft_want(field); }

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

std::unique_ptr<Drafter> make_no_drafter() { return std::make_unique<NoDrafter>(); }

std::unique_ptr<Drafter> make_previous_drafter(const PreviousAnswer& previous, std::unique_ptr<Drafter> then, Passes& passes) {
  return std::make_unique<PreviousDrafter>(previous, std::move(then), passes);
}

std::unique_ptr<Drafter> make_diffusion_drafter(const DraftRule& rule, bool adapter, Passes& passes) {
  return std::make_unique<DiffusionDrafter>(rule, adapter, passes);
}

bool says_anything(std::span<const float> logits_V, const Allowed& allowed) {
  bool any = false;
  for_each_allowed(allowed, static_cast<int32_t>(logits_V.size()), [&](TokenId id) {
    any = any || logits_V[static_cast<size_t>(id.value)] > -std::numeric_limits<float>::infinity();
  });
  return any;
}

namespace {

Result<std::unique_ptr<Drafter>> make_own_drafter(const DiffusionSpec& d, const Method& m, const LmInfo& info,
                                                  const Capacity& capacity, Passes& p) {
  if (!d.ahead) return make_diffusion_drafter(info.rule, d.adapter, p);
  if (capacity.route != Route::kGraph)
    return unsupported("--drafter diffusion:ahead: expected a form's graph, got the {} schedule", words_of(m).schedule);
  return make_ahead_drafter(info.rule, capacity.group, p);
}

}  // namespace

Result<std::unique_ptr<Drafter>> make_drafter(const Method& m, const LmInfo& info, const Capacity& capacity, Passes& p) {
  const DecodeContext& context = p.request().context;
  if (std::holds_alternative<NoDraftSpec>(m.drafter)) return make_no_drafter();
  const bool graph = capacity.route == Route::kGraph;
  if (const auto* d = std::get_if<DiffusionSpec>(&m.drafter)) return make_own_drafter(*d, m, info, capacity, p);
  if (const auto* d = std::get_if<PreviousSpec>(&m.drafter)) {
    if (!context.previous) return usage_error("--drafter previous: expected an earlier answer (previous:FILE), got none");
    std::unique_ptr<Drafter> then;
    if (d->then) {
      SLIP_TRY(then, make_own_drafter(*d->then, m, info, capacity, p));
    }
    return make_previous_drafter(*context.previous, std::move(then), p);
  }
  if (std::holds_alternative<QuadraticSpec>(m.drafter)) return make_quadratic_drafter(info.rule, m.width.tokens, capacity, p);
  if (const auto* d = std::get_if<LookupSpec>(&m.drafter)) return make_lookup_drafter(d->longest, graph, p);
  if (std::holds_alternative<DFlashSpec>(m.drafter)) return make_head_drafter(context.draft_head, info, p);
  const auto& model = std::get<ModelSpec>(m.drafter);
  if (!context.draft_model) return usage_error("--drafter model: expected a model (model:DIR), got none");
  const int32_t room = capacity.strand_rows(p.request().options.limit, p.request().form ? p.request().form->length() : 0);
  return make_model_drafter(*context.draft_model, model.coupled, room, graph, p);
}

}  // namespace slip
