// SPDX-License-Identifier: Apache-2.0
#include "base/clock/operation_clock.h"

#include <chrono>
#include <utility>

#include "base/check.h"

namespace slip {

int64_t OperationClock::steady_now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void OperationClock::start() {
  SLIP_CHECK(of_thread_ == nullptr, "one clock a thread");
  at_ = {};
  last_ = now_();
  of_thread_ = this;
}

void OperationClock::stop() {
  if (of_thread_ != this) return;
  charge();
  of_thread_ = nullptr;
}

OperationClock::Line& OperationClock::line_of(Place place) {
  const std::string_view stage = place.stage, operation = place.operation;
  for (Line& line : lines_)
    if (line.stage == stage && line.operation == operation) return line;
  lines_.push_back({stage, operation});
  return lines_.back();
}

void OperationClock::charge() {
  const int64_t now = now_(), passed = now - std::exchange(last_, now);
  line_of(at_).ns += passed;
  total_ += passed;
}

OperationClock::Place OperationClock::enter(Place place, bool counts) {
  charge();
  if (counts) ++line_of(place).times;
  return std::exchange(at_, place);
}

}  // namespace slip
