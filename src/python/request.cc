// SPDX-License-Identifier: Apache-2.0
// Request and CancelToken for Python.
#include <pybind11/stl.h>

#include "python/bind.h"
#include "python/convert.h"

namespace slipstream::python {

namespace {

using Decoder = DecoderChoice;

void bind_cancel(py::module_& m) {
  py::class_<CancelToken>(m, "CancelToken",
                          "Says that nobody waits for an answer any more; for any thread, and for several answers at once.")
      .def(py::init<>())
      .def("cancel", &CancelToken::cancel, "Ends the answers that hold this token, each within one forward pass.")
      .def_property_readonly("cancelled", &CancelToken::cancelled, "Whether cancel() was called.");
}

void set_images(Request& request, const py::iterable& images) {
  std::vector<Image> out;
  for (const py::handle image : images) out.push_back(image_of(image));
  request.images = std::move(out);
}

// A folder's name, or frames in order of time.
void add_video(Request& request, py::handle frames, double fps) {
  if (py::isinstance<py::str>(frames) || py::hasattr(frames, "__fspath__")) {
    const auto folder = py::module_::import("os").attr("fsencode")(frames).cast<std::string>();
    request.videos.push_back(value_or_throw([&] {
      const py::gil_scoped_release free;
      return read_video(folder, fps);
    }()));
    return;
  }
  Video video{.frames = {}, .fps = fps};
  for (const py::handle frame : py::reinterpret_borrow<py::iterable>(frames)) video.frames.push_back(image_of(frame));
  request.videos.push_back(std::move(video));
}

void set_timeout(Request& request, double seconds) {
  constexpr double kMostSeconds = 1e9;  // 32 years: within the clock's range by far
  if (!(seconds >= 0 && seconds <= kMostSeconds)) throw py::value_error("timeout_s: expected a number from 0 to 1e9");
  const auto span = std::chrono::duration_cast<CancelToken::Clock::duration>(std::chrono::duration<double>(seconds));
  request.cancel.set_deadline(CancelToken::Clock::now() + span);
}

template <class C>
void add_sampling(C& c) {
  const auto number = [&](const char* name, auto member) {
    c.def_property(
        name, [member](const Request& r) { return r.sampling.*member; },
        [member](Request& r, std::remove_cvref_t<decltype(std::declval<Sampling>().*member)> v) {
          r.sampling.*member = std::move(v);
        });
  };
  number("temperature", &Sampling::temperature);
  number("top_k", &Sampling::top_k);
  number("top_p", &Sampling::top_p);
  number("min_p", &Sampling::min_p);
  number("repetition_penalty", &Sampling::repetition_penalty);
  number("repetition_last", &Sampling::repetition_last);
  number("section_temperatures", &Sampling::section_temperatures);
}

template <class C>
void add_decoder(C& c) {
  const auto word = [&](const char* name, std::string Decoder::*member) {
    c.def_property(
        name, [member](const Request& r) { return r.decoder.*member; },
        [member](Request& r, std::string v) { r.decoder.*member = std::move(v); });
  };
  word("decoder", &Decoder::preset);
  word("schedule", &Decoder::schedule);
  word("drafter", &Decoder::drafter);
  word("verifier", &Decoder::verifier);
  word("width", &Decoder::width);
}

}  // namespace

void bind_request(py::module_& m) {
  bind_cancel(m);
  py::class_<Request> c(m, "Request", "What is asked; slipstream.Engine.answer makes one of its arguments.");
  c.def(py::init<>());
  c.def_static("of_record", [](const std::string& record) { return value_or_throw(request_of_record(record)); });
  c.def_static(
      "of_scene", [](uint64_t seed, double frame_s) { return value_or_throw(request_of_scene(seed, frame_s)); }, py::arg("seed"),
      py::arg("frame_s") = 0.0);
  c.def_readwrite("form", &Request::form);
  c.def_readwrite("form_schema", &Request::form_schema);
  c.def_readwrite("prompt", &Request::prompt);
  c.def_readwrite("system", &Request::system);
  c.def_readwrite("stop", &Request::stop);
  c.def_readwrite("log_probs", &Request::log_probs);
  c.def_readwrite("top_log_probs", &Request::top_log_probs);
  c.def_readwrite("previous_answer", &Request::previous_answer);
  c.def_readwrite("visibility", &Request::visibility);
  c.def_readwrite("unnorm_key", &Request::unnorm_key);
  c.def_readwrite("fit", &Request::fit);
  c.def_readwrite("trajectory_head", &Request::trajectory_head);
  c.def_readwrite("fast_plan", &Request::fast_plan);
  c.def_readwrite("seed", &Request::seed);
  c.def_readwrite("rollouts", &Request::rollouts);
  c.def_readwrite("max_tokens", &Request::max_tokens);
  c.def_readwrite("max_rows", &Request::max_rows);
  c.def_readwrite("activation", &Request::activation);
  c.def_readwrite("log_forced", &Request::log_forced);
  c.def_readwrite("trace", &Request::trace);
  c.def_readwrite("blank_images", &Request::blank_images);
  c.def_readwrite("reuse_prompt", &Request::reuse_prompt);
  add_sampling(c);
  add_decoder(c);
  c.def("set_images", &set_images);
  c.def("add_video", &add_video, py::arg("frames"), py::arg("fps"));
  c.def("set_ego", [](Request& r, const std::string& json) { r.ego = value_or_throw(parse_ego(json)); });
  c.def("read_ego", [](Request& r, const std::string& file) { r.ego = value_or_throw(read_ego(file)); });
  c.def("set_messages", [](Request& r, const std::string& json) { r.messages = value_or_throw(parse_messages(json)); });
  c.def("set_cancel", [](Request& r, const CancelToken& parent) { r.cancel = CancelToken::child_of(parent); });
  c.def("set_timeout", &set_timeout);
}

}  // namespace slipstream::python
