// SPDX-License-Identifier: Apache-2.0
// Threads that work for Python while its own thread waits, or has left after Ctrl-C. All of them are waited for before the interpreter goes
// away, so that none comes back to one that has gone.
#pragma once
#include <functional>

namespace slipstream::python {

/// Runs `work` in a thread of its own. `cancel` may be empty; it is called, at the end of the program, while the work is under way.
void in_background(std::function<void()> work, std::function<void()> cancel);
/// Cancels what is under way and waits for it. Without the GIL: the work may need it. From then on other threads begin nothing, and sleep where
/// they would come back to Python (gil.h); the thread that called this may go on asking, as what ends behind it may.
void end_background();

}  // namespace slipstream::python
