// SPDX-License-Identifier: Apache-2.0
// See job.h.
#include "python/job.h"

#include <utility>

#include "python/background.h"

namespace slipstream::python {

Job::Job(std::shared_ptr<Engine> engine, Request request, Keep keep, std::function<void()> on_done)
    : engine_(std::move(engine)),
      request_(std::move(request)),
      token_(request_.cancel),
      keep_(keep),
      on_done_(std::move(on_done)) {}

std::shared_ptr<Job> Job::start(std::shared_ptr<Engine> engine, Request request, Keep keep, std::function<void()> on_done) {
  const std::shared_ptr<Job> job(new Job(std::move(engine), std::move(request), keep, std::move(on_done)));
  in_background([job] { job->run(); }, [job] { job->cancel(); });
  return job;
}

void Job::run() {
  OnEvent on_event;
  if (keep_ != Keep::kNothing) on_event = [this](const Event& event) { keep_event(event); };
  Result<Answer> answer = engine_->answer(request_, on_event);
  // Images and the engine are given back here: whoever waits finds them free.
  request_ = Request();
  engine_.reset();
  {
    const std::lock_guard lock(mutex_);
    answer_ = std::move(answer);
    done_ = true;
  }
  changed_.notify_all();
  if (on_done_) on_done_();
  on_done_ = nullptr;
}

void Job::keep_event(const Event& event) {
  const bool own_plan = event.kind == Event::Kind::kPlan && event.plan_source != "head";  // the answer says it too
  if (event.kind == Event::Kind::kPrefill || own_plan || (keep_ == Keep::kDecided && event.kind == Event::Kind::kPass)) return;
  EventCopy copy{event.kind,      event.field ? *event.field : FieldValue(), std::string(event.text), event.forwards, event.tokens,
                 event.elapsed_ms};
  if (event.kind == Event::Kind::kPlan) copy.field = {std::string(event.after_section), event.plan->to_json(), ""};
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(std::move(copy));
  }
  changed_.notify_all();
}

bool Job::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Job::wait_for(std::chrono::milliseconds span, bool or_event) const {
  std::unique_lock lock(mutex_);
  return changed_.wait_for(lock, span, [&] { return done_ || (or_event && !events_.empty()); });
}

std::optional<EventCopy> Job::take_event() {
  const std::lock_guard lock(mutex_);
  if (events_.empty()) return std::nullopt;
  EventCopy out = std::move(events_.front());
  events_.pop_front();
  return out;
}

Result<Answer> Job::take_answer() {
  const std::lock_guard lock(mutex_);
  return std::move(*answer_);
}

}  // namespace slipstream::python
