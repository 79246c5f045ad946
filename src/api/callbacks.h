// SPDX-License-Identifier: Apache-2.0
// Functions of the caller, called where nothing may be thrown: passes of one answer carry rows of others.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

#include "api/boundary.h"
#include "base/log.h"
#include "base/result.h"
#include "slipstream/answer.h"

namespace slip::api {

/// An on_event that does not throw: the first exception ends the answer by `cancel`, and nothing is told any more.
class GuardedEvents {
 public:
  GuardedEvents(slipstream::OnEvent on_event, CancelToken cancel)
      : state_(std::make_shared<State>(std::move(on_event), std::move(cancel))) {}
  slipstream::OnEvent events() const {
    return [state = state_](const slipstream::Event& event) {
      if (state->thrown()) return;
      try {
        state->on_event(event);
      } catch (...) {
        const std::lock_guard lock(state->mutex);
        state->error = error_of_exception("on_event");
        state->cancel.cancel();
      }
    };
  }
  /// In place of what the answer came to; nothing where it has not thrown.
  std::optional<Error> thrown() const { return state_->thrown(); }

 private:
  struct State {
    State(slipstream::OnEvent f, CancelToken c) : on_event(std::move(f)), cancel(std::move(c)) {}
    slipstream::OnEvent on_event;
    CancelToken cancel;
    std::mutex mutex;
    std::optional<Error> error;
    std::optional<Error> thrown() {
      const std::lock_guard lock(mutex);
      return error;
    }
  };
  std::shared_ptr<State> state_;
};

/// Calls f; what it throws is logged and goes no further.
template <class F>
void call_guarded(const char* name, F&& f) {
  try {
    std::forward<F>(f)();
  } catch (...) {
    try {
      log(LogLevel::kWarn, "{}", error_of_exception(name).message);
    } catch (...) {  // no memory for words: nothing else depends on them
    }
  }
}

}  // namespace slip::api
