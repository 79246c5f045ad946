// SPDX-License-Identifier: Apache-2.0
// Fibers on Boost.Context, which is included here alone. Sanitizers are told of every change of stacks.
#include "service/fiber.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace slip {

namespace context = boost::context;

namespace {

/// What the sanitizers must know of a stack: where it lies, and where the other one went on.
struct Sanitizers {
#if defined(__SANITIZE_ADDRESS__)
  const void *bottom = nullptr, *outer_bottom = nullptr;
  size_t bytes = 0, outer_bytes = 0;
  void* outer_fake = nullptr;
  void* fake = nullptr;
  void enter() { __sanitizer_start_switch_fiber(&outer_fake, bottom, bytes); }
  void left() { __sanitizer_finish_switch_fiber(outer_fake, nullptr, nullptr); }
  void began() { __sanitizer_finish_switch_fiber(nullptr, &outer_bottom, &outer_bytes); }
  void leave(bool for_good) { __sanitizer_start_switch_fiber(for_good ? nullptr : &fake, outer_bottom, outer_bytes); }
  void back() { __sanitizer_finish_switch_fiber(fake, &outer_bottom, &outer_bytes); }
#elif defined(__SANITIZE_THREAD__)
  void *own = __tsan_create_fiber(0), *outer = nullptr;
  ~Sanitizers() { __tsan_destroy_fiber(own); }
  void enter() {
    outer = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(own, 0);
  }
  void left() {}
  void began() {}
  void leave(bool) { __tsan_switch_to_fiber(outer, 0); }
  void back() {}
#else
  void enter() {}
  void left() {}
  void began() {}
  void leave(bool) {}
  void back() {}
#endif
};

/// Boost's stack, whose place the sanitizers are told.
struct Stack {
  context::protected_fixedsize_stack inner;
  Sanitizers* told;
  context::stack_context allocate() {
    const context::stack_context s = inner.allocate();
#if defined(__SANITIZE_ADDRESS__)
    told->bottom = static_cast<const char*>(s.sp) - s.size;
    told->bytes = s.size;
#else
    (void)told;
#endif
    return s;
  }
  void deallocate(context::stack_context& s) { inner.deallocate(s); }
};

}  // namespace

struct Fiber::Impl {
  std::function<void()> body;
  size_t stack_bytes;
  Sanitizers sanitizers;
  context::fiber inside, outside;
  bool begun = false, done = false;

  context::fiber run(context::fiber&& caller) {
    sanitizers.began();
    outside = std::move(caller);
    body();
    done = true;
    sanitizers.leave(true);
    return std::move(outside);
  }
};

Fiber::Fiber(std::function<void()> body, size_t stack_bytes) : impl_(std::make_unique<Impl>()) {
  impl_->body = std::move(body);
  impl_->stack_bytes = stack_bytes;
}

Fiber::~Fiber() {
  // An unfinished one would be unwound by an exception through code that does not know of it.
  if (impl_->begun && !impl_->done) std::abort();
}

void Fiber::resume() {
  Impl& i = *impl_;
  SLIP_CHECK(!i.done, "a fiber that has ended is not resumed");
  if (!i.begun) {
    i.begun = true;
    i.inside = context::fiber(std::allocator_arg, Stack{context::protected_fixedsize_stack(i.stack_bytes), &i.sanitizers},
                              [&i](context::fiber&& caller) { return i.run(std::move(caller)); });
  }
  i.sanitizers.enter();
  context::fiber back = std::move(i.inside).resume();
  i.sanitizers.left();
  if (!i.done) i.inside = std::move(back);
}

void Fiber::pause() {
  Impl& i = *impl_;
  i.sanitizers.leave(false);
  i.outside = std::move(i.outside).resume();
  i.sanitizers.back();
}

bool Fiber::done() const { return impl_->done; }

}  // namespace slip
