// SPDX-License-Identifier: Apache-2.0
#include "base/pause.h"

namespace slip {

Pausable*& pausable_at_work() {
  thread_local Pausable* who = nullptr;
  return who;
}

}  // namespace slip
