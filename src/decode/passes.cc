// SPDX-License-Identifier: Apache-2.0
#include "decode/passes.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/interrupt.h"

namespace slip {
namespace {

using Clock = std::chrono::steady_clock;

double ms_since(Clock::time_point t) { return std::chrono::duration<double, std::milli>(Clock::now() - t).count(); }

/// Features are megabytes: a hash of 64 bits stands for them (2 ms for 8 MB). Prompts of one caller are no adversaries.
uint64_t hash_of(std::span<const float> x) {
  uint64_t h = 0x9E3779B97F4A7C15u ^ x.size();
  const auto add = [&](uint64_t word) { h = (h ^ word) * 0xBF58476D1CE4E5B9u, h ^= h >> 29; };
  size_t i = 0;
  for (; i + 2 <= x.size(); i += 2) {
    uint64_t word = 0;
    std::memcpy(&word, x.data() + i, sizeof word);
    add(word);
  }
  if (i < x.size()) add(std::bit_cast<uint32_t>(x[i]));
  return h;
}

}  // namespace

bool Passes::Cached::holds(const Prompt& prompt) const {
  return valid && inputs == prompt.inputs && positions == prompt.positions && features_hash == hash_of(prompt.features_ND);
}

void Passes::Cached::assign(const Prompt& prompt) {
  inputs = prompt.inputs;
  positions = prompt.positions;
  features_hash = hash_of(prompt.features_ND);
  valid = true;
}

void Passes::start(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& options, Statistics& statistics) {
  lm_ = &lm;
  prompt_ = &prompt;
  form_ = form;
  options_ = &options;
  statistics_ = &statistics;
  cached_.valid = options.reuse_prompt && cached_.holds(prompt);
  clear();
}

Status Passes::reserve(int32_t answer_rows) {
  const int64_t all = int64_t{prompt_rows()} + answer_rows;
  if (all > lm_->info().slots)
    return resource_error("decode: expected an arena of at least {} slots, got {}", all, lm_->info().slots);
  rows_.reserve(static_cast<size_t>(all));
  spans_.reserve(static_cast<size_t>(all));
  return {};
}

void Passes::clear() {
  rows_.clear();
  spans_.clear();
  with_features_ = whole_prompt_ = false;
}

size_t Passes::add_prompt(Want last) {
  if (cached_.valid && last == Want::kNothing) return 0;
  with_features_ = true;
  whole_prompt_ = !cached_.valid;
  for (size_t i = cached_.valid ? prompt_->inputs.size() - 1 : 0; i < prompt_->inputs.size(); ++i) {
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

Status Passes::run(PassKind kind) {
  SLIP_TRY_(check_interrupt());
  if (options_->cancel && options_->cancel->load(std::memory_order_relaxed))
    return Error{ErrorKind::kCancelled,
                 fmt::format("decode: expected to finish, got cancelled after {} passes", statistics_->forwards)};
  if (options_->deadline && Clock::now() >= *options_->deadline)
    return Error{ErrorKind::kCancelled,
                 fmt::format("decode: expected to finish before the deadline, got {} passes done", statistics_->forwards)};
  const auto begin = Clock::now();
  const std::span<const float> features = with_features_ ? std::span<const float>(prompt_->features_ND) : std::span<const float>();
  out_.nan_rows = 0;
  SLIP_TRY_(lm_->forward({rows_, spans_, features}, out_));
  if (whole_prompt_) cached_.assign(*prompt_);
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

Want Passes::want_for(int32_t f) const {
  const Field& x = field(f);
  return x.rules.unrestricted() && temperature_of(x.section) == 0 ? Want::kArgmax : Want::kLogits;
}

Want Passes::want_for_text() const { return options_->temperature == 0 ? Want::kArgmax : Want::kLogits; }

TokenId Passes::pick(size_t row, int32_t f, int32_t index, int32_t state) {
  return want_for(f) == Want::kArgmax ? out_.argmax[row] : pick_from(out_.logits_V(row), f, index, state);
}

TokenId Passes::pick_from(std::span<const float> logits_V, int32_t f, int32_t index, int32_t state) {
  const Field& x = field(f);
  const Allowed allowed = allowed_in(x, state, listed_);
  const float temperature = temperature_of(x.section);
  if (temperature == 0) return greedy_choice(logits_V, allowed);
  const DrawKey key{options_->request, static_cast<uint32_t>(f), static_cast<uint32_t>(index), Purpose::kToken};
  return keyed_draw(logits_V, allowed, temperature, keyed_uniform(options_->seed, key));
}

Want Passes::draft_want(int32_t f) const { return field(f).rules.unrestricted() ? Want::kArgmax : Want::kLogits; }

TokenId Passes::draft(size_t row, int32_t f, int32_t state) {
  if (draft_want(f) == Want::kArgmax) return out_.argmax[row];
  return greedy_choice(out_.logits_V(row), allowed_in(field(f), state, listed_));
}

TokenId Passes::pick_text(size_t row, int32_t index) {
  if (options_->temperature == 0) return out_.argmax[row];
  const DrawKey key{options_->request, 0, static_cast<uint32_t>(index), Purpose::kToken};
  return keyed_draw(out_.logits_V(row), {}, options_->temperature, keyed_uniform(options_->seed, key));
}

void Passes::progress(std::span<const TokenId> tokens) const {
  if (options_->on_progress) options_->on_progress({tokens, statistics_->forwards});
}

}  // namespace slip
