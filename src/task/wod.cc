// SPDX-License-Identifier: Apache-2.0
// See wod.h.
#include "task/wod.h"

#include <algorithm>
#include <cmath>

namespace slip {

namespace {

constexpr std::string_view kObjects = "critical_objects.";

std::string_view section_name(const Form& form, const Field& f) { return form.sections()[static_cast<size_t>(f.section)].name; }

// Drops sentences from the end until the text renders within the field's budget.
Result<std::string> fitting_explanation(std::string text, const CompiledForm& form, size_t field, const Tokenizer& tokenizer) {
  for (;;) {
    const auto ids = render_field(form, field, text, tokenizer);
    if (ids) return text;
    const size_t last_dot = text.rfind('.', text.size() < 2 ? 0 : text.size() - 2);
    if (last_dot == std::string::npos || last_dot == 0) return ids.error();
    text.resize(last_dot + 1);
  }
}

double to_step(double v, double step) {
  const double rounded = std::round(v / step) * step;
  return rounded == 0 ? 0.0 : rounded;  // no -0: "-000.00" would be a second spelling of the same place
}

}  // namespace

json::value task_schema(const TaskOptions& options) {
  WodE2eOptions o;
  o.explanation_budget = options.explanation_budget;
  o.behaviour_budget = options.behaviour_budget;
  o.block_size = options.block_size;
  return wod_e2e_schema(o);
}

Result<CompiledForm> task_form(const TaskOptions& options, const FormTokens& tokens) {
  return compile_schema(task_schema(options), "wod-e2e", tokens);
}

Result<std::vector<FieldValue>> truth_values(const sim::Labels& labels, const CompiledForm& form, const Tokenizer& tokenizer,
                                             double waypoint_step_m) {
  std::vector<FieldValue> out;
  int number = 0;
  for (size_t f = 0; f < form.form.fields().size(); ++f) {
    const Field& field = form.form.fields()[f];
    const std::string_view name = field.name;
    if (name.starts_with(kObjects)) {
      const auto at = std::find(sim::kObjectClasses.begin(), sim::kObjectClasses.end(), name.substr(kObjects.size()));
      if (at == sim::kObjectClasses.end())
        return bad_input("form {}: field {}: expected one of the twelve classes", form.form.name(), name);
      out.emplace_back(std::string(labels.critical[static_cast<size_t>(at - sim::kObjectClasses.begin())] ? "yes" : "no"));
    } else if (name == "explanation") {
      SLIP_TRY(std::string text, fitting_explanation(labels.explanation, form, f, tokenizer));
      out.emplace_back(std::move(text));
    } else if (name == "future_meta_behavior.longitudinal") {
      out.emplace_back(std::string(words(labels.longitudinal)));
    } else if (name == "future_meta_behavior.lateral") {
      out.emplace_back(std::string(words(labels.lateral)));
    } else if (section_name(form.form, field) == "trajectory" && std::holds_alternative<NumberMeaning>(form.meanings[f])) {
      const sim::Vec2 p = sim::future_at(labels, number / 2 + 1.0);
      const double largest = std::get<NumberMeaning>(form.meanings[f]).format.largest();
      out.emplace_back(std::clamp(to_step(number % 2 == 0 ? p.x : p.y, waypoint_step_m), -largest, largest));
      ++number;
    } else {
      return bad_input("form {}: field {}: expected a field that records have a truth for, got another", form.form.name(), name);
    }
  }
  return out;
}

std::string truth_text(const sim::Labels& labels, double waypoint_step_m) {
  const NumberFormat format{.space = true, .sign = true, .integer_digits = 3, .decimals = 2, .spelled = {}};
  std::string out = "{\"critical_objects\": {";
  for (size_t i = 0; i < sim::kObjectClasses.size(); ++i)
    out += fmt::format("{}\"{}\": \"{}\"", i ? ", " : "", sim::kObjectClasses[i], labels.critical[i] ? "yes" : "no");
  out += fmt::format(
      "}}, \"explanation\": \"{}\", \"future_meta_behavior\": {{\"longitudinal\": \"{}\", \"lateral\": \"{}\"}}, \"trajectory\": "
      "\"[",
      labels.explanation, words(labels.longitudinal), words(labels.lateral));
  for (int t = 1; t <= 5; ++t) {
    const sim::Vec2 p = sim::future_at(labels, t);
    out += fmt::format("{}[{},{}]", t > 1 ? ", " : "", format.render(to_step(p.x, waypoint_step_m)),
                       format.render(to_step(p.y, waypoint_step_m)));
  }
  return out + "]\"}";
}

std::vector<Waypoint> waypoints_of(const Form& form, std::span<const FieldValue> values) {
  std::vector<double> numbers;
  for (size_t f = 0; f < values.size(); ++f) {
    const double* v = std::get_if<double>(&values[f]);
    if (v && section_name(form, form.fields()[f]) == "trajectory") numbers.push_back(*v);
  }
  std::vector<Waypoint> out;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) out.push_back({numbers[i], numbers[i + 1]});
  return out;
}

std::array<std::optional<bool>, 12> objects_of(const Form& form, std::span<const FieldValue> values) {
  std::array<std::optional<bool>, 12> out;
  for (size_t f = 0; f < values.size(); ++f) {
    const std::string_view name = form.fields()[f].name;
    if (!name.starts_with(kObjects)) continue;
    const auto at = std::find(sim::kObjectClasses.begin(), sim::kObjectClasses.end(), name.substr(kObjects.size()));
    const std::string* word = std::get_if<std::string>(&values[f]);
    if (at != sim::kObjectClasses.end() && word) out[static_cast<size_t>(at - sim::kObjectClasses.begin())] = *word == "yes";
  }
  return out;
}

}  // namespace slip
