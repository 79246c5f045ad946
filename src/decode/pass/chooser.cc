// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/chooser.h"

#include <algorithm>
#include <cmath>

#include "base/clock/operation_clock.h"

namespace slip {
namespace {

void note(const TopTwo& top, DraftFacts& facts) {
  facts.top = static_cast<float>(top.first);
  facts.margin = static_cast<float>(top.first - top.second);
}

}  // namespace

void DraftDistributions::clear() {
  ids_.clear();
  weights_.clear();
  ends_.clear();
}

int32_t DraftDistributions::keep(const Distribution& q, int32_t vocab) {
  // Room for whole lines: supports differ in length, and a round that is as wide as an earlier one must not allocate.
  const size_t room = (ends_.size() + 1) * static_cast<size_t>(vocab);
  ids_.reserve(room);
  weights_.reserve(room);
  ids_.insert(ids_.end(), q.ids.begin(), q.ids.end());
  weights_.insert(weights_.end(), q.weights.begin(), q.weights.end());
  ends_.push_back(ids_.size());
  return static_cast<int32_t>(ends_.size()) - 1;
}

Distribution DraftDistributions::of(int32_t line) const {
  const auto i = static_cast<size_t>(line);
  const size_t begin = i == 0 ? 0 : ends_[i - 1], count = ends_[i] - begin;
  return {std::span(ids_).subspan(begin, count), std::span(weights_).subspan(begin, count)};
}

void Chooser::start(const DecodeRequest& request) {
  request_ = &request;
  lists_.start(request.form, request.vocab());
  drawn_.clear();
  records_drawn_ = true;
  failure_ = {};
}

float Chooser::temperature_of(int32_t section) const {
  for (const auto& [s, t] : request_->options.section_temperature)
    if (s == section) return t;
  return request_->options.temperature;
}

float Chooser::temperature_at(const Place& place) const {
  return place.field ? temperature_of(request_->field(*place.field).section) : request_->options.temperature;
}

Sampling Chooser::sampling_at(const Place& place) const {
  Sampling s = request_->options.sampling;
  s.temperature = temperature_at(place);
  return s;
}

Allowed Chooser::allowed_at(const Place& place) {
  return place.field ? allowed_in(request_->field(*place.field), place.state, listed_)
                     : Allowed{.any = true, .denied = request_->options.denied, .listed = {}};
}

double Chooser::uniform(uint32_t request, const Place& place, Purpose purpose) const {
  const auto f = static_cast<uint32_t>(place.field.value_or(0));
  return keyed_uniform(request_->options.seed, {request, f, static_cast<uint32_t>(place.index), purpose});
}

Want Chooser::want_at(const Place& place) {
  const Sampling s = sampling_at(place);
  if (s.repetition != 1 || request_->options.log_probs || (s.temperature != 0 && !s.plain())) return Want::kLogits;
  if (s.temperature != 0) return Want::kLikely;
  const bool free = place.field ? request_->field(*place.field).rules.unrestricted() : request_->options.denied.empty();
  return free || lists_.at(place) ? Want::kArgmax : Want::kLikely;
}

void Chooser::ask(size_t row, Want want, const Place& place) {
  const OperationScope masking("masks of fields");
  pass_.want_too(row, want, want == Want::kArgmax ? lists_.at(place) : std::nullopt);
}

TokenId Chooser::pick_at(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history) {
  const OperationScope choosing("choice of tokens");
  const TokenId token = target_token(row, request, place, history);
  const DecodeOptions& o = request_->options;
  if (!o.log_probs || !records_drawn_ || request != o.request) return token;
  const Allowed allowed = allowed_at(place);
  if (has_one_choice(allowed, request_->vocab())) {  // as where a decoder knows that and draws nothing
    drawn_.erase({place.field, place.index});
    return token;
  }
  Drawn& drawn = drawn_[{place.field, place.index}];
  drawn.log_prob = std::log(probability_of(out_.logits_V(row), allowed, token));
  drawn.top.clear();
  if (o.top_log_probs <= 0) return token;
  for (const LikelyId& one : likeliest_ids(out_.logits_V(row), allowed, o.top_log_probs))
    drawn.top.push_back({one.id, one.log_prob});
  return token;
}

/// By field, or of free text: of(what was drawn) at every place of the answer's content, T{} where nothing else was allowed, and of an END that
/// was not the only choice.
template <class T, class Of>
std::vector<std::vector<T>> Chooser::of_drawn(const Decoded& answer, Of of) const {
  std::vector<std::vector<T>> out;
  const auto collect = [&](std::optional<int32_t> field, size_t tokens, bool may_end) {
    std::vector<T>& list = out.emplace_back();
    for (size_t i = 0; i < tokens + (may_end ? 1 : 0); ++i) {
      const auto at = drawn_.find({field, static_cast<int32_t>(i)});
      if (at != drawn_.end())
        list.push_back(of(at->second));
      else if (i < tokens)
        list.push_back({});
    }
  };
  if (!request_->form) collect(std::nullopt, answer.tokens.size(), false);
  for (size_t f = 0; request_->form && f < answer.fields.size(); ++f) {
    const Field& x = request_->field(static_cast<int32_t>(f));
    const size_t n = answer.fields[f].size();
    collect(static_cast<int32_t>(f), n, x.end && static_cast<int32_t>(n) < x.budget);
  }
  return out;
}

std::vector<std::vector<double>> Chooser::log_probs(const Decoded& answer) const {
  return of_drawn<double>(answer, [](const Drawn& d) { return d.log_prob; });
}

std::vector<std::vector<std::vector<Decoded::IdLogProb>>> Chooser::top_log_probs(const Decoded& answer) const {
  return of_drawn<std::vector<Decoded::IdLogProb>>(answer, [](const Drawn& d) { return d.top; });
}

TokenId Chooser::target_token(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history) {
  if (want_at(place) == Want::kArgmax && pass_.row(row).allowed == lists_.at(place)) return out_.argmax[row];
  const Sampling s = sampling_at(place);
  const auto line = out_.kept_line_of(row);
  if (line && s.plain() && (s.temperature != 0 || out_.logits_row[row] < 0)) return pick_kept(*line, request, place);
  const Allowed allowed = allowed_at(place);
  const std::span<const float> logits_V = out_.logits_V(row);
  if (!s.plain())
    return choose(logits_V, allowed, s, history, s.temperature == 0 ? 0 : uniform(request, place, Purpose::kToken), buffers_);
  if (s.temperature == 0) return greedy_choice(logits_V, allowed);
  return keyed_draw(logits_V, allowed, s.temperature, uniform(request, place, Purpose::kToken));
}

/// All of a line that an Lm keeps. A failure ends the answer behind the round (schedules ask for it).
std::span<const float> Chooser::all_kept(int32_t line) {
  const auto all = out_.kept->all(line);
  if (all) return *all;
  if (failure_) failure_ = all.error();
  nothing_V_.assign(static_cast<size_t>(request_->vocab()), 0.0F);
  return nothing_V_;
}

/// target_token of logits that an Lm keeps, for settings that want_at asks no others for.
TokenId Chooser::pick_kept(int32_t line, uint32_t request, const Place& place) {
  const float temperature = temperature_at(place);
  const Allowed allowed = allowed_at(place);
  if (temperature == 0) {
    const auto first = first_allowed(out_.kept->likeliest(line), allowed);
    return first ? *first : greedy_choice(all_kept(line), allowed);
  }
  const auto drawn =
      out_.kept->draw(line, bits_of(allowed, request_->vocab(), bits_), temperature, uniform(request, place, Purpose::kToken));
  if (!drawn && failure_) failure_ = drawn.error();
  return drawn && *drawn ? **drawn : greedy_choice(all_kept(line), allowed);
}

Want Chooser::draft_want(std::optional<int32_t> field) const {
  if (needs_.sampled || request_->options.sampling.repetition != 1) return Want::kLogits;
  return !needs_.facts && (!field || request_->field(*field).rules.unrestricted()) ? Want::kArgmax : Want::kLikely;
}

TokenId Chooser::draft_from(size_t row, const Strand& strand, DraftToken& draft) {
  if (out_.logits_row[row] >= 0) return propose_from(out_.logits_V(row), strand, draft);
  const auto line = out_.kept_line_of(row);
  return line ? draft_kept(*line, strand, draft) : out_.argmax[row];
}

/// propose_from logits that an Lm keeps: the largest nearly always do.
TokenId Chooser::draft_kept(int32_t line, const Strand& strand, DraftToken& draft) {
  const OperationScope choosing("choice of tokens");
  const Allowed allowed = allowed_at(draft.place);
  const auto likely = out_.kept->likeliest(line);
  const auto first = first_allowed(likely, allowed);
  if (!first) return propose_from(all_kept(line), strand, draft);
  if (!needs_.facts) return *first;
  const auto top = top_two(likely, out_.kept->log_sum_exp(line), allowed);
  if (!top) return propose_from(all_kept(line), strand, draft);
  note(*top, draft.facts);
  return *first;
}

TokenId Chooser::propose_from(std::span<const float> logits_V, const Strand& strand, DraftToken& draft) {
  const OperationScope choosing("choice of tokens");
  const Allowed allowed = allowed_at(draft.place);
  if (needs_.facts) note(top_two(logits_V, allowed), draft.facts);
  Sampling s = sampling_at(draft.place);
  if (!needs_.sampled) s.temperature = 0;
  if (s.temperature == 0 && s.repetition == 1) return greedy_choice(logits_V, allowed);
  const auto history = strand.history(draft.place, draft.rows);
  if (s.temperature == 0) return choose(logits_V, allowed, s, history, 0, buffers_);
  distribution(logits_V, allowed, s, history, buffers_);
  draft.q = distributions_.keep(buffers_, request_->vocab());
  return drawn(buffers_, uniform(strand.request, draft.place, Purpose::kDraft));
}

}  // namespace slip
