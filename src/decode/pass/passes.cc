// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/passes.h"

#include <algorithm>

#include "base/check.h"
#include "base/measure.h"

namespace slip {

void Passes::start(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& options, const DecodeContext& context,
                   Statistics& statistics) {
  lm_ = &lm;
  prompt_ = &prompt;
  form_ = form;
  options_ = &options;
  context_ = &context;
  statistics_ = &statistics;
  memory_ = context.prefix_cache ? context.prefix_cache : &own_memory_;
  static const Prompt kNone;
  cached_rows_ = memory_->crop_to(lm, options.reuse_prompt ? prompt : kNone, context.draft_head);
  statistics.reused_rows = cached_rows_;
  lists_.start(form, lm.info().vocab);
  deferred_ = false;
  hook_ = {};
  compared_.clear();
  clear();
}

Status Passes::reserve(int64_t answer_rows) {
  const int64_t all = prompt_rows() + answer_rows;
  if (all > lm_->info().slots)
    return resource_error("decode: expected an arena of at least {} slots, got {}", all, lm_->info().slots);
  rows_.reserve(static_cast<size_t>(all));
  spans_.reserve(static_cast<size_t>(all));
  return {};
}

void Passes::clear() {
  rows_.clear();
  spans_.clear();
  comparisons_.clear();
  with_features_ = prompt_runs_ = taps_ = adapter_ = carries_prefill_ = false;
}

void Passes::defer_prefill(bool last, std::span<const TokenId> scaffold, std::span<const int32_t> scaffold_positions) {
  deferred_ = true;
  deferred_last_ = last;
  scaffold_ = scaffold;
  scaffold_positions_ = scaffold_positions;
}

void Passes::begin(bool provisional) {
  clear();
  provisional_ = provisional;
  if (deferred_) {
    // A cached prompt runs no row but a last one that is asked for; who asks raises its want.
    const bool log = options_->log_forced && form_;
    const size_t rows = add_prompt(deferred_last_ || log ? Want::kArgmax : Want::kNothing);
    if (rows > 0) prompt_last_row_ = rows - 1;
    if (log && form_->fixed_at(0)) compare(prompt_last_row_, 0, *form_->fixed_at(0));
    for (size_t k = 0; k < scaffold_.size(); ++k) {
      if (log && k > 0 && scaffold_positions_[k] == scaffold_positions_[k - 1] + 1)
        compare(this->rows() - 1, scaffold_positions_[k], scaffold_[k]);
      const int32_t slot = prompt_rows() + static_cast<int32_t>(k);
      add_row(scaffold_[k], prompt_->next_position + scaffold_positions_[k], slot, add_spans({}, {0, slot + 1}), Want::kNothing);
    }
    carries_prefill_ = !rows_.empty();
    deferred_ = false;
  }
  if (hook_) hook_();
}

Status Passes::run_prefill() {
  begin();
  return rows_.empty() ? Status{} : run(PassKind::kPrefill);
}

size_t Passes::add_prompt(Want last) {
  const int32_t first = last == Want::kNothing ? cached_rows_ : std::min(cached_rows_, prompt_rows() - 1);
  statistics_->reused_rows = std::min<int64_t>(statistics_->reused_rows, first);
  if (first == prompt_rows()) return 0;
  with_features_ = prompt_runs_ = true;
  for (auto i = static_cast<size_t>(first); i < prompt_->inputs.size(); ++i) {
    spans_.push_back({0, static_cast<int32_t>(i) + 1});
    rows_.push_back({prompt_->inputs[i], prompt_->positions[i], static_cast<int32_t>(i), static_cast<uint32_t>(spans_.size() - 1),
                     1, Want::kNothing});
  }
  rows_.back().want = last;
  return rows_.size();
}

Status Passes::prefill(Want last) {
  clear();
  return add_prompt(last) > 0 ? run(PassKind::kPrefill) : Status{};
}

void Passes::add(TokenId token, int32_t i, int32_t sees_end, Want want) {
  const SlotSpan sees{0, prompt_rows() + sees_end};
  if (spans_.empty() || spans_.back() != sees) spans_.push_back(sees);
  rows_.push_back(
      {token, Position::text(prompt_->next_position + i), prompt_rows() + i, static_cast<uint32_t>(spans_.size() - 1), 1, want});
}

Passes::Sees Passes::add_spans(std::span<const SlotSpan> context, SlotSpan own) {
  Sees sees{static_cast<uint32_t>(spans_.size()), 0};
  const auto append = [&](SlotSpan s) {
    if (s.begin >= s.end) return;
    if (sees.count > 0 && spans_.back().end == s.begin) {
      spans_.back().end = s.end;
      return;
    }
    spans_.push_back(s);
    ++sees.count;
  };
  for (const SlotSpan& s : context) append(s);
  append(own);
  return sees;
}

size_t Passes::add_row(TokenId token, int32_t position, int32_t slot, Sees sees, Want want) {
  rows_.push_back({token, Position::text(position), slot, sees.first, sees.count, want});
  return rows_.size() - 1;
}

Status Passes::poll() const { return context_->cancel.check("decode", statistics_->forwards, "passes"); }

Status Passes::run(PassKind kind) {
  SLIP_TRY_(poll());
  if (carries_prefill_) kind = PassKind::kPrefill;
  const auto begin = Clock::now();
  const std::span<const float> features = with_features_ ? std::span<const float>(prompt_->features_ND) : std::span<const float>();
  out_.nan_rows = 0;
  SLIP_TRY_(lm_->forward({rows_, spans_, features, adapter_, taps_, lists_.lists()}, out_));
  if (prompt_runs_) {
    memory_->assign(*prompt_, lm_->info().hidden_size, context_->draft_head);
    cached_rows_ = prompt_rows();
  }
  memory_->ran(*lm_);
  read_comparisons();
  const double ms = ms_since(begin);
  ++statistics_->forwards;
  statistics_->nan_rows += out_.nan_rows;
  statistics_->rows += static_cast<int64_t>(rows_.size());
  if (kind == PassKind::kPrefill) statistics_->ms.prefill += ms;
  if (kind == PassKind::kVerify) statistics_->ms.verify += ms;
  if (kind == PassKind::kDraft) {
    statistics_->ms.draft += ms;
    ++statistics_->draft_forwards;
  }
  return {};
}

float Passes::temperature_of(int32_t section) const {
  for (const auto& [s, t] : options_->section_temperature)
    if (s == section) return t;
  return options_->temperature;
}

Sampling Passes::sampling_at(const Place& place) const {
  Sampling s = options_->sampling;
  s.temperature = temperature_at(place);
  return s;
}

Allowed Passes::allowed_at(const Place& place) {
  return place.field < 0 ? Allowed{.any = true, .denied = options_->denied, .listed = {}}
                         : allowed_in(field(place.field), place.state, listed_);
}

Want Passes::want_at(const Place& place) {
  if (temperature_at(place) != 0 || options_->sampling.repetition != 1) return Want::kLogits;
  const bool free = place.field < 0 ? options_->denied.empty() : field(place.field).rules.unrestricted();
  return free || lists_.at(place) >= 0 ? Want::kArgmax : Want::kLogits;
}

void Passes::compare(size_t row, int32_t position, TokenId forced) {
  rows_[row].want = Want::kLogits;
  rows_[row].allowed = -1;
  comparisons_.push_back({row, position, forced});
}

void Passes::read_comparisons() {
  for (const Comparison& c : comparisons_) {
    const std::span<const float> logits = logits_V(c.row);
    const TokenId own = greedy_choice(logits, {});
    compared_[c.position] = {c.position, c.forced, own, probability_of(logits, {}, c.forced), probability_of(logits, {}, own)};
  }
  comparisons_.clear();
}

ForcedLog Passes::forced_log() const {
  ForcedLog log{.compared = static_cast<int64_t>(compared_.size()), .misses = {}};
  for (const auto& [position, miss] : compared_)
    if (miss.own != miss.forced) log.misses.push_back(miss);
  return log;
}

void Passes::ask(size_t row, Want w, const Place& place) {
  Row& r = rows_[row];
  const int32_t allowed = w == Want::kArgmax ? lists_.at(place) : -1;
  if (r.want == Want::kNothing) {
    r.want = w;
    r.allowed = allowed;
  } else if (r.want != w || r.allowed != allowed) {  // two questions of one row: its logits answer both
    r.want = Want::kLogits;
    r.allowed = -1;
  }
}

double Passes::uniform(uint32_t request, const Place& place, Purpose purpose) const {
  const auto f = static_cast<uint32_t>(std::max(place.field, 0));
  return keyed_uniform(options_->seed, {request, f, static_cast<uint32_t>(place.index), purpose});
}

TokenId Passes::pick_at(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history) {
  if (want_at(place) == Want::kArgmax && rows_[row].allowed == lists_.at(place)) return out_.argmax[row];
  const Sampling s = sampling_at(place);
  const Allowed allowed = allowed_at(place);
  const std::span<const float> logits_V = out_.logits_V(row);
  if (!s.plain())
    return choose(logits_V, allowed, s, history, s.temperature == 0 ? 0 : uniform(request, place, Purpose::kToken), choice_);
  if (s.temperature == 0) return greedy_choice(logits_V, allowed);
  return keyed_draw(logits_V, allowed, s.temperature, uniform(request, place, Purpose::kToken));
}

Want Passes::draft_want_at(const Place& place) const {
  return place.field < 0 || field(place.field).rules.unrestricted() ? Want::kArgmax : Want::kLogits;
}

TokenId Passes::draft_from(size_t row, const Strand& strand, DraftToken& draw) {
  return out_.logits_row[row] < 0 ? out_.argmax[row] : propose_from(out_.logits_V(row), strand, draw);
}

TokenId Passes::propose_from(std::span<const float> logits_V, const Strand& strand, DraftToken& draw) {
  const Allowed allowed = allowed_at(draw.place);
  if (facts_) {
    const TopTwo top = top_two(logits_V, allowed);
    draw.facts.top = static_cast<float>(top.first);
    draw.facts.margin = static_cast<float>(top.first - top.second);
  }
  Sampling s = sampling_at(draw.place);
  if (!sampled_drafts_) s.temperature = 0;
  if (s.temperature == 0 && s.repetition == 1) return greedy_choice(logits_V, allowed);
  const auto history = strand.history(draw.place, draw.row);
  if (s.temperature == 0) return choose(logits_V, allowed, s, history, 0, choice_);
  distribution(logits_V, allowed, s, history, choice_);
  draw.q = keep_q(choice_);
  return drawn(choice_, uniform(strand.request, draw.place, Purpose::kDraft));
}

void Passes::clear_q() {
  q_ids_.clear();
  q_weights_.clear();
  q_ends_.clear();
}

int32_t Passes::keep_q(const Distribution& q) {
  // Room for whole lines: supports differ in length, and a round that is as wide as an earlier one must not allocate.
  const size_t room = (q_ends_.size() + 1) * static_cast<size_t>(vocab());
  q_ids_.reserve(room);
  q_weights_.reserve(room);
  q_ids_.insert(q_ids_.end(), q.ids.begin(), q.ids.end());
  q_weights_.insert(q_weights_.end(), q.weights.begin(), q.weights.end());
  q_ends_.push_back(q_ids_.size());
  return static_cast<int32_t>(q_ends_.size()) - 1;
}

Distribution Passes::q_of(int32_t line) const {
  const auto i = static_cast<size_t>(line);
  const size_t begin = i == 0 ? 0 : q_ends_[i - 1], count = q_ends_[i] - begin;
  return {std::span(q_ids_).subspan(begin, count), std::span(q_weights_).subspan(begin, count)};
}

void Passes::progress(std::span<const TokenId> tokens) const {
  if (context_->on_progress)
    context_->on_progress(
        {.tokens = tokens, .fields = {}, .decided = static_cast<int64_t>(tokens.size()), .forwards = statistics_->forwards});
}

void Passes::progress(std::span<const std::vector<TokenId>> fields) const {
  if (!context_->on_progress) return;
  int64_t decided = 0;
  for (const auto& f : fields) decided += static_cast<int64_t>(f.size());
  context_->on_progress({.tokens = {}, .fields = fields, .decided = decided, .forwards = statistics_->forwards});
}

}  // namespace slip
