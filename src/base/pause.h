// SPDX-License-Identifier: Apache-2.0
// Where long work on one thread lets others go first. Who runs pieces of several requests in turns (service/) says who is at work; between
// its parts such work asks at pause_point(), which may stop it there for a while, or for good. Without anybody it costs a look.
#pragma once
#include "base/result.h"

namespace slip {

class Pausable {
 public:
  virtual ~Pausable() = default;
  /// Returns when the work may go on; kCancelled when nobody waits for it any more.
  virtual Status at_pause_point() = 0;
};

/// Who is at work on this thread; null: nobody who could stop.
Pausable*& pausable_at_work();
inline Status pause_point() {
  Pausable* const who = pausable_at_work();
  return who ? who->at_pause_point() : Status{};
}

}  // namespace slip
