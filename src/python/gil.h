// SPDX-License-Identifier: Apache-2.0
// The GIL, given back and taken, by threads that the interpreter may not outlive. Before version 3.14, CPython sends a thread that asks for the
// GIL of an interpreter that ends to pthread_exit, whose unwinding ends the process at the first noexcept function: pybind11's guards are such.
// Here the thread sleeps for ever in its place, as 3.14 lets it; what it holds stays where it is, as nothing may be given back without the GIL.
// A guard whose destructor lets the unwinding pass would give back Python's objects without the GIL on the way.
#pragma once
#include <Python.h>

namespace slipstream::python {

[[noreturn]] void sleep_for_ever() noexcept;
/// Whether the program ends (end_background has begun) and this is not the thread that ends it.
bool program_ends_elsewhere() noexcept;

/// Runs `work`, which throws nothing itself. Where CPython ends the thread in it, the thread sleeps: the unwinding must not go on from here.
template <class Work>
void or_sleep(Work&& work) noexcept {
  try {
    work();
  } catch (...) {
    sleep_for_ever();
  }
}

/// Without the GIL as long as it lives. At the program's end a daemon's thread does not come back from it: neither to an interpreter that has
/// gone, nor to hear that its answer was cancelled.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  ~Unlocked() {
    if (program_ends_elsewhere() || Py_IsInitialized() == 0) sleep_for_ever();
    or_sleep([this] { PyEval_RestoreThread(state_); });
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;

 private:
  PyThreadState* state_;
};

/// Runs `work`, which throws nothing, with the GIL, in any thread; without an interpreter, or with one that ends, not at all.
template <class Work>
void with_gil(Work&& work) noexcept {
  if (Py_IsInitialized() == 0) return;
  or_sleep([&] {
    const PyGILState_STATE before = PyGILState_Ensure();
    work();
    PyGILState_Release(before);
  });
}

}  // namespace slipstream::python
