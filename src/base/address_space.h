// SPDX-License-Identifier: Apache-2.0
// What a process may map (ulimit -v).
#pragma once
#include <cstdint>

#include "base/result.h"

namespace slip {

/// kResource where the process may map fewer bytes than `least`; `purpose` ends the sentence "at least ... for training".
Status check_address_space(uint64_t least, const char* purpose);

}  // namespace slip
