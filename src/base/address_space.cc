// SPDX-License-Identifier: Apache-2.0
#include "base/address_space.h"

#include <sys/resource.h>

namespace slip {

Status check_address_space(uint64_t least, const char* purpose) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= least) return {};
  return resource_error("memory: expected an address space of at least {} MiB for {} (ulimit -v), got {} MiB", least >> 20, purpose,
                        limit.rlim_cur >> 20);
}

}  // namespace slip
