// SPDX-License-Identifier: Apache-2.0
// See stack.h.
#include "base/stack.h"

#include <pthread.h>
#include <sys/resource.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace slip {

namespace {

void* call(void* work) {
  (*static_cast<const std::function<void()>*>(work))();
  return nullptr;
}

bool is_limited(decltype(RLIMIT_AS) what, rlim_t below) {
  rlimit limit{};
  return ::getrlimit(what, &limit) != 0 || (limit.rlim_cur != RLIM_INFINITY && limit.rlim_cur < below);
}

/// A thread with so large a stack has done the work; false: the system gave none.
bool worked_on_a_thread(size_t bytes, const std::function<void()>& work) {
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, bytes);
#if defined(__GLIBC__)
  ::pthread_setattr_default_np(&attributes);
#endif
  pthread_t thread{};
  const bool started = ::pthread_create(&thread, &attributes, call, const_cast<std::function<void()>*>(&work)) == 0;
  ::pthread_attr_destroy(&attributes);
  if (started) ::pthread_join(thread, nullptr);
  return started;
}

}  // namespace

void with_stack(const std::function<void()>& work) {
  // Where address space is limited (`ulimit -v`) the first thread's stack may not grow: a page that is refused there is a signal, not an
  // error, while another thread has its whole stack from the beginning. One heap for all then: glibc reserves 64 MB for each thread's own.
  const bool little_space = is_limited(RLIMIT_AS, RLIM_INFINITY);
  if (!little_space && !is_limited(RLIMIT_STACK, kStackBytes)) return work();
#if defined(__GLIBC__)
  if (little_space) ::mallopt(M_ARENA_MAX, 1);
#endif
  if (!worked_on_a_thread(kStackBytes, work) && !worked_on_a_thread(kStackBytes / 4, work)) work();
}

Status check_address_space(uint64_t least, const char* purpose) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least) return {};
  return resource_error("memory: expected an address space of at least {} MiB for {} (ulimit -v), got {} MiB", least >> 20, purpose,
                        limit.rlim_cur >> 20);
}

}  // namespace slip
