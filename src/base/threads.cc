// SPDX-License-Identifier: Apache-2.0
// The pool of threads.h: one epoch counter wakes the workers, one work counter hands out indices, one done counter joins.
#include "base/threads.h"

#include <sched.h>

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace slip {

namespace {

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Spins before sleeping: about 20 us here, longer than the gaps between two operations of a pass, shorter than a scheduler tick.
constexpr int kSpins = 4000;

}  // namespace

struct ThreadPool::Shared {
  struct alignas(64) Line {
    std::atomic<int64_t> v{0};
  };
  Line epoch, next, running;
  int64_t n = 0;
  void (*call)(void*, int64_t) = nullptr;
  void* context = nullptr;
  std::atomic<bool> stop{false};
  std::atomic<int> sleepers{0};
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<std::thread> workers;

  void drain() {
    for (int64_t i = next.v.fetch_add(1, std::memory_order_relaxed); i < n; i = next.v.fetch_add(1, std::memory_order_relaxed))
      call(context, i);
  }

  void wait_for(int64_t seen) {
    for (int spin = 0; spin < kSpins; ++spin) {
      if (epoch.v.load(std::memory_order_acquire) != seen) return;
      relax();
    }
    std::unique_lock lock(mutex);
    sleepers.fetch_add(1, std::memory_order_seq_cst);
    wake.wait(lock, [&] { return epoch.v.load(std::memory_order_seq_cst) != seen; });
    sleepers.fetch_sub(1, std::memory_order_seq_cst);
  }

  void work() {
    int64_t seen = 0;
    for (;;) {
      wait_for(seen);
      if (stop.load(std::memory_order_acquire)) return;
      ++seen;
      drain();
      running.v.fetch_sub(1, std::memory_order_release);
    }
  }
};

ThreadPool::ThreadPool(int threads) : threads_(threads), shared_(std::make_unique<Shared>()) {
  SLIP_CHECK(threads >= 1, "callers validate the thread count");
  for (int i = 1; i < threads; ++i) shared_->workers.emplace_back([s = shared_.get()] { s->work(); });
}

ThreadPool::~ThreadPool() {
  shared_->stop.store(true, std::memory_order_release);
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->epoch.v.fetch_add(1, std::memory_order_seq_cst);
  }
  shared_->wake.notify_all();
  for (std::thread& t : shared_->workers) t.join();
}

void ThreadPool::run_erased(int64_t n, void (*call)(void*, int64_t), void* context) {
  if (n <= 0) return;
  Shared& s = *shared_;
  if (n == 1 || s.workers.empty()) {
    for (int64_t i = 0; i < n; ++i) call(context, i);
    return;
  }
  s.n = n;
  s.call = call;
  s.context = context;
  s.next.v.store(0, std::memory_order_relaxed);
  s.running.v.store(static_cast<int64_t>(s.workers.size()), std::memory_order_relaxed);
  s.epoch.v.fetch_add(1, std::memory_order_seq_cst);
  if (s.sleepers.load(std::memory_order_seq_cst) > 0) {
    { const std::lock_guard lock(s.mutex); }
    s.wake.notify_all();
  }
  s.drain();
  for (int spin = 0; s.running.v.load(std::memory_order_acquire) != 0; ++spin) {
    if (spin > kSpins) std::this_thread::yield();
    relax();
  }
}

int usable_threads() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return std::max(1, CPU_COUNT(&set));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace slip
