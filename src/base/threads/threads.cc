// SPDX-License-Identifier: Apache-2.0
// The pool of threads.h. A run is one 64-bit ticket: its number in the upper half, the indices that nobody has taken in the lower.
// Whoever takes an index lowers the ticket by compare-and-swap; the caller returns when as many indices are done as there were,
// whether or not every worker has woken. Why a late worker cannot touch a run that is over:
//   - it may use a run's function only after its compare-and-swap on that run's ticket, which fails once the ticket has moved on
//     (the number would have to come round after 2^32 runs between two instructions);
//   - after it succeeds, the run is not over before that worker adds its share to `finished`, so neither the function nor the
//     fields below change meanwhile. What it read of them before a swap that fails is thrown away.
#include "base/threads/threads.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/clock/operation_clock.h"
#include "base/log.h"

namespace slip {

namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins before sleeping: about 20 us here, longer than the gaps between two operations of a pass, shorter than a scheduler tick.
constexpr int kSpins = 4000;
constexpr uint64_t kLeftMask = 0xFFFFFFFF;  // lower half of a ticket
constexpr int kCaller = 0;                  // the caller's number among the threads

}  // namespace

struct ThreadPool::Shared {
  alignas(64) std::atomic<uint64_t> ticket{0};
  alignas(64) std::atomic<int64_t> finished{0};  // indices done by workers in the present run
  alignas(64) std::atomic<int> bell{0};          // rung once per run
  // How workers sleep until it rings. std::atomic's own wait would not do: libstdc++ counts its sleepers in a table of the library whose code
  // waits, and a plug-in that has another copy of this code would ring and wake nobody.
  std::atomic<int> sleepers{0};
  std::mutex bed;
  std::condition_variable alarm;
  std::atomic<bool> stop{false};
  // The present run. Atomic because a late worker may read them while the next run is prepared (and drop what it read).
  std::atomic<int64_t> n{0};
  std::atomic<Call> call{nullptr};
  std::atomic<void*> context{nullptr};
  std::vector<std::thread> workers;
  std::atomic<bool> failed{false};  // an index threw in the present run: `thrown` is the first one's
  std::exception_ptr thrown;
  const std::function<bool()>* stop_asked = nullptr;
  std::atomic<bool> stopped{false};

  bool ask_stop() {
    if (stop_asked && !stopped.load(std::memory_order_relaxed) && (*stop_asked)()) stopped.store(true, std::memory_order_relaxed);
    return stopped.load(std::memory_order_relaxed);
  }

  void call_one(Call f, void* with, int64_t i, int thread) {
    if (stopped.load(std::memory_order_relaxed)) return;
    try {
      f(with, i, thread);
    } catch (...) {
      if (!failed.exchange(true)) thrown = std::current_exception();
    }
  }

  /// At the end of a run, when all indices are done.
  void rethrow() {
    if (!failed.load()) return;
    failed.store(false);
    std::rethrow_exception(std::exchange(thrown, nullptr));
  }

  /// Takes and does indices while there are any; how many.
  int64_t drain(int thread) {
    int64_t done = 0;
    uint64_t t = ticket.load(std::memory_order_acquire);
    while ((t & kLeftMask) != 0) {
      const auto left = static_cast<int64_t>(t & kLeftMask);
      const int64_t all = n.load(std::memory_order_relaxed);
      const auto f = call.load(std::memory_order_relaxed);
      void* const with = context.load(std::memory_order_relaxed);
      if (!ticket.compare_exchange_weak(t, t - 1, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
      if (thread == kCaller && stop_asked) ask_stop();
      call_one(f, with, all - left, thread);
      ++done;
      t = ticket.load(std::memory_order_acquire);
    }
    return done;
  }

  void wait_for_another(int rung) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (bell.load(std::memory_order_acquire) != rung) return;
      relax();
    }
    sleepers.fetch_add(1);
    {
      std::unique_lock lock(bed);
      alarm.wait(lock, [&] { return bell.load() != rung; });
    }
    sleepers.fetch_sub(1);
  }

  /// Who is about to sleep has counted itself before it looks at the bell; who rings looks for sleepers behind it. One of them sees the other.
  void ring() {
    bell.fetch_add(1);
    if (sleepers.load() == 0) return;  // no system call unless somebody sleeps
    { const std::lock_guard lock(bed); }
    alarm.notify_all();
  }

  void hand_out(int64_t indices, Call f, void* with) {
    const OperationScope handing("hand-over to threads");
    n.store(indices, std::memory_order_relaxed);
    call.store(f, std::memory_order_relaxed);
    context.store(with, std::memory_order_relaxed);
    finished.store(0, std::memory_order_relaxed);
    const uint64_t number = (ticket.load(std::memory_order_relaxed) >> 32) + 1;
    ticket.store(number << 32 | static_cast<uint64_t>(indices), std::memory_order_release);
    ring();
  }

  void work(int thread) {
    for (;;) {
      const int rung = bell.load(std::memory_order_acquire);  // before drain: a run that begins after it rings again
      if (stop.load(std::memory_order_acquire)) return;
      if (const int64_t done = drain(thread); done > 0) finished.fetch_add(done, std::memory_order_release);
      wait_for_another(rung);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(1), shared_(std::make_unique<Shared>()) {
  SLIP_CHECK(threads >= 1, "callers validate the thread count");
  try {
    shared_->workers.reserve(static_cast<size_t>(threads - 1));
    for (; threads_ < threads; ++threads_)
      shared_->workers.emplace_back([s = shared_.get(), thread = threads_] { s->work(thread); });
  } catch (const std::exception&) {  // std::system_error: the system gives no more threads; go on with those there are
  }
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true, std::memory_order_release);
  shared_->ring();
  for (std::thread& t : shared_->workers) t.join();
}

void ThreadPool::run_erased(int64_t n, Call call, void* context) {
  if (n <= 0) return;
  Shared& s = *shared_;
  if (n == 1 || s.workers.empty()) {
    for (int64_t i = 0; i < n && !(s.stop_asked && s.ask_stop()); ++i) call(context, i, kCaller);
    return;
  }
  SLIP_CHECK(n <= std::numeric_limits<uint32_t>::max(), "an index range fits a ticket");
  if (s.stop_asked && s.ask_stop()) return;
  s.hand_out(n, call, context);
  const int64_t rest = n - s.drain(kCaller);
  const OperationScope waiting("waiting for threads");
  for (int spin = 0; s.finished.load(std::memory_order_acquire) != rest; ++spin) {
    if (spin > kSpins) std::this_thread::yield();
    relax();
  }
  s.rethrow();
}

void ThreadPool::stop_when(const std::function<bool()>* stop) {
  shared_->stop_asked = stop;
  shared_->stopped.store(false);
}
bool ThreadPool::stopped() const { return shared_->stopped.load(); }

int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

int threads_for(int asked) {
  const int there = usable_threads();
  if (asked <= there) return asked > 0 ? asked : there;
  log(LogLevel::kWarn, "threads: {} are asked for, and {} used: this process may use no more processors", asked, there);
  return there;
}

}  // namespace slip
