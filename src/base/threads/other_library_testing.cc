// SPDX-License-Identifier: Apache-2.0
// A library with a copy of the pool's code of its own, as plug-ins of devices have: see other_library_test.cc.
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "base/threads/threads.h"

/// How many threads share `indices` naps of ten milliseconds, handed out from here.
extern "C" __attribute__((visibility("default"))) int threads_that_nap(slip::ThreadPool* pool, int indices) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  pool->run(indices, [&](int64_t) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  return static_cast<int>(threads.size());
}
