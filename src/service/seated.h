// SPDX-License-Identifier: Apache-2.0
// One request under way: its fiber, where it stands still and why. Inside of service.cc.
#pragma once
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/pause.h"
#include "service/fiber.h"
#include "service/service.h"
#include "service/session_lm.h"

namespace slip {

/// Words that need memory where there is some, and few where there is none.
Error no_memory() noexcept;
/// Calls `ask.done`; where that throws, as without memory, the answer is lost, and the others go on.
void tell(Ask& ask, Result<Answer> answer, const Served& served) noexcept;

class Service::Seated final : public Seat, public Pausable {
 public:
  enum State { kReady, kPass, kSlots, kTower, kPaused };
  /// std::bad_alloc leaves `waiting` as it was.
  Seated(Service& service, Waiting& waiting);

  // Seat
  Status begin_encode() override;
  void end_encode() override;
  Result<Lm*> take(const Prompt& prompt, int64_t slots, const Method& method, DecodeContext& context) override;
  void places(std::span<const SlotSpan> slots, std::vector<SlotSpan>& arena) const override { lm_->places(slots, arena); }
  // Pausable
  Status at_pause_point() override;

  /// Until it stands still or ends.
  void resume();
  bool done() const { return fiber_.done(); }
  State state() const { return state_; }
  bool wanted() const { return !cancel_.cancelled() && !cancel_.late(); }
  const PassJob& job() const { return *job_; }
  PassCandidate candidate(Clock::time_point now) const;
  const Terms& terms() const { return asked_.ask.terms; }
  uint64_t number() const { return asked_.number; }
  Clock::time_point deadline() const { return asked_.ask.terms.deadline; }
  bool decodes() const { return lm_.has_value(); }
  void charge(double ms) { machine_ms_ += ms; }
  double machine_ms() const { return machine_ms_; }
  double expected_ms() const { return asked_.machine_ms; }
  /// What it held is free again, and its caller has been told.
  void finish();
  const RequestKind& kind() const { return asked_.ask.kind; }
  Experience::Answered what_it_took() const {
    return {{machine_ms_, std::min(ms_since(begun_), 2 * machine_ms_)}, prompt_rows_, kept_rows_};
  }
  bool answered() const { return result_ && result_->has_value(); }

 private:
  friend class Service;
  void body();
  void stand(State state);
  void wait_for(PassJob& job);
  Served served() const;

  Service& service_;
  Waiting asked_;
  CancelToken cancel_;
  Clock::time_point begun_ = Clock::now(), part_ = begun_;
  Fiber fiber_;
  State state_ = kReady;
  PassJob* job_ = nullptr;
  uint64_t since_ = 0;
  std::optional<SessionLm> lm_;
  PrefixCache known_;
  std::optional<Result<Answer>> result_;
  double machine_ms_ = 0;
  int64_t prompt_rows_ = 0, kept_rows_ = 0;
};

}  // namespace slip
