// SPDX-License-Identifier: Apache-2.0
// Engine for Python, and answers under way: Pending is what answer(), stream() and answer_async() stand on.
#include <pybind11/stl.h>

#include <atomic>
#include <future>
#include <memory>

#include "python/background.h"
#include "python/bind.h"
#include "python/convert.h"
#include "python/gil.h"
#include "python/job.h"

namespace slipstream::python {

namespace {

using std::chrono::milliseconds;

// Ctrl-C is promised within 50 ms: so long until it is seen, and so long for the pass under way to end. A longer pass ends by itself later.
constexpr milliseconds kLook{10}, kGrace{25};

class Pending {
 public:
  explicit Pending(std::shared_ptr<Job> job) : job_(std::move(job)) {}

  void cancel() { job_->cancel(); }
  bool done() const {
    refuse_forks();
    return job_->done();
  }

  /// Waits for the end, and gives the answer; a second time too.
  std::shared_ptr<Answer> result() {
    if (!answer_ && !error_) {
      wait(false);
      Result<Answer> result = job_->take_answer();
      if (result)
        answer_ = std::make_shared<Answer>(std::move(*result));
      else
        error_ = result.error();
    }
    if (error_) throw_error(*error_);
    return answer_;
  }

  /// The next event; None behind the last.
  std::optional<EventCopy> next_event() {
    wait(true);
    return job_->take_event();
  }

 private:
  void refuse_forks() const {
    if (!job_->is_of_this_process())
      throw_error(
          {ErrorKind::kUnsupported, "answer: expected the process that began it, got a fork of it, which has none of its threads"});
  }
  void wait(bool or_event) {
    refuse_forks();
    wait_with_signals([&] { return job_->wait_for(kLook, or_event); },
                      [&] {
                        job_->cancel();
                        job_->wait_for(kGrace, false);
                      });
  }

  std::shared_ptr<Job> job_;
  std::shared_ptr<Answer> answer_;
  std::optional<Error> error_;
};

/// A Python object that another thread lets go of.
std::shared_ptr<py::object> shared(py::object object) {
  return {
      new py::object(std::move(object)), [](py::object* o) {
        with_gil([o] {
          Py_DECREF(
              o->release().ptr());  // not from py::object's destructor, which is noexcept: what is deleted may run code of Python's
          delete o;
        });
      }};
}

Pending start(const std::shared_ptr<Engine>& engine, const Request& request, const std::string& keep, const py::object& on_done) {
  const Keep kept = keep == "all" ? Keep::kAll : keep == "decided" ? Keep::kDecided : Keep::kNothing;
  std::function<void()> done;
  if (!on_done.is_none())
    done = [callback = shared(on_done)] {
      with_gil([&] {  // in Python's own words: no object of C++ stands in the way where the interpreter ends meanwhile
        PyObject* const nothing = PyObject_CallNoArgs(callback->ptr());
        if (nothing == nullptr) PyErr_WriteUnraisable(callback->ptr());
        Py_XDECREF(nothing);
      });
    };
  return Pending(Job::start(engine, request, kept, std::move(done)));
}

/// How far loading is, from its thread to the one that waits, who may call it off.
struct LoadState {
  std::atomic<int64_t> done{0}, total{0};
  CancelToken cancel;
  std::promise<Result<Engine>> loaded;
};

void tell(const py::object& progress, const LoadState& state, int64_t& told) {
  const int64_t done = state.done.load();
  if (progress.is_none() || done == told) return;
  told = done;
  progress("loading", done, state.total.load());
}

/// Calls a load off when its caller leaves before the end: by Ctrl-C, or because `progress` raised. Behind the end it changes nothing. The
/// memory comes back when the loading thread has seen it.
struct CallOff {
  CancelToken& cancel;
  ~CallOff() { cancel.cancel(); }
};

std::shared_ptr<Engine> load(const std::string& folder, const EngineOptions& options, const py::object& progress) {
  const auto state = std::make_shared<LoadState>();
  std::future<Result<Engine>> loaded = state->loaded.get_future();
  const auto tell_state = [state = state.get()](std::string_view, int64_t done, int64_t total) {
    state->total = total;
    state->done = done;
  };
  const auto work = [state, folder, options, tell_state] {
    state->loaded.set_value(Engine::load(folder, options, tell_state, state->cancel));
  };
  in_background(work, [state] { state->cancel.cancel(); });
  const CallOff on_leaving{state->cancel};
  int64_t told = -1;
  for (bool ready = false; !ready;) {
    tell(progress, *state, told);
    {
      const Unlocked free;
      ready = loaded.wait_for(kLook) == std::future_status::ready;
    }
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  tell(progress, *state, told);
  return std::make_shared<Engine>(value_or_throw(loaded.get()));
}

void bind_info(py::module_& m) {
  py::class_<ModelInfo>(m, "ModelInfo", "What a loaded model is.")
      .def_readonly("folder", &ModelInfo::folder)
      .def_readonly("model_type", &ModelInfo::model_type)
      .def_readonly("dtype", &ModelInfo::dtype)
      .def_readonly("kv", &ModelInfo::kv_type)
      .def_readonly("device", &ModelInfo::device)
      .def_readonly("vocab", &ModelInfo::vocab)
      .def_readonly("hidden_size", &ModelInfo::hidden_size)
      .def_readonly("slots", &ModelInfo::slots)
      .def_readonly("positions", &ModelInfo::positions)
      .def_readonly("vision", &ModelInfo::vision)
      .def_readonly("can_draft", &ModelInfo::can_draft)
      .def_readonly("draft_adapter", &ModelInfo::has_draft_adapter)
      .def_readonly("form", &ModelInfo::form)
      .def_readonly("visibility", &ModelInfo::visibility);
}

const char* word_of(Event::Kind kind) {
  return kind == Event::Kind::kField ? "field" : kind == Event::Kind::kText ? "text" : kind == Event::Kind::kPlan ? "plan" : "pass";
}

}  // namespace

void bind_engine(py::module_& m) {
  bind_info(m);
  py::class_<EventCopy>(m, "Event")
      .def_property_readonly("kind", [](const EventCopy& e) { return word_of(e.kind); })
      .def_property_readonly("name", [](const EventCopy& e) { return e.field.name; })
      .def_property_readonly("json", [](const EventCopy& e) { return e.field.json; })
      .def_property_readonly("text", [](const EventCopy& e) { return e.kind == Event::Kind::kField ? e.field.text : e.text; })
      .def_readonly("forwards", &EventCopy::forwards)
      .def_readonly("tokens", &EventCopy::tokens)
      .def_readonly("elapsed_ms", &EventCopy::elapsed_ms);
  py::class_<Pending>(m, "Pending")
      .def("cancel", &Pending::cancel)
      .def_property_readonly("done", &Pending::done)
      .def("result", &Pending::result)
      .def("next_event", &Pending::next_event);
  py::class_<Engine, std::shared_ptr<Engine>>(m, "Engine")
      .def_static(
          "load",
          [](const std::string& folder, const std::string& dtype, const std::string& kv, const std::string& device, int32_t threads,
             int32_t slots, const py::object& progress) {
            return load(folder, {.dtype = dtype, .kv_type = kv, .device = device, .threads = threads, .slots = slots}, progress);
          },
          py::arg("folder"), py::arg("dtype"), py::arg("kv"), py::arg("device"), py::arg("threads"), py::arg("slots"),
          py::arg("progress"))
      .def_property_readonly("info", &Engine::info)
      .def("start", &start, py::arg("request"), py::arg("keep"), py::arg("on_done"));
}

}  // namespace slipstream::python
