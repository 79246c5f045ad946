// SPDX-License-Identifier: Apache-2.0
// Answer and its parts for Python. Arrays look into the answer's own memory, cannot be written, and keep it alive.
#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <memory>

#include "python/bind.h"
#include "python/convert.h"

namespace slipstream::python {

namespace {

using SharedAnswer = std::shared_ptr<Answer>;

template <class T>
py::array read_only(std::vector<py::ssize_t> shape, const T* data, py::handle base) {
  py::array out = py::array_t<T>(std::move(shape), data, base);
  out.attr("setflags")(py::arg("write") = false);
  return out;
}

py::array points(const std::vector<Point>& of, py::handle base) {
  static_assert(sizeof(Point) == 2 * sizeof(double));
  return read_only({static_cast<py::ssize_t>(of.size()), 2}, of.empty() ? nullptr : of.front().data(), base);
}

py::array numbers(const std::vector<double>& of, py::handle base) {
  return read_only({static_cast<py::ssize_t>(of.size())}, of.data(), base);
}

py::object parsed(const std::string& json) { return py::module_::import("json").attr("loads")(json); }

py::dict fields_of(const Answer& answer) {
  py::dict out;
  for (const FieldValue& field : answer.fields) out[py::str(field.name)] = parsed(field.json);
  return out;
}

void bind_parts(py::module_& m) {
  py::class_<Statistics> s(m, "Statistics", "Counts and milliseconds of one answer.");
  const auto whole = [&](const char* name, int64_t Statistics::*member) { s.def_readonly(name, member); };
  const auto ms = [&](const char* name, double Statistics::*member) { s.def_readonly(name, member); };
  whole("forwards", &Statistics::forwards);
  whole("draft_forwards", &Statistics::draft_forwards);
  whole("drafter_forwards", &Statistics::drafter_forwards);
  whole("rounds", &Statistics::rounds);
  whole("rows", &Statistics::rows);
  whole("reused_rows", &Statistics::reused_rows);
  whole("tokens", &Statistics::tokens);
  whole("forced_tokens", &Statistics::forced_tokens);
  whole("all_tokens", &Statistics::all_tokens);
  whole("proposed", &Statistics::proposed);
  whole("tested", &Statistics::tested);
  whole("accepted", &Statistics::accepted);
  whole("relaxed_accepts", &Statistics::relaxed_accepts);
  whole("discarded", &Statistics::discarded);
  whole("critical_path", &Statistics::critical_path);
  whole("nan_rows", &Statistics::nan_rows);
  whole("head_forwards", &Statistics::head_forwards);
  ms("encode_ms", &Statistics::encode_ms);
  ms("form_ms", &Statistics::form_ms);
  ms("prefill_ms", &Statistics::prefill_ms);
  ms("draft_ms", &Statistics::draft_ms);
  ms("verify_ms", &Statistics::verify_ms);
  ms("plan_ms", &Statistics::plan_ms);
  ms("head_ms", &Statistics::head_ms);
  ms("total_ms", &Statistics::total_ms);
  py::class_<DecoderUsed>(m, "DecoderUsed",
                          "The decoder that ran. exact: the tokens that the model draws one at a time. lossy: they may be others "
                          "than its probabilities "
                          "give. Neither (rejection): other tokens, the same probabilities.")
      .def_readonly("preset", &DecoderUsed::preset)
      .def_readonly("schedule", &DecoderUsed::schedule)
      .def_readonly("drafter", &DecoderUsed::drafter)
      .def_readonly("verifier", &DecoderUsed::verifier)
      .def_readonly("width", &DecoderUsed::width)
      .def_readonly("lossy", &DecoderUsed::lossy)
      .def_readonly("exact", &DecoderUsed::exact);
}

/// A view of a part of an answer that keeps the whole.
struct TrajectoryView {
  SharedAnswer of;
};
struct ActionView {
  SharedAnswer of;
};

void bind_views(py::module_& m) {
  py::class_<TrajectoryView>(m, "Trajectory", "The plan, metres: x forward, y to the left, in the ego frame of t = 0.")
      .def_property_readonly(
          "waypoints", [](const TrajectoryView& v) { return points(v.of->trajectory.waypoints, py::cast(v.of)); },
          "As the answer says, 1 Hz: n x 2, t = 1, 2, ... s.")
      .def_property_readonly(
          "points_4hz", [](const TrajectoryView& v) { return points(v.of->trajectory.points_4hz, py::cast(v.of)); },
          "After the fit: n x 2, t = 0.25, 0.5, ... s; empty without a plan.")
      .def_property_readonly(
          "spread_m", [](const TrajectoryView& v) { return numbers(v.of->trajectory.spread_m, py::cast(v.of)); },
          "Of rollouts, per point: root mean square distance from their mean.")
      .def_property_readonly(
          "rollouts",
          [](const TrajectoryView& v) {
            py::list out;
            for (const auto& rollout : v.of->trajectory.rollouts) out.append(points(rollout, py::cast(v.of)));
            return out;
          },
          "Waypoints of each rollout, n x 2, where there are several.")
      .def_property_readonly(
          "infeasible", [](const TrajectoryView& v) { return v.of->trajectory.infeasible; },
          "Why a car could not follow the plan; empty where one could.");
  py::class_<ActionView>(m, "Action", "A robot's action.")
      .def_property_readonly(
          "unnorm_key", [](const ActionView& v) { return v.of->action->unnorm_key; }, "Whose statistics gave the units.")
      .def_property_readonly(
          "values", [](const ActionView& v) { return numbers(v.of->action->values, py::cast(v.of)); }, "In physical units.")
      .def_property_readonly(
          "normalized", [](const ActionView& v) { return numbers(v.of->action->normalized, py::cast(v.of)); },
          "As the model gave it.");
}

py::dict top_log_probs_of(const Answer& answer) {
  py::dict out;
  for (const LogProbs& of : answer.log_probs) {
    py::list places;
    for (const auto& place : of.top) {
      py::list likely;
      for (const LikelyToken& one : place) likely.append(py::make_tuple(one.id, one.log_prob));
      places.append(std::move(likely));
    }
    out[py::str(of.field)] = std::move(places);
  }
  return out;
}

py::dict log_probs_of(const Answer& answer) {
  py::dict out;
  for (const LogProbs& of : answer.log_probs) out[py::str(of.field)] = of.tokens;
  return out;
}

std::string repr(const Answer& a) {
  return "<slipstream.Answer: " + std::to_string(a.fields.size()) + " fields, " + std::to_string(a.statistics.tokens) +
         " tokens in " + std::to_string(a.statistics.forwards) + " forward passes>";
}

/// Null where no field has the name.
const FieldValue* field_of(const Answer& answer, py::handle name) {
  if (!py::isinstance<py::str>(name)) throw py::type_error("answer: expected a field's name, got " + std::string(py::repr(name)));
  for (const FieldValue& field : answer.fields)
    if (py::str(field.name).equal(name)) return &field;
  return nullptr;
}

py::object value_of(const Answer& answer, const py::object& name) {
  const FieldValue* field = field_of(answer, name);
  if (field) return parsed(field->json);
  PyErr_SetObject(PyExc_KeyError, name.ptr());
  throw py::error_already_set();
}

py::iterator names_of(const Answer& answer) {
  py::list out;
  for (const FieldValue& field : answer.fields) out.append(py::str(field.name));
  return py::iter(out);
}

py::bytes png_of(const Answer& answer) {
  return py::bytes(unlocked([&] { return answer.to_png(); }));
}

}  // namespace

void bind_answer(py::module_& m) {
  bind_parts(m);
  bind_views(m);
  py::class_<Answer, SharedAnswer>(
      m, "Answer", "What came back. answer[name] is a field's value, as of JSON; iterating gives the fields' names.")
      .def_readonly("text", &Answer::text, "As the form writes it; free text as decoded.")
      .def_property_readonly("fields", &fields_of, "The fields' values by name, in the form's order; empty for free text.")
      .def_property_readonly(
          "texts",
          [](const Answer& a) {
            py::dict out;
            for (const FieldValue& field : a.fields) out[py::str(field.name)] = py::str(field.text);
            return out;
          },
          "The same as the answer spells them.")
      .def("__getitem__", &value_of)
      .def("__contains__", [](const Answer& a, const py::object& name) { return field_of(a, name) != nullptr; })
      .def("__iter__", &names_of)
      .def_property_readonly(
          "tokens",
          [](const SharedAnswer& a) {
            return read_only({static_cast<py::ssize_t>(a->tokens.size())}, a->tokens.data(), py::cast(a));
          },
          "Their ids, int32.")
      .def_readonly("valid", &Answer::valid, "Whether the text is one of the form's.")
      .def_property_readonly(
          "trajectory", [](const SharedAnswer& a) { return TrajectoryView{a}; }, "The plan.")
      .def_readonly("plan_source", &Answer::plan_source,
                    "Whose plan that is: \"answer\", \"head\" (trajectory_head); \"\" without one.")
      .def_property_readonly(
          "action", [](const SharedAnswer& a) -> py::object { return a->action ? py::cast(ActionView{a}) : py::none(); },
          "A robot's action, of models that give one; else None.")
      .def_readonly("finish", &Answer::finish, "Why free text ended: \"end\", \"stop\" or \"length\"; \"\" for a form.")
      .def_readonly("remarks", &Answer::remarks, "What a person should know of the request.")
      .def_property_readonly("top_log_probs", &top_log_probs_of,
                             "With top_log_probs=N: by field the N likeliest tokens at every place, (id, logarithm of its "
                             "probability), the likeliest first.")
      .def_readonly("finishes", &Answer::finishes, "Of free text: why each rollout's ended; the first is `finish`.")
      .def_property_readonly(
          "log_probs", &log_probs_of,
          "With log_probs=True: by field the natural logarithms of the drawn tokens' probabilities; \"\" for free text.")
      .def_readonly("decoder", &Answer::decoder, "The decoder that ran.")
      .def_readonly("statistics", &Answer::statistics, "What it took.")
      .def("to_json", &Answer::to_json, "The result object of `slipstream run --json`, one line.")
      .def("trace_json", &Answer::trace_json, "Chrome trace JSON of stages and rounds, where trace=True was asked for.")
      .def("to_png", &png_of, "A PNG: the cameras with the plan, the form filled in, the plan from above.")
      .def("__repr__", &repr);
}

}  // namespace slipstream::python
