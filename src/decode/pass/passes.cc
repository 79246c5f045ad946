// SPDX-License-Identifier: Apache-2.0
#include "decode/pass/passes.h"

#include "base/clock/operation_clock.h"
#include "base/measure.h"

namespace slip {

void Passes::start(const DecodeRequest& request) {
  request_.emplace(request);
  prefill_.start(*request_);
  chooser_.start(*request_);
  next_.clear();
  hook_ = {};
  compared_.clear();
}

Status Passes::reserve(int64_t answer_rows) {
  const int64_t all = request_->prompt_rows() + answer_rows, slots = request_->lm.info().slots;
  if (all > slots)
    return resource_error("decode: expected an arena of at least {} slots, got {} (--slots, EngineOptions::slots)", all, slots);
  next_.reserve(static_cast<size_t>(all));
  return {};
}

void Passes::begin(bool provisional) {
  const OperationScope laying("laying out rows");
  next_.clear();
  provisional_ = provisional;
  prefill_.lay_out(next_);
  if (hook_) hook_();
}

Status Passes::run_prefill() {
  begin();
  return next_.rows() == 0 ? Status{} : run(PassKind::kPrefill);
}

// A long pass asks between pieces of its work whether anybody still waits for it.
Status Passes::forward() {
  constexpr size_t kLongRows = 128;  // shorter ones end soon by themselves
  const FeatureView features = prefill_.prompt_travels() ? FeatureView(request_->prompt.features) : FeatureView();
  const PassWatch watch{.stop = [this] { return !request_->poll(); }, .tell = request_->context.on_prefill};
  Pass pass = next_.pass(features, chooser_.lists());
  if (next_.rows() >= kLongRows) pass.watch = &watch;
  const Status done = request_->lm.forward(pass, out_);
  if (!done && done.error().kind == ErrorKind::kCancelled) SLIP_TRY_(request_->poll());  // its words for what was cancelled
  return done;
}

Status Passes::run(PassKind kind) {
  SLIP_TRY_(request_->poll());
  using Timed = TimedPass::Kind;  // a prompt that travels with a pass does not change what that pass is for
  const Timed timed = kind == PassKind::kPrefill ? Timed::kPrefill : kind == PassKind::kDraft ? Timed::kDraft : Timed::kVerify;
  if (prefill_.travels()) kind = PassKind::kPrefill;
  const StageScope stage(kind == PassKind::kPrefill ? "prefill" : kind == PassKind::kDraft ? "draft" : "verify");
  Statistics& sum = request_->statistics;
  const auto begin = Clock::now();
  out_.nan_rows = 0;
  SLIP_TRY_(forward());
  prefill_.ran();
  read_comparisons();
  const double ms = ms_since(begin);
  request_->record(timed, begin, ms, next_.rows());
  ++sum.forwards;
  sum.nan_rows += out_.nan_rows;
  sum.rows += static_cast<int64_t>(next_.rows());
  if (kind == PassKind::kPrefill) sum.ms.prefill += ms;
  if (kind == PassKind::kVerify) sum.ms.verify += ms;
  if (kind == PassKind::kDraft) {
    sum.ms.draft += ms;
    ++sum.draft_forwards;
  }
  return {};
}

void Passes::read_comparisons() {
  for (const PassBuilder::Comparison& c : next_.comparisons()) {
    const std::span<const float> logits = out_.logits_V(c.row);
    const TokenId own = greedy_choice(logits, {});
    compared_[c.position] = {c.position, c.forced, own, probability_of(logits, {}, c.forced), probability_of(logits, {}, own)};
  }
}

ForcedLog Passes::forced_log() const {
  ForcedLog log{.compared = static_cast<int64_t>(compared_.size()), .misses = {}};
  for (const auto& [position, miss] : compared_)
    if (miss.own != miss.forced) log.misses.push_back(miss);
  return log;
}

}  // namespace slip
