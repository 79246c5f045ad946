// SPDX-License-Identifier: Apache-2.0
// What needs no loaded model: versions, forms, what a folder holds, its tokenizer.
#include <pybind11/stl.h>

#include "python/bind.h"
#include "python/convert.h"

namespace slipstream::python {

namespace {

std::string json_of(Report report) {
  check_or_throw(report.outcome);
  return std::move(report.json);
}

}  // namespace

void bind_tools(py::module_& m) {
  m.def("version", [] { return std::string(version()); });
  m.def("instruction_set", &instruction_set);
  m.def("builtin_forms", &builtin_forms);
  m.def(
      "form_schema",
      [](const std::string& form, const std::string& folder, const std::string& unnorm_key) {
        return unlocked([&] { return form_schema(form, folder, unnorm_key); });
      },
      py::arg("form"), py::arg("folder"), py::arg("unnorm_key"));
  m.def(
      "explain_form",
      [](const std::string& form, const std::string& folder, const std::string& unnorm_key) {
        return json_of(unlocked([&] { return explain_form(form, folder, unnorm_key); }));
      },
      py::arg("form"), py::arg("folder"), py::arg("unnorm_key"));
  m.def(
      "inspect", [](const std::string& folder) { return json_of(unlocked([&] { return inspect(folder); })); }, py::arg("folder"));
  py::class_<Tokenizer>(m, "Tokenizer", "A model folder's tokenizer.")
      .def_static(
          "load",
          [](const py::object& folder) {
            const std::string path = path_of("folder", folder);
            if (path.empty()) throw py::value_error("folder: expected a folder, got an empty path");
            return unlocked([&] { return Tokenizer::load(path); });
          },
          py::arg("folder"))
      .def(
          "encode",
          [](const Tokenizer& t, const py::object& text) {
            const std::string utf8 = text_of("text", text);
            return unlocked([&] { return t.encode(utf8); });
          },
          py::arg("text"), "The ids of a text.")
      .def(
          "decode",
          [](const Tokenizer& t, const std::vector<int32_t>& ids, bool skip_special) {
            return unlocked([&] { return t.decode(ids, skip_special); });
          },
          py::arg("ids"), py::arg("skip_special") = false, "The text of ids; skip_special leaves the special ones out.")
      .def("piece", &Tokenizer::piece, py::arg("id"), "The vocabulary's spelling of an id.")
      .def("__len__", &Tokenizer::size);
}

}  // namespace slipstream::python
