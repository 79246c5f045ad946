// SPDX-License-Identifier: Apache-2.0
// A small persistent pool: fork-join over an index range, work handed out by an atomic counter (on shared machines a core
// can be taken away for milliseconds; a static split would wait for it). Workers spin for a while, then sleep; a run does not wait
// for a worker that has not woken.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>

namespace slip {

class ThreadPool {
 public:
  /// `threads` >= 1, the caller included; 1 starts no thread at all. Where the system gives fewer, the pool works with those:
  /// threads() says how many.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;
  int threads() const { return threads_; }

  /// Calls f(i), or f(i, thread) where f takes that, for every i in [0, n), from any thread in any order, and returns when all are done.
  /// `thread` is in [0, threads()) and no other call's at the same time: a piece of scratch memory can be its own. f must not call run on
  /// the same pool. What an f throws (memory that is not there) is thrown here, when all are done. n < 2^32. One caller at a time. Never
  /// allocates.
  template <class F>
  void run(int64_t n, F&& f) {
    using Fn = std::remove_reference_t<F>;
    run_erased(
        n,
        [](void* p, int64_t i, int thread) {
          if constexpr (std::is_invocable_v<Fn&, int64_t, int>)
            (*static_cast<Fn*>(p))(i, thread);
          else
            (*static_cast<Fn*>(p))(i);
        },
        const_cast<void*>(static_cast<const void*>(&f)));
  }

  /// Until it is called with null: `stop` is asked before every run and between the caller's own indices; once it says true, the rest of all
  /// runs is left out, and what they were to make is not made. The function outlives its use.
  void stop_when(const std::function<bool()>* stop);
  bool stopped() const;

 private:
  struct Shared;
  using Call = void (*)(void* f, int64_t i, int thread);
  void run_erased(int64_t n, Call call, void* context);
  int threads_;
  std::unique_ptr<Shared> shared_;
};

/// CPUs in this process's affinity mask (hardware threads, not physical cores), at least 1.
int usable_threads();
/// What a `--threads` asks for: 0 is every CPU; more than there are is those there are, which the log says.
int threads_for(int asked);

}  // namespace slip
