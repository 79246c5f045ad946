// SPDX-License-Identifier: Apache-2.0
// Fibers on Boost.Context, which is included here alone. Sanitizers are told of every change of stacks.
#include "service/fiber.h"

#include <boost/context/fiber.hpp>
#include <boost/context/protected_fixedsize_stack.hpp>
#include <utility>

#include "base/check.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
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
  /// The addresses may be mapped again, by a model's file: what the stack's frames left marked there is none of its business.
  void gone() { __asan_unpoison_memory_region(bottom, bytes); }
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
  void gone() {}
#else
  void enter() {}
  void left() {}
  void began() {}
  void leave(bool) {}
  void back() {}
  void gone() {}
#endif
};

/// The stack stays its owner's: Boost's fiber gives nothing back.
struct Lent {
  context::stack_context allocate() { return {}; }  // never asked: the stack is there
  void deallocate(context::stack_context&) {}
};

}  // namespace

struct Fiber::Impl {
  std::function<void()> body;
  context::protected_fixedsize_stack maker;
  context::stack_context stack;
  Sanitizers sanitizers;
  context::fiber inside, outside;
  bool begun = false, done = false;

  explicit Impl(size_t stack_bytes) : maker(stack_bytes), stack(maker.allocate()) {
#if defined(__SANITIZE_ADDRESS__)
    sanitizers.bottom = static_cast<const char*>(stack.sp) - stack.size;
    sanitizers.bytes = stack.size;
#endif
  }
  ~Impl() {
    sanitizers.gone();
    maker.deallocate(stack);
  }
  context::fiber run(context::fiber&& caller) {
    sanitizers.began();
    outside = std::move(caller);
    body();
    done = true;
    sanitizers.leave(true);
    return std::move(outside);
  }
};

Fiber::Fiber(std::function<void()> body, size_t stack_bytes) : impl_(std::make_unique<Impl>(stack_bytes)) {
  impl_->body = std::move(body);
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
    i.inside = context::fiber(std::allocator_arg, context::preallocated(i.stack.sp, i.stack.size, i.stack), Lent{},
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
