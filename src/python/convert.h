// SPDX-License-Identifier: Apache-2.0
// Python's objects as the library's, and errors the other way. All of it with the GIL held.
#pragma once
#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "python/gil.h"
#include "slipstream/engine.h"

namespace slipstream::python {

namespace py = pybind11;

/// "bad_input", "usage" ...
const char* word_of(ErrorKind kind);
/// Throws slipstream.Error(kind, message).
[[noreturn]] void throw_error(const Error& error);
template <class T>
T value_or_throw(Result<T> result) {
  if (!result) throw_error(result.error());
  return std::move(*result);
}
/// What `work` gives, without the GIL meanwhile.
template <class Work>
auto unlocked(Work&& work) {
  return value_or_throw([&] {
    const Unlocked free;
    return work();
  }());
}
inline void check_or_throw(const Status& status) {
  if (!status) throw_error(status.error());
}

bool is_path(py::handle object);
/// The bytes of a path (str, bytes, os.PathLike). TypeError: "<name>: expected a path, got ..."; ValueError for a lone surrogate.
std::string path_of(const char* name, py::handle object);

/// A str as UTF-8. TypeError: "<name>: expected str, got ..."; ValueError for a lone surrogate.
std::string text_of(const char* name, py::handle object);

/// A picture: a path (str, os.PathLike), an encoded file's bytes, or 8-bit pixels by the buffer protocol, height x width (x channels).
/// Pixels are borrowed where each row lies in one piece, and copied otherwise. TypeError and ValueError for what is no picture.
Image image_of(py::handle object);

/// Waits without the GIL until `wait(20 ms)` is true; every time it is not, signals are looked for. A handler that raises (Ctrl-C) ends
/// it: `leave` is called, and the exception thrown.
template <class Wait, class Leave>
void wait_with_signals(Wait&& wait, Leave&& leave) {
  for (;;) {
    {
      const Unlocked free;
      if (wait()) return;
    }
    if (PyErr_CheckSignals() != 0) {
      py::error_already_set raised;
      {
        const Unlocked free;
        leave();
      }
      throw raised;  // NOLINT(misc-throw-by-value-catch-by-reference): it was taken from the interpreter before leave() ran
    }
  }
}

}  // namespace slipstream::python
