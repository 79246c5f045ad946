// SPDX-License-Identifier: Apache-2.0
// What is decoded: everything that is fixed while an answer is made. Schedules, drafters and verifiers are given it by Passes.
#pragma once
#include <chrono>
#include <span>
#include <vector>

#include "decode/types/context.h"
#include "decode/types/options.h"
#include "decode/types/result.h"
#include "form/form.h"
#include "lm/lm.h"

namespace slip {

/// Everything that is referred to outlives the answer.
struct DecodeRequest {
  Lm& lm;
  const Prompt& prompt;
  const Form* form;  // null: free text, also where it is read against a form afterwards
  const DecodeOptions& options;
  const DecodeContext& context;
  Statistics& statistics;
  std::vector<TimedPass>* timed = nullptr;  // DecodeOptions::trace: the passes that have run
  std::chrono::steady_clock::time_point started = std::chrono::steady_clock::now();

  int32_t prompt_rows() const { return static_cast<int32_t>(prompt.inputs.size()); }
  int32_t vocab() const { return lm.info().vocab; }
  /// A field of the form, which there must be.
  const Field& field(int32_t f) const { return form->fields()[static_cast<size_t>(f)]; }
  /// kCancelled if nobody waits for the answer any more: asked before every pass, another model's too.
  Status poll() const { return context.cancel.check("decode", statistics.forwards, "passes"); }
  /// A pass has run, the big model's or another's.
  void record(TimedPass::Kind kind, std::chrono::steady_clock::time_point begin, double ms, size_t rows) const {
    if (!timed || !options.trace) return;
    timed->push_back({kind, std::chrono::duration<double, std::milli>(begin - started).count(), ms, static_cast<int64_t>(rows)});
  }
  std::optional<int32_t> last_pass() const {
    return timed && !timed->empty() ? std::optional(static_cast<int32_t>(timed->size()) - 1) : std::nullopt;
  }
  /// The context's hooks, where they are set.
  void progress(std::span<const TokenId> tokens) const;
  void progress(std::span<const std::vector<TokenId>> fields) const;
  void field_done(int32_t field, std::span<const TokenId> content) const {
    if (context.on_field) context.on_field(field, content, statistics.forwards);
  }
};

}  // namespace slip
