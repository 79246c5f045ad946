// SPDX-License-Identifier: Apache-2.0
// The passes of one answer, in order: one is laid out (pass_builder.h), the prompt's rows travel with it where they wait (prefill.h), it
// runs, and tokens are picked from its rows (chooser.h). Every pass of the big model goes through run(), which polls for cancellation,
// counts and times. Where strands' rows go is the schedule's business.
#pragma once
#include <functional>
#include <map>
#include <optional>

#include "decode/pass/chooser.h"
#include "decode/pass/pass_builder.h"
#include "decode/pass/prefill.h"
#include "decode/pass/request.h"

namespace slip {

enum class PassKind { kPrefill, kDraft, kVerify };

class Passes {
 public:
  Passes() : chooser_(next_, out_) {}
  Passes(const Passes&) = delete;
  Passes& operator=(const Passes&) = delete;

  /// Starts a new answer. The prompt of the last one stays known, so that its rows can be reused.
  void start(const DecodeRequest& request);
  const DecodeRequest& request() const { return *request_; }
  PassBuilder& next() { return next_; }
  Prefill& prefill() { return prefill_; }
  Chooser& chooser() { return chooser_; }
  const PassOutput& output() const { return out_; }

  /// kResource unless `answer_rows` fit behind the prompt; makes room for passes of that many rows.
  Status reserve(int64_t answer_rows);
  /// Begins a pass: with the prefill if that is deferred, and with what a schedule's hook adds. It must then be run. `provisional`: its
  /// keys are not final (a pass with the draft adapter); what the hook adds must come again.
  void begin(bool provisional = false);
  bool provisional() const { return provisional_; }
  void on_begin(std::function<void()> hook) { hook_ = std::move(hook); }
  Status run(PassKind kind);
  /// Runs the deferred prefill in a pass of its own; none where every row is cached.
  Status run_prefill();
  /// What was compared with the form's fixed tokens. Rows that turned out not to hold ran again; the last word on a position counts.
  ForcedLog forced_log() const;

 private:
  void read_comparisons();
  Status forward();

  std::optional<DecodeRequest> request_;
  PassBuilder next_;
  PassOutput out_;
  Prefill prefill_;
  Chooser chooser_;
  std::function<void()> hook_;
  bool provisional_ = false;
  std::map<int32_t, ForcedLog::Miss> compared_;  // by position; own == forced where the model agrees
};

}  // namespace slip
