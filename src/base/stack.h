// SPDX-License-Identifier: Apache-2.0
// The stack that the program runs on, whatever the limit of the shell that started it (`ulimit -s`), and what it may map (`ulimit -v`).
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/result.h"

namespace slip {

/// Linux's usual limit: what recursion in here was bounded for.
inline constexpr size_t kStackBytes = size_t{8} << 20;

/// Calls `work` on a stack of kStackBytes, and has new threads get one: on this thread where its limit is as large and address space is
/// not limited, else on another one that is waited for; where the system gives no such thread on one of a quarter, else here. What `work` throws ends the program: it catches.
void with_stack(const std::function<void()>& work);

/// kResource where the process may map fewer bytes than `least`; `purpose` ends the sentence "at least ... for training".
Status check_address_space(uint64_t least, const char* purpose);

}  // namespace slip
