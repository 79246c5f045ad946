// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/prefill.h"

#include <algorithm>

namespace slip {

void Prefill::start(const DecodeRequest& request) {
  static const Prompt kNone;
  request_ = &request;
  cache_ = request.context.prefix_cache ? request.context.prefix_cache : &own_cache_;
  cached_rows_ = cache_->crop_to(request.lm, request.options.reuse_prompt ? request.prompt : kNone, request.context.draft_head);
  request.statistics.reused_rows = cached_rows_;
  deferred_ = travels_ = prompt_travels_ = false;
}

void Prefill::defer(bool last, std::span<const TokenId> scaffold, std::span<const int32_t> scaffold_positions,
                    std::span<const std::vector<SlotSpan>> sees) {
  deferred_ = true;
  scaffold_sees_ = sees;
  asks_last_ = last;
  scaffold_ = scaffold;
  scaffold_positions_ = scaffold_positions;
}

void Prefill::lay_out(PassBuilder& pass) {
  travels_ = prompt_travels_ = false;
  if (!deferred_) return;
  deferred_ = false;
  // Of a cached prompt only the last row may run, where its output is asked for. Who asks raises what the row is wanted for.
  const Form* form = request_->options.log_forced ? request_->form : nullptr;
  const size_t rows = add_prompt(pass, asks_last_ || form ? Want::kArgmax : Want::kNothing);
  if (rows > 0) last_row_ = rows - 1;
  if (form && form->fixed_at(0)) pass.compare({last_row_, 0, *form->fixed_at(0)});
  for (size_t k = 0; k < scaffold_.size(); ++k) {
    if (form && k > 0 && scaffold_positions_[k] == scaffold_positions_[k - 1] + 1)
      pass.compare({pass.rows() - 1, scaffold_positions_[k], scaffold_[k]});
    const int32_t slot = request_->prompt_rows() + static_cast<int32_t>(k);
    pass.add_row(scaffold_[k], request_->prompt.next_position + scaffold_positions_[k], slot, sees_of(pass, k, slot),
                 Want::kNothing);
  }
  travels_ = pass.rows() > 0;
}

PassBuilder::Sees Prefill::sees_of(PassBuilder& pass, size_t k, int32_t slot) const {
  if (scaffold_sees_.empty()) return pass.add_spans({}, {0, slot + 1});
  const int32_t prompt = request_->prompt_rows();
  std::vector<SlotSpan> before{{0, prompt}};
  for (const SlotSpan& x : scaffold_sees_[k]) before.push_back({prompt + x.begin, prompt + x.end});
  return pass.add_spans(before, {slot, slot + 1});
}

size_t Prefill::add_prompt(PassBuilder& pass, Want last) {
  const Prompt& prompt = request_->prompt;
  const int32_t n = request_->prompt_rows(), first = last == Want::kNothing ? cached_rows_ : std::min(cached_rows_, n - 1);
  request_->statistics.reused_rows = std::min<int64_t>(request_->statistics.reused_rows, first);
  if (first == n) return 0;
  prompt_travels_ = true;
  for (int32_t i = first; i < n; ++i) {
    const auto at = static_cast<size_t>(i);
    pass.add_row(prompt.inputs[at], prompt.positions[at], i, pass.add_spans({}, {0, i + 1}), i + 1 == n ? last : Want::kNothing);
  }
  return pass.rows();
}

void Prefill::ran() {
  if (prompt_travels_) {
    cache_->assign(request_->prompt, request_->lm.info().hidden_size, request_->context.draft_head);
    cached_rows_ = request_->prompt_rows();
  }
  cache_->ran(request_->lm);
}

PrefixCache& Prefill::cache_of_draft_model() {
  const DraftModel& m = *request_->context.draft_model;
  if (m.prefix_cache) return *m.prefix_cache;
  if (draft_cache_of_ != m.lm) own_draft_cache_ = {};
  draft_cache_of_ = m.lm;
  return own_draft_cache_;
}

}  // namespace slip
