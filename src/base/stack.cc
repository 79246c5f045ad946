// SPDX-License-Identifier: Apache-2.0
// See stack.h.
#include "base/stack.h"

#include <pthread.h>
#include <sys/resource.h>

namespace slip {

namespace {

void* call(void* work) {
  (*static_cast<const std::function<void()>*>(work))();
  return nullptr;
}

bool main_stack_is_large() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_STACK, &limit) == 0 && (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= kStackBytes);
}

}  // namespace

void with_stack(const std::function<void()>& work) {
  if (main_stack_is_large()) return work();
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kStackBytes);
#if defined(__GLIBC__)
  ::pthread_setattr_default_np(&attributes);
#endif
  pthread_t thread{};
  const bool started = ::pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&work)) == 0;
  ::pthread_attr_destroy(&attributes);
  if (!started) return work();
  ::pthread_join(thread, nullptr);
}

}  // namespace slip
