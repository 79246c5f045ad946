// SPDX-License-Identifier: Apache-2.0
// A fiber: work with a stack of its own that can stop in the middle and go on later, on the thread that resumes it. A request's decoder runs
// on one as it is and stops where it wants a pass.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>

namespace slip {

class Fiber {
 public:
  /// `body` must not throw. Its stack is mapped here, with a guard page below it, and committed where it is touched. Throws
  /// std::bad_alloc where there is no room for one; resume() does not.
  explicit Fiber(std::function<void()> body, size_t stack_bytes = size_t{1} << 20);
  /// The body must have come to its end, or never have begun.
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;
  /// Goes on until pause() or the end. Not from inside of a fiber.
  void resume();
  /// From inside of the body: back to whoever resumed it.
  void pause();
  bool done() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace slip
