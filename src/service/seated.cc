// SPDX-License-Identifier: Apache-2.0
// See seated.h.
#include "service/seated.h"

#include <new>

#include "base/log.h"

namespace slip {
namespace {

/// A second network has one set of buffers and keys, and the engine's Resources one prompt for it.
bool needs_helper(const Method& m) {
  return std::holds_alternative<ModelSpec>(m.drafter) || std::holds_alternative<DFlashSpec>(m.drafter) ||
         std::holds_alternative<SamplerSpec>(m.verifier) || m.draft_length.kind == DraftLengthSpec::Kind::kBlockPilot;
}

}  // namespace

Error no_memory() noexcept {
  try {
    return {ErrorKind::kResource, "memory: expected enough of it, got an allocation that failed"};
  } catch (const std::bad_alloc&) {
    return {ErrorKind::kResource, "no memory"};  // short enough to need none
  }
}

void tell(Ask& ask, Result<Answer> answer, const Served& served) noexcept {
  try {
    ask.done(std::move(answer), served);
  } catch (const std::exception&) {
    try {
      log(LogLevel::kError, "service: expected an answer to be handed out, got an exception (no memory?): it is lost");
    } catch (const std::exception&) {  // nor for these words
    }
  }
}

Service::Seated::Seated(Service& service, Waiting& waiting)
    : service_(service), cancel_(waiting.cancel), fiber_([this] { body(); }) {
  asked_ = std::move(waiting);
  asked_.ask.request.context.cancel = cancel_;
  asked_.ask.request.context.company = &service.company_;
}

void Service::Seated::body() {
  try {
    result_ = service_.engine_.run(asked_.ask.request, *this);
  } catch (const std::bad_alloc&) {
    result_ = no_memory();
  } catch (const std::exception& e) {
    result_ = Error{ErrorKind::kInternal, fmt::format("internal error: {}", e.what())};
  }
  end_encode();
  if (service_.with_helper_ == this) service_.with_helper_ = nullptr;
  lm_.reset();
}

void Service::Seated::resume() {
  state_ = kReady;
  part_ = Clock::now();
  pausable_at_work() = this;
  fiber_.resume();
  pausable_at_work() = nullptr;
  machine_ms_ += ms_since(part_);
}

void Service::Seated::stand(State state) {
  state_ = state;
  fiber_.pause();
}

Status Service::Seated::begin_encode() {
  const bool helper = needs_helper(asked_.ask.request.method);
  while (service_.in_tower_ || (helper && service_.with_helper_)) {
    SLIP_TRY_(cancel_.check("encode", 0, "images"));
    stand(kTower);
  }
  service_.in_tower_ = this;
  if (helper) service_.with_helper_ = this;
  return {};
}

void Service::Seated::end_encode() {
  if (service_.in_tower_ == this) service_.in_tower_ = nullptr;
  asked_.ask.request.grids = {};
  asked_.ask.pictures.reset();
}

Result<Lm*> Service::Seated::take(const Prompt& prompt, int64_t slots, const Method& method, DecodeContext& context) {
  Model& model = service_.engine_.model();
  if (!service_.pages_.fits(slots))
    return resource_error("decode: expected an arena of at least {} slots, got {}", slots, model.lm().info().slots);
  // A draft head reads what the target's passes say of every row of the prompt: all of them run.
  const bool share =
      service_.options_.share_prompts && asked_.ask.request.reuse_prompt && !std::holds_alternative<DFlashSpec>(method.drafter);
  const std::vector<PromptRow> rows = rows_of(prompt, model.lm().info().hidden_size);
  std::optional<SlotPages::Held> held;
  while (!(held = service_.pages_.hold(rows, slots, share))) {
    SLIP_TRY_(cancel_.check("admit", 0, "passes"));
    stand(kSlots);
  }
  lm_.emplace(model.lm(), service_.pages_, std::move(*held), prompt, [this](PassJob& job) { wait_for(job); });
  known_.know(prompt, lm_->known_rows());
  prompt_rows_ = static_cast<int64_t>(rows.size());
  kept_rows_ = static_cast<int64_t>(lm_->known_rows());
  context.prefix_cache = &known_;
  return &*lm_;
}

void Service::Seated::wait_for(PassJob& job) {
  job_ = &job;
  job.waiting = true;
  since_ = service_.next_since_++;
  stand(kPass);
  job_ = nullptr;
}

Status Service::Seated::at_pause_point() {
  stand(kPaused);
  return cancel_.check("encode", 0, "images");
}

PassCandidate Service::Seated::candidate(Clock::time_point now) const {
  const double waited_s = std::chrono::duration<double>(now - asked_.since).count();
  return {job_, asked_.ask.terms.batch && waited_s < service_.options_.aging_s, asked_.ask.terms.deadline, since_};
}

Served Service::Seated::served() const {
  Served s;
  s.queue_ms = std::chrono::duration<double, std::milli>(begun_ - asked_.since).count();
  s.run_ms = ms_since(begun_);
  s.predicted_ms = asked_.predicted_ms;
  s.prompt_rows = prompt_rows_;
  s.kept_rows = kept_rows_;
  if (answered()) return s;
  if (result_->error().kind != ErrorKind::kCancelled)
    s.fate = Fate::kFailed;
  else
    s.fate = Clock::now() >= asked_.ask.terms.deadline ? Fate::kLate : Fate::kCancelled;
  return s;
}

void Service::Seated::finish() { tell(asked_.ask, std::move(*result_), served()); }

}  // namespace slip
