// SPDX-License-Identifier: Apache-2.0
// The parts of the module _native, each in a file of its name. Python's names stand in slipstream/_native.pyi.
#pragma once
#include <pybind11/pybind11.h>

namespace slipstream::python {

void bind_request(pybind11::module_& m);
void bind_answer(pybind11::module_& m);
void bind_engine(pybind11::module_& m);
void bind_tools(pybind11::module_& m);

}  // namespace slipstream::python
