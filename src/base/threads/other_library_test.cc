// SPDX-License-Identifier: Apache-2.0
// A pool whose threads sleep is woken by whoever runs it, also by a plug-in with its own copy of the pool's code.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "base/threads/threads.h"

namespace slip {
namespace {

TEST(ThreadsOfAnotherLibrary, AreWokenFromThere) {
  void* library = dlopen(SLIP_OTHER_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto nap = reinterpret_cast<int (*)(ThreadPool*, int)>(dlsym(library, "threads_that_nap"));
  ASSERT_NE(nap, nullptr) << dlerror();
  ThreadPool pool(2);
  if (pool.threads() < 2) GTEST_SKIP() << "this system gave no second thread";
  for (int round = 0; round < 3; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the worker spins for a millisecond at most, then sleeps
    EXPECT_EQ(nap(&pool, 20), 2) << "round " << round;
  }
}

}  // namespace
}  // namespace slip
