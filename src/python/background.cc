// SPDX-License-Identifier: Apache-2.0
// See background.h.
#include "python/background.h"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <list>
#include <mutex>
#include <thread>
#include <utility>

#include "python/gil.h"

namespace slipstream::python {

namespace {

/// Never destroyed: threads may outlive main's statics. A fork, which has none of the threads, begins anew.
struct Running {
  std::mutex mutex;
  std::condition_variable changed;
  std::list<std::function<void()>> cancels;  // one for each thread
};
Running* g_running = nullptr;
std::atomic<bool> g_ending{false};    // set under the mutex of Running
thread_local bool t_is_last = false;  // the thread that called end_background
Running& running() {
  static const bool once = [] {
    g_running = new Running;
    ::pthread_atfork(nullptr, nullptr, [] {
      g_running = new Running;
      g_ending = false;
    });
    return true;
  }();
  static_cast<void>(once);
  return *g_running;
}

}  // namespace

void sleep_for_ever() noexcept {
  for (;;) ::pause();
}

bool program_ends_elsewhere() noexcept { return g_ending.load() && !t_is_last; }

void in_background(std::function<void()> work, std::function<void()> cancel) {
  Running& all = running();
  std::unique_lock lock(all.mutex);  // the thread cannot end before it is in the list
  if (program_ends_elsewhere()) {
    lock.unlock();
    const Unlocked to_sleep;
  }
  all.cancels.push_back(std::move(cancel));
  const auto mine = std::prev(all.cancels.end());
  try {
    std::thread([work = std::move(work), mine]() mutable {
      work();
      work = nullptr;  // what it held goes while others still wait for it
      Running& others = running();
      const std::lock_guard ending(others.mutex);
      others.cancels.erase(mine);
      others.changed.notify_all();
    }).detach();
  } catch (...) {
    all.cancels.erase(mine);
    throw;
  }
}

void end_background() {
  Running& all = running();
  std::unique_lock lock(all.mutex);
  g_ending = true;
  t_is_last = true;
  for (const std::function<void()>& cancel : all.cancels)
    if (cancel) cancel();
  all.changed.wait(lock, [&] { return all.cancels.empty(); });
}

}  // namespace slipstream::python
