// SPDX-License-Identifier: Apache-2.0
// See turns.h.
#include "engine/turns.h"

#include <algorithm>
#include <chrono>

namespace slip {

Result<Turns::Turn> Turns::wait(const CancelToken& cancel) {
  constexpr std::chrono::milliseconds kLook{5};  // between looks at the token, which cannot wake anyone
  std::unique_lock lock(mutex_);
  if (whose_ == std::this_thread::get_id())
    return usage_error("answer: expected an engine that is not answering this thread, got one from its own callback");
  const uint64_t ticket = next_++;
  line_.push_back(ticket);
  while (line_.front() != ticket) {
    if (Status wanted = cancel.check("admit", 0, "passes"); !wanted) {
      line_.erase(std::find(line_.begin(), line_.end(), ticket));
      return wanted.error();
    }
    changed_.wait_for(lock, kLook);
  }
  whose_ = std::this_thread::get_id();
  return Turn(this);
}

void Turns::end() {
  {
    const std::lock_guard lock(mutex_);
    line_.pop_front();
    whose_ = {};
  }
  changed_.notify_all();
}

}  // namespace slip
