// SPDX-License-Identifier: Apache-2.0
// An answer in a thread of its own, so that the thread that asked stays with Python: it waits without the GIL, looks for signals every few
// milliseconds, and can leave. Nothing in this header needs the GIL, apart from what is said.
#pragma once
#include <unistd.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "slipstream/engine.h"

namespace slipstream::python {

/// An Event that outlives the call.
struct EventCopy {
  Event::Kind kind = Event::Kind::kPass;
  FieldValue field;
  std::string text;
  int64_t forwards = 0, tokens = 0;
  double elapsed_ms = 0;
};

/// Which events are kept for next().
enum class Keep : uint8_t { kNothing, kDecided, kAll };

class Job {
 public:
  /// Begins. The engine, and through the request's owners the images, live until the thread has ended. `on_done` runs there, last.
  static std::shared_ptr<Job> start(std::shared_ptr<Engine> engine, Request request, Keep keep, std::function<void()> on_done = {});

  void cancel() { token_.cancel(); }
  /// A fork has the job's memory and not its thread, which may have held the lock: nothing below may be called there.
  bool is_of_this_process() const { return process_ == ::getpid(); }
  bool done() const;
  /// Waits at most so long for the end, or with `or_event` for an event to take. True where there is what was waited for.
  bool wait_for(std::chrono::milliseconds span, bool or_event) const;
  std::optional<EventCopy> take_event();
  /// Once, after the end.
  Result<Answer> take_answer();

 private:
  Job(std::shared_ptr<Engine> engine, Request request, Keep keep, std::function<void()> on_done);
  void run();
  void keep_event(const Event& event);

  const pid_t process_ = ::getpid();
  std::shared_ptr<Engine> engine_;
  Request request_;
  CancelToken token_;  // the request's
  const Keep keep_;
  std::function<void()> on_done_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::deque<EventCopy> events_;
  std::optional<Result<Answer>> answer_;
};

}  // namespace slipstream::python
