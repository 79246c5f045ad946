// SPDX-License-Identifier: Apache-2.0
// One loaded model, many requests under way, one pass for all of them. Each request's decoder runs as it is on a fiber; where it wants a
// pass it stops, and one thread puts the rows of all who wait into one pass. By contract W each answer has the bytes that it would have
// alone. A request holds its slots before its first pass; it is admitted by what is known of its kind and of those before it.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "service/schedule.h"
#include "service/slot_pages.h"

namespace slip {

struct ServiceOptions {
  int32_t most_running = 64, most_waiting = 256;  // requests
  double pass_budget_ms = 50;
  size_t feature_bytes = size_t{256} << 20;  // features of images, kept by content
  bool share_prompts = true;
  std::optional<CostTable> costs;  // of passes, in place of those measured at the start
  double aging_s = 10;             // a batch request that has waited so long counts as an interactive one
};

/// What became of a request.
enum class Fate : uint8_t {
  kAnswered,
  kFailed,     // its own fault, or ours: the error says
  kFull,       // refused: too many wait
  kTooLate,    // refused: its deadline would not be kept
  kLate,       // its deadline passed while it waited or ran
  kCancelled,  // nobody waits for it any more
};

struct Served {
  Fate fate = Fate::kAnswered;
  double queue_ms = 0, run_ms = 0;
  double predicted_ms = 0;                 // at admission, from then to its end, of refused ones too; 0: nothing was known
  double retry_after_s = 0;                // of refusals
  int64_t prompt_rows = 0, kept_rows = 0;  // of those that came so far; kept: found, and not run again
};

struct PassTold {
  int64_t rows = 0, prompt_rows = 0;  // of these: of passes that were cut
  int32_t requests = 0;
  double ms = 0;
  bool draft = false;  // with the draft adapter
};

struct ServiceLoad {
  int32_t running = 0, waiting = 0, room = 0;  // room: that may run or wait in all
  int32_t pages = 0, pages_held = 0, pages_kept = 0;
  int64_t prompt_rows = 0, prompt_rows_found = 0;  // looked for in kept pages, found there
  int64_t images = 0, images_found = 0;
  int64_t passes = 0;
};

/// A request as the service takes it. `done` is called exactly once, on the caller's thread for what is refused, else on the service's: cheap
/// work only.
struct Ask {
  Request request;
  Terms terms;
  std::function<void(Result<Answer>, const Served&)> done;
  RequestKind kind = {};
  std::shared_ptr<void> pictures = {};  // somebody's count of the request's grids: both are let go when features stand for them
};

class Service {
 public:
  /// The engine is the service's alone from now on. Measures what passes cost here, a quarter of a second.
  static Result<std::unique_ptr<Service>> start(Engine& engine, const ServiceOptions& options, const CancelToken& cancel = {});
  /// Ends what is under way.
  ~Service();
  /// From any thread; returns at once.
  void submit(Ask ask);
  /// Would a request of this kind be refused now? What can be said before its images are read.
  Served outlook(const RequestKind& kind, const Terms& terms) const;
  ServiceLoad load() const;
  /// Told of every pass on the service's thread. Set before the first request.
  void on_pass(std::function<void(const PassTold&)> told) { on_pass_ = std::move(told); }
  const CostTable& cost() const { return cost_; }
  /// Whether the caller runs on the service's thread, where callbacks are called.
  bool is_this_thread() const { return std::this_thread::get_id() == thread_.get_id(); }

 private:
  class Seated;
  struct Waiting {
    Ask ask;
    CancelToken cancel;
    Clock::time_point since;
    double predicted_ms = 0, machine_ms = 0;
    uint64_t number = 0;
  };

  Service(Engine& engine, const ServiceOptions& options);
  void work();
  bool turn();
  bool drop_waiting();
  void drop_waiting_in_memory();
  void admit();
  void admit_in_memory();
  void resume_ready();
  bool resume(Seated& seated);
  void resume_first(int state);
  void finish();
  bool run_pass();
  bool run_pass_in_memory();
  void tell_load();
  double backlog_ms(const Terms& terms) const;
  Served take(Ask& ask);
  Served outlook_locked(const RequestKind& kind, const Terms& terms) const;
  static Error why(Fate fate);  // it ends without an answer
  size_t next_waiting() const;

  Engine& engine_;
  const ServiceOptions options_;
  CostTable cost_;
  std::function<void(const PassTold&)> on_pass_;

  mutable std::mutex mutex_;  // what is below, up to the next blank line
  std::condition_variable wake_;
  std::deque<Waiting> waiting_;
  Experience experience_;
  ServiceLoad load_;
  double running_backlog_ms_ = 0;
  bool stopping_ = false;

  // Of the service's thread.
  SlotPages pages_;
  FairShares shares_;
  PassMerger merger_;
  std::vector<std::unique_ptr<Seated>> seated_;
  Seated *in_tower_ = nullptr, *with_helper_ = nullptr;
  double company_ = 1;
  uint64_t next_number_ = 1, next_since_ = 1;
  std::thread thread_;
};

}  // namespace slip
