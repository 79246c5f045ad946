// SPDX-License-Identifier: Apache-2.0
// Where a thread's time goes, by stage and operation (`bench answer`). Scopes nest, and time counts for the innermost alone: the lines add
// up to what passed between start and stop, exactly. The clock belongs to the thread that started it; what other threads do meanwhile
// shows as this one's time in the operation that it does beside them, and as waiting where it has nothing left to do. Off, as it is unless a
// benchmark turns it on, a scope costs one test of a null pointer.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

namespace slip {

class OperationClock {
 public:
  using Now = int64_t (*)();  // nanoseconds that never go back
  struct Line {
    std::string_view stage, operation;
    int64_t ns = 0, times = 0;  // times: scopes entered
  };
  static int64_t steady_now();
  explicit OperationClock(Now now = steady_now) : now_(now) {}
  OperationClock(const OperationClock&) = delete;
  OperationClock& operator=(const OperationClock&) = delete;
  ~OperationClock() { stop(); }

  /// From now on scopes of this thread count here, after what was counted before. One clock a thread; not within a scope.
  void start();
  void stop();
  /// In order of appearance. What no operation of a stage claims is its line without an operation.
  const std::vector<Line>& lines() const { return lines_; }
  int64_t total_ns() const { return total_; }
  static OperationClock* of_thread() { return of_thread_; }

 private:
  friend class OperationScope;
  friend class StageScope;
  struct Place {
    const char *stage = "", *operation = "";
  };
  Place enter(Place place, bool counts);
  void charge();
  Line& line_of(Place place);
  static constinit inline thread_local OperationClock* of_thread_ = nullptr;
  Now now_;
  Place at_;
  int64_t last_ = 0, total_ = 0;
  std::vector<Line> lines_;
};

/// This thread does `operation` as long as the scope lives. Names are literals.
class OperationScope {
 public:
  explicit OperationScope(const char* operation) : clock_(OperationClock::of_thread()) {
    if (clock_) [[unlikely]]
      before_ = clock_->enter({clock_->at_.stage, operation}, true);
  }
  OperationScope(const OperationScope&) = delete;
  OperationScope& operator=(const OperationScope&) = delete;
  ~OperationScope() {
    if (clock_) [[unlikely]]
      clock_->enter(before_, false);
  }

 private:
  OperationClock* clock_;
  OperationClock::Place before_;
};

/// The same of a stage; inside, no operation until a scope names one.
class StageScope {
 public:
  explicit StageScope(const char* stage) : clock_(OperationClock::of_thread()) {
    if (clock_) [[unlikely]]
      before_ = clock_->enter({stage, ""}, true);
  }
  StageScope(const StageScope&) = delete;
  StageScope& operator=(const StageScope&) = delete;
  ~StageScope() {
    if (clock_) [[unlikely]]
      clock_->enter(before_, false);
  }

 private:
  OperationClock* clock_;
  OperationClock::Place before_;
};

}  // namespace slip
