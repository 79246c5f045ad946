// SPDX-License-Identifier: Apache-2.0
// CancelToken of slipstream/error.h.
#include <fmt/format.h>

#include "base/interrupt.h"
#include "slipstream/error.h"

namespace slipstream {

CancelToken CancelToken::child_of(const CancelToken& parent) {
  CancelToken out;
  out.state_->parent = parent.state_;
  return out;
}

CancelToken CancelToken::of_process() {
  CancelToken out;
  out.state_->also = slip::interrupted;
  return out;
}

void CancelToken::set_deadline(Clock::time_point deadline) {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(deadline.time_since_epoch()).count();
  int64_t known = state_->deadline_ns.load();
  while (ns < known && !state_->deadline_ns.compare_exchange_weak(known, ns)) {
  }
}

bool CancelToken::cancelled() const {
  for (const State* s = state_.get(); s; s = s->parent.get())
    if (s->cancelled.load(std::memory_order_relaxed) || (s->also && s->also())) return true;
  return false;
}

bool CancelToken::late(Clock::time_point now) const {
  const int64_t ns = std::chrono::duration_cast<std::chrono::nanoseconds>(now.time_since_epoch()).count();
  for (const State* s = state_.get(); s; s = s->parent.get())
    if (ns >= s->deadline_ns.load(std::memory_order_relaxed)) return true;
  return false;
}

Status CancelToken::check(std::string_view stage, int64_t done, std::string_view what) const {
  for (const State* s = state_.get(); s; s = s->parent.get())
    if (s->also && s->also()) return Error{ErrorKind::kCancelled, "interrupted"};
  if (cancelled())
    return Error{ErrorKind::kCancelled, fmt::format("{}: expected to finish, got cancelled after {} {}", stage, done, what)};
  if (late())
    return Error{ErrorKind::kCancelled,
                 fmt::format("{}: expected to finish before the deadline, got {} {} done", stage, done, what)};
  return {};
}

}  // namespace slipstream
