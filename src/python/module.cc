// SPDX-License-Identifier: Apache-2.0
// The extension module slipstream._native. It knows include/slipstream/ and nothing behind it; the package around it, python/slipstream/,
// gives it Python's manners.
#include "python/background.h"
#include "python/bind.h"
#include "python/gil.h"

PYBIND11_MODULE(_native, m) {
  namespace py = pybind11;
  m.doc() = "The library as it is; use the package slipstream.";
  slipstream::python::bind_request(m);
  slipstream::python::bind_answer(m);
  slipstream::python::bind_engine(m);
  slipstream::python::bind_tools(m);
  // Threads that would come back to an interpreter that has gone are waited for.
  py::module_::import("atexit").attr("register")(py::cpp_function([] {
    const slipstream::python::Unlocked free;
    slipstream::python::end_background();
  }));
}
