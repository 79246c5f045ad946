// SPDX-License-Identifier: Apache-2.0
// See service.h. The service's thread turns: begin what waits, let every fiber that can go on do so, run one pass for those who want one.
#include "service/service.h"

#include <algorithm>
#include <limits>
#include <new>
#include <optional>
#include <tuple>

#include "base/log.h"
#include "service/seated.h"

namespace slip {
namespace {

constexpr int32_t kVisible = 1024;             // keys behind which passes are measured: a prompt with three small cameras
constexpr std::chrono::milliseconds kLook{5};  // between looks at tokens of requests that wait, which cannot wake anyone
constexpr double kSlack = 1.25;                // predictions are means: below this share of the deadline the plan comes first
constexpr double kTowerShare = 0.5;            // of a pass's budget goes to slices of towers while others decode
constexpr double kLeastRetryS = 0.1;           // of refusals: who asks again sooner finds nothing changed
constexpr double kCompanyStep = 0.25;          // a pass's weight in what draft lengths see of the load: no flapping between two

}  // namespace

Service::Service(Engine& engine, const ServiceOptions& options)
    : engine_(engine), options_(options), pages_(engine.model().lm().info().slots) {}

Result<std::unique_ptr<Service>> Service::start(Engine& engine, const ServiceOptions& options, const CancelToken& cancel) {
  std::unique_ptr<Service> out(new Service(engine, options));
  const int32_t slots = engine.model().lm().info().slots;
  if (options.costs) {
    engine.use_costs(*options.costs);
    out->cost_ = *options.costs;
  } else {
    SLIP_TRY(out->cost_, engine.measure(std::max(1, std::min(kVisible, slots - 256)), cancel));
  }
  engine.model().keep_features(options.feature_bytes);
  out->load_.pages = out->pages_.pages();
  out->thread_ = std::thread([s = out.get()] { s->work(); });
  return out;
}

Service::~Service() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Error Service::why(Fate fate) {
  const char* why = fate == Fate::kFull      ? "admit: expected room for a further request, got a full queue"
                    : fate == Fate::kTooLate ? "admit: expected a deadline that can be kept, got an earlier one"
                    : fate == Fate::kLate    ? "admit: expected to finish before the deadline, got 0 passes done"
                                             : "admit: expected to finish, got cancelled after 0 passes";
  const bool full = fate == Fate::kFull || fate == Fate::kTooLate;
  return {full ? ErrorKind::kResource : ErrorKind::kCancelled, why};
}

/// What the machine has to do before a request with these terms.
double Service::backlog_ms(const Terms& terms) const {
  double ms = running_backlog_ms_;
  for (const Waiting& w : waiting_)
    if (std::tie(w.ask.terms.batch, w.ask.terms.deadline) <= std::tie(terms.batch, terms.deadline)) ms += w.machine_ms;
  return ms;
}

Served Service::outlook_locked(const RequestKind& kind, const Terms& terms) const {
  const Experience::Cost own = experience_.expected(kind, cost_);
  const double backlog = backlog_ms(terms), ms = own.alone_ms > 0 ? slip::predicted_ms(own, backlog) : 0;
  const auto told = [&](Fate fate) {
    return Served{.fate = fate, .predicted_ms = ms, .retry_after_s = std::max(kLeastRetryS, backlog / 1000)};
  };
  // One that begins at once waits for nobody: without places to wait there are those to run.
  const bool begins = waiting_.empty() && load_.running < options_.most_running;
  if (!begins && static_cast<int32_t>(waiting_.size()) >= options_.most_waiting) return told(Fate::kFull);
  if (terms.deadline == Clock::time_point::max()) return told(Fate::kAnswered);
  const double left = std::chrono::duration<double, std::milli>(terms.deadline - Clock::now()).count();
  // Of one that takes a part, what is before it alone must leave time.
  if (ms > 0 && (terms.partial ? backlog : ms) > std::max(0.0, left) && !experience_.stale(kind.name, Clock::now()))
    return told(Fate::kTooLate);
  return told(left <= 0 ? Fate::kLate : Fate::kAnswered);  // it passed while pictures were prepared: late, and not foreseen
}

Served Service::outlook(const RequestKind& kind, const Terms& terms) const {
  const std::lock_guard lock(mutex_);
  return outlook_locked(kind, terms);
}

/// Puts it among those that wait, or says why not.
Served Service::take(Ask& ask) {
  Waiting w;
  w.cancel = CancelToken::child_of(ask.request.context.cancel);
  w.since = Clock::now();
  if (ask.terms.deadline != Clock::time_point::max()) w.cancel.set_deadline(ask.terms.deadline);
  const std::lock_guard lock(mutex_);
  if (stopping_) return {.fate = Fate::kCancelled};
  const Served served = outlook_locked(ask.kind, ask.terms);
  if (served.fate != Fate::kAnswered) return served;
  w.predicted_ms = served.predicted_ms;
  w.machine_ms = experience_.expected(ask.kind, cost_).machine_ms;
  if (experience_.stale(ask.kind.name, w.since)) experience_.tried(ask.kind.name, w.since);
  const bool in_time =
      w.predicted_ms > 0 && w.since + std::chrono::duration<double, std::milli>(kSlack * w.predicted_ms) < ask.terms.deadline;
  ask.request.plan_first = ask.terms.partial && ask.terms.deadline != Clock::time_point::max() && !in_time;
  w.ask = std::move(ask);
  waiting_.push_back(std::move(w));
  ++load_.waiting;
  return served;
}

void Service::submit(Ask ask) {
  const Served served = take(ask);
  if (served.fate == Fate::kAnswered)
    wake_.notify_all();
  else
    ask.done(why(served.fate), served);
}

ServiceLoad Service::load() const {
  const std::lock_guard lock(mutex_);
  ServiceLoad load = load_;
  const int64_t room = int64_t{options_.most_running} + options_.most_waiting;
  load.room = static_cast<int32_t>(std::min<int64_t>(room, std::numeric_limits<int32_t>::max()));
  return load;
}

void Service::work() {
  for (;;) {
    bool stopping = false;
    {
      const std::lock_guard lock(mutex_);
      stopping = stopping_;
      if (stopping)
        for (Waiting& w : waiting_) w.cancel.cancel();
      if (stopping && waiting_.empty() && seated_.empty()) return;
    }
    if (stopping)
      for (const auto& s : seated_) s->cancel_.cancel();
    if (turn()) continue;
    std::unique_lock lock(mutex_);
    if (waiting_.empty() && seated_.empty())
      wake_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
    else
      wake_.wait_for(lock, kLook);
  }
}

/// Whether anything was done.
bool Service::turn() {
  drop_waiting_in_memory();
  admit_in_memory();
  const uint64_t before = next_since_ + static_cast<uint64_t>(merger_.passes());
  const size_t seated = seated_.size();
  resume_ready();
  finish();
  const bool ran = run_pass_in_memory();
  tell_load();
  const bool paused = std::any_of(seated_.begin(), seated_.end(), [](const auto& s) { return s->state() == Seated::kPaused; });
  return ran || paused || seated_.size() != seated || before != next_since_ + static_cast<uint64_t>(merger_.passes());
}

/// The first whom nobody waits for any more, or who is late already; whether there was one. std::bad_alloc leaves it where it waits.
bool Service::drop_waiting() {
  std::optional<Waiting> dropped;
  std::optional<Error> words;
  Fate fate = Fate::kCancelled;
  {
    const std::lock_guard lock(mutex_);
    const auto at = std::ranges::find_if(waiting_, [](const Waiting& w) { return w.cancel.cancelled() || w.cancel.late(); });
    if (at == waiting_.end()) return false;
    if (Clock::now() >= at->ask.terms.deadline) fate = Fate::kLate;
    words = why(fate);
    dropped = std::move(*at);
    waiting_.erase(at);
  }
  tell(dropped->ask, std::move(*words),
       {.fate = fate, .queue_ms = ms_since(dropped->since), .predicted_ms = dropped->predicted_ms});
  return true;
}

/// Memory comes back when others end: who cannot be told so is told later.
void Service::drop_waiting_in_memory() {
  try {
    while (drop_waiting()) {
    }
  } catch (const std::bad_alloc&) {
  }
}

/// The key that has had least of the machine goes first, and of its requests the one with the earliest deadline.
size_t Service::next_waiting() const {
  const auto now = Clock::now();
  const auto order = [&](const Waiting& w) {
    const bool batch = w.ask.terms.batch && std::chrono::duration<double>(now - w.since).count() < options_.aging_s;
    return std::tuple(batch, shares_.of(w.ask.terms.key), w.ask.terms.deadline, w.since);
  };
  return static_cast<size_t>(
      std::min_element(waiting_.begin(), waiting_.end(), [&](const Waiting& a, const Waiting& b) { return order(a) < order(b); }) -
      waiting_.begin());
}

void Service::admit() {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> active;
  for (const auto& s : seated_) active.push_back(s->terms().key);
  for (const Waiting& w : waiting_) active.push_back(w.ask.terms.key);
  shares_.level(active);
  while (!waiting_.empty() && static_cast<int32_t>(seated_.size()) < options_.most_running) {
    const auto at = waiting_.begin() + static_cast<ptrdiff_t>(next_waiting());
    seated_.reserve(seated_.size() + 1);
    at->number = next_number_++;
    seated_.push_back(std::make_unique<Seated>(*this, *at));
    waiting_.erase(at);
  }
}

/// Memory comes back when others end; where nobody is under way, the first who waits is told.
void Service::admit_in_memory() {
  try {
    return admit();
  } catch (const std::bad_alloc&) {
    if (!seated_.empty()) return;
  }
  std::optional<Waiting> first;
  {
    const std::lock_guard lock(mutex_);
    if (waiting_.empty()) return;
    first = std::move(waiting_.front());
    waiting_.erase(waiting_.begin());
  }
  tell(first->ask, no_memory(), {.fate = Fate::kFailed});
}

void Service::resume_ready() {
  const auto begin = Clock::now();
  const bool others = std::any_of(seated_.begin(), seated_.end(), [](const auto& s) { return s->state() == Seated::kPass; });
  const double budget = others ? options_.pass_budget_ms * kTowerShare : options_.pass_budget_ms;
  // By index: what runs does not seat others.
  for (const auto& s : seated_) {
    if (s->done()) continue;
    const bool ran = s->state() == Seated::kPass && (s->job().done == s->job().rows.size() || !s->wanted());
    if (ran && s->job().done < s->job().rows.size()) s->job_->status = s->cancel_.check("decode", 0, "passes");
    if (s->state() == Seated::kReady || ran) s->resume();
    while (!s->done() && s->state() == Seated::kPaused && ms_since(begin) < budget) s->resume();
    if (!s->done() && s->state() == Seated::kPaused && !others) s->resume();
  }
  resume_first(Seated::kTower);
  resume_first(Seated::kSlots);
}

/// Resumes those that wait in `state`, the most urgent first, and stops at the first that must go on waiting: nobody overtakes it.
void Service::resume_first(int state) {
  for (;;) {
    Seated* first = nullptr;
    for (const auto& s : seated_)
      if (!s->done() && s->state() == state && (!first || s->deadline() < first->deadline())) first = s.get();
    if (!first) break;
    first->resume();
    if (!first->done() && first->state() == state) break;
  }
  for (const auto& s : seated_)  // whose callers have gone need not wait for their turn to hear of it
    if (!s->done() && s->state() == state && !s->wanted()) s->resume();
}

void Service::finish() {
  for (auto at = seated_.begin(); at != seated_.end();) {
    if (!(*at)->done()) {
      ++at;
      continue;
    }
    const std::unique_ptr<Seated> ended = std::move(*at);
    at = seated_.erase(at);
    try {
      shares_.used(ended->terms().key, ended->machine_ms());
      const std::lock_guard lock(mutex_);
      if (ended->answered()) experience_.seen(ended->kind(), ended->what_it_took(), cost_, Clock::now());
    } catch (const std::bad_alloc&) {  // what is not learned of it is learned of others
    }
    tell_load();  // before its caller is told, who may ask again at once
    ended->finish();
  }
}

/// A pass that finds no memory fails for all who wait for one: what they hold is free again when they end.
bool Service::run_pass_in_memory() {
  try {
    return run_pass();
  } catch (const std::bad_alloc&) {
    for (const auto& s : seated_) {
      if (s->state() != Seated::kPass) continue;
      s->job_->status = no_memory();
      s->job_->done = s->job_->rows.size();
    }
    return true;
  }
}

bool Service::run_pass() {
  std::vector<PassCandidate> candidates;
  std::vector<Seated*> whose;
  const auto now = Clock::now();
  int64_t decoding = 0;
  for (const auto& s : seated_) {
    decoding += s->decodes();
    if (s->state() != Seated::kPass || !s->wanted() || s->job().done == s->job().rows.size()) continue;
    candidates.push_back(s->candidate(now));
    whose.push_back(s.get());
  }
  if (candidates.empty()) return false;
  company_ += kCompanyStep * (static_cast<double>(std::max<int64_t>(1, decoding)) - company_);
  const std::vector<JobPart> parts = plan_pass(candidates, cost_, {.ms = budget_ms(candidates, options_.pass_budget_ms, now)});
  PassTold told{.requests = static_cast<int32_t>(parts.size()), .draft = parts[0].job->asked.draft_adapter};
  for (const JobPart& p : parts) {
    told.rows += static_cast<int64_t>(p.rows);
    if (p.job->cuts.size() > 1) told.prompt_rows += static_cast<int64_t>(p.rows);
  }
  const auto begin = Clock::now();
  merger_.run(engine_.model().lm(), parts);
  told.ms = ms_since(begin);
  for (const JobPart& p : parts)
    for (Seated* s : whose)
      if (s->job_ == p.job) s->charge(told.ms * static_cast<double>(p.rows) / static_cast<double>(told.rows));
  if (on_pass_) on_pass_(told);
  return true;
}

void Service::tell_load() {
  double backlog = 0;
  for (const auto& s : seated_) backlog += std::max(0.0, s->expected_ms() - s->machine_ms());
  const FeatureCache& features = engine_.model().kept_features();
  const std::lock_guard lock(mutex_);
  running_backlog_ms_ = backlog;
  load_.running = static_cast<int32_t>(seated_.size());
  load_.waiting = static_cast<int32_t>(waiting_.size());
  load_.pages_held = pages_.held();
  load_.pages_kept = pages_.kept();
  load_.prompt_rows = pages_.queries();
  load_.prompt_rows_found = pages_.hits();
  load_.images = features.queries();
  load_.images_found = features.hits();
  load_.passes = merger_.passes();
}

}  // namespace slip
