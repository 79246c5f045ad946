// SPDX-License-Identifier: Apache-2.0
// Who may run passes: a model has one key/value arena and one thread pool, so requests that are under way take turns, in the order in which
// they came. Thread-safe.
#pragma once
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

#include "base/cancel.h"
#include "base/result.h"

namespace slip {

class Turns {
 public:
  /// Ends when it is destroyed.
  class Turn {
   public:
    explicit Turn(Turns* turns) : turns_(turns) {}
    Turn(Turn&& other) noexcept : turns_(std::exchange(other.turns_, nullptr)) {}
    Turn& operator=(Turn&&) = delete;
    ~Turn() {
      if (turns_) turns_->end();
    }

   private:
    Turns* turns_;
  };
  /// Waits for those who came before. kCancelled within some milliseconds when `cancel` says that nobody waits for the request any more; kUsage
  /// from the thread whose turn it is, which would wait for itself.
  Result<Turn> wait(const CancelToken& cancel);
  /// How many stand in line, the one whose turn it is among them.
  size_t in_line() const {
    const std::lock_guard lock(mutex_);
    return line_.size();
  }

 private:
  void end();
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<uint64_t> line_;  // the first one's turn it is
  std::thread::id whose_;      // turn it is; of no thread: nobody's
  uint64_t next_ = 0;
};

}  // namespace slip
