// SPDX-License-Identifier: Apache-2.0
// Request and CancelToken for Python.
#include <pybind11/stl.h>

#include "python/bind.h"
#include "python/convert.h"

namespace slipstream::python {

namespace {

void bind_cancel(py::module_& m) {
  py::class_<CancelToken>(m, "CancelToken",
                          "Says that nobody waits for an answer any more; for any thread, and for several answers at once.")
      .def(py::init<>())
      .def("cancel", &CancelToken::cancel, "Ends the answers that hold this token, each within one forward pass.")
      .def_property_readonly("cancelled", &CancelToken::cancelled, "Whether cancel() was called.");
}

// Before each of them it is seen whether anybody still waits for the answer.
std::vector<Image> images_of(const CancelToken& cancel, const py::iterable& images) {
  std::vector<Image> out;
  for (const py::handle image : images) {
    check_or_throw(cancel.check("request", static_cast<int64_t>(out.size()), "images"));
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    out.push_back(image_of(image));
  }
  return out;
}

void set_images(Request& request, const py::iterable& images) { request.images = images_of(request.cancel, images); }

// A folder's name, or frames in order of time.
void add_video(Request& request, py::handle frames, double fps) {
  if (is_path(frames)) {
    const std::string folder = path_of("video", frames);
    request.videos.push_back(unlocked([&] { return read_video(folder, fps, request.cancel); }));
    return;
  }
  request.videos.push_back({.frames = images_of(request.cancel, py::reinterpret_borrow<py::iterable>(frames)), .fps = fps});
}

// passed_s: of these seconds, before this call.
void set_timeout(Request& request, double seconds, double passed_s) {
  constexpr double kMostSeconds = 1e9;  // 32 years: within the clock's range by far
  if (!(seconds >= 0 && seconds <= kMostSeconds)) throw py::value_error("timeout_s: expected a number from 0 to 1e9");
  const auto span = std::chrono::duration_cast<CancelToken::Clock::duration>(std::chrono::duration<double>(seconds - passed_s));
  request.cancel.set_deadline(CancelToken::Clock::now() + span);
}

const char* word_of(RequestOption::Kind kind) {
  switch (kind) {
    case RequestOption::Kind::kText:
      return "text";
    case RequestOption::Kind::kWhole:
      return "whole";
    case RequestOption::Kind::kNumber:
      return "number";
    case RequestOption::Kind::kFlag:
      return "flag";
    case RequestOption::Kind::kTexts:
      return "texts";
  }
  return "";
}

// Name, kind, the value where nobody says, as a text, and words for help.
py::list options() {
  py::list out;
  for (const RequestOption& o : request_options()) out.append(py::make_tuple(o.name, word_of(o.kind), o.initial, o.help));
  return out;
}

}  // namespace

void bind_request(py::module_& m) {
  bind_cancel(m);
  m.def("child_of", [](const CancelToken& parent) { return CancelToken::child_of(parent); });
  m.def("request_options", &options);
  py::class_<Request> c(m, "Request", "What is asked; slipstream.Engine.answer makes one of its arguments.");
  c.def(py::init<>());
  c.def_static("of_record", [](const std::string& record) { return unlocked([&] { return request_of_record(record); }); });
  c.def_static(
      "of_scene", [](uint64_t seed, double frame_s) { return unlocked([&] { return request_of_scene(seed, frame_s); }); },
      py::arg("seed"), py::arg("frame_s") = 0.0);
  c.def_readwrite("form_schema", &Request::form_schema);
  c.def_readwrite("previous_answer", &Request::previous_answer);
  c.def("set_option",
        [](Request& r, const std::string& name, const std::string& value) { check_or_throw(set_option(r, name, value, name)); });
  c.def("set_images", &set_images);
  c.def("add_video", &add_video, py::arg("frames"), py::arg("fps"));
  c.def("set_ego", [](Request& r, const std::string& json) { r.ego = value_or_throw(parse_ego(json)); });
  c.def("read_ego", [](Request& r, const std::string& file) { r.ego = unlocked([&] { return read_ego(file); }); });
  c.def("set_messages", [](Request& r, const std::string& json) { r.messages = value_or_throw(parse_messages(json)); });
  c.def("set_cancel", [](Request& r, const CancelToken& parent) { r.cancel = CancelToken::child_of(parent); });
  c.def("set_timeout", &set_timeout, py::arg("seconds"), py::arg("passed_s"));
}

}  // namespace slipstream::python
