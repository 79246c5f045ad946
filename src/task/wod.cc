// SPDX-License-Identifier: Apache-2.0
// See wod.h.
#include "task/wod.h"

#include <algorithm>
#include <cmath>

#include "sim/cot.h"
#include "sim/record/make.h"
#include "task/action.h"

namespace slip {

namespace {

constexpr std::string_view kObjects = "critical_objects.";

std::string_view section_name(const Form& form, const Field& f) { return form.sections()[static_cast<size_t>(f.section)].name; }

// Drops what follows the last `stop` until the text renders within the field's budget; `keep` of the stop's characters stay.
Result<std::string> fitting_text(std::string text, std::string_view stop, size_t keep, const CompiledForm& form, size_t field,
                                 const Tokenizer& tokenizer) {
  for (;;) {
    const auto ids = render_field(form, field, text, tokenizer);
    if (ids) return text;
    const size_t last = text.rfind(stop, text.size() < 2 ? 0 : text.size() - 2);
    if (last == std::string::npos || last == 0) return ids.error();
    text.resize(last + keep);
  }
}

double to_step(double v, double step) {
  const double rounded = std::round(v / step) * step;
  return rounded == 0 ? 0.0 : rounded;  // no -0: "-000.00" would be a second spelling of the same place
}

}  // namespace

json::value task_schema(const TaskOptions& options) {
  if (options.form == TaskForm::kDriveCot) return drive_cot_schema(options.drive_cot);
  if (options.form == TaskForm::kAction) return action_schema(options.action);
  WodE2eOptions o;
  o.explanation_budget = options.explanation_budget;
  o.behaviour_budget = options.behaviour_budget;
  o.block_size = options.block_size;
  return wod_e2e_schema(o);
}

Result<CompiledForm> task_form(const TaskOptions& options, const FormTokens& tokens, const CodebookPtr& codebook) {
  SLIP_TRY(CompiledForm form, compile_schema(task_schema(options), words(options.form), tokens));
  lend_codebook(form, codebook, options, *tokens.tokenizer);
  return form;
}

std::string_view behaviour_truth(const sim::Labels& labels, std::string_view field) {
  for (const std::string_view group : {"future_meta_behavior.", "meta_action."}) {
    if (!field.starts_with(group)) continue;
    const std::string_view part = field.substr(group.size());
    if (part == "longitudinal") return words(labels.longitudinal);
    if (part == "lateral") return words(labels.lateral);
  }
  return {};
}

namespace {

/// Texts of drive-cot: the record's own, or of the scene that its seed makes.
Result<sim::CotLabels> cot_of(const sim::Labels& labels) {
  if (labels.cot) return *labels.cot;
  if ((labels.unknown & (sim::kImported | sim::kMoved)) != 0)
    return bad_input(
        "record {}: expected a scene as its seed makes it for the texts of drive-cot, or its texts, got {}", labels.seed,
        (labels.unknown & sim::kImported) != 0 ? "an imported record" : "one with the ego elsewhere, of before texts were kept");
  return sim::cot_labels(labels.seed, labels.family, labels.frame_s);
}

/// Field by field; the scene's texts are made when the first field asks for them.
class Truth {
 public:
  Truth(const sim::Labels& labels, const CompiledForm& form, const Tokenizer& tokenizer, double step)
      : labels_(labels), form_(form), tokenizer_(tokenizer), step_(step) {}

  Result<FieldValue> value(size_t f) {
    const Field& field = form_.form.fields()[f];
    const std::string_view name = field.name;
    if (const std::string_view word = behaviour_truth(labels_, name); !word.empty()) return FieldValue(std::string(word));
    if (const auto* bins = std::get_if<BinsMeaning>(&form_.meanings[f]); bins && form_.form.name() == words(TaskForm::kAction))
      return action(*bins);
    if (section_name(form_.form, field) == "trajectory") {
      if (std::holds_alternative<NumberMeaning>(form_.meanings[f])) return number(f);
      if (const auto* bins = std::get_if<BinsMeaning>(&form_.meanings[f]); bins && form_.codebook) return codes(*bins);
    }
    if (name == "explanation") {
      SLIP_TRY(std::string text, fitting_text(labels_.explanation, ".", 1, form_, f, tokenizer_));
      return FieldValue(std::move(text));
    }
    if (name.starts_with(kObjects)) {
      const auto at = std::find(sim::kObjectClasses.begin(), sim::kObjectClasses.end(), name.substr(kObjects.size()));
      if (at != sim::kObjectClasses.end())
        return FieldValue(std::string(labels_.critical[static_cast<size_t>(at - sim::kObjectClasses.begin())] ? "yes" : "no"));
    }
    return scene_text(f);
  }

 private:
  FieldValue number(size_t f) {
    const int second = number_ / 2 + 1;  // two numbers each
    const sim::Vec2 p = sim::future_at(labels_, second);
    const double largest = std::get<NumberMeaning>(form_.meanings[f]).format.largest();
    return std::clamp(to_step(number_++ % 2 == 0 ? p.x : p.y, step_), -largest, largest);
  }

  FieldValue codes(const BinsMeaning& bins) const {
    const std::vector<int32_t> said = form_.codebook->encode(future_poses(labels_), bins.count);
    return std::vector<double>(said.begin(), said.end());
  }

  FieldValue action(const BinsMeaning& bins) const {
    std::vector<double> out = action_of(labels_, bins.count);
    for (double& a : out) a = std::clamp(a, bins.low, bins.high);
    return out;
  }

  Result<FieldValue> scene_text(size_t f) {
    const Field& field = form_.form.fields()[f];
    // Records name at most four objects and three lanes: a further one is unused.
    const bool beyond = field.instance_of && field.instance_of->instance >= static_cast<int32_t>(sim::kCotLanes) &&
                        sim::CotLabels().find(form_.form.fields()[static_cast<size_t>(field.instance_of->field)].name);
    const bool known = sim::CotLabels().find(field.name) || beyond;
    if (!known || !std::holds_alternative<TextMeaning>(form_.meanings[f]))
      return bad_input("form {}: field {}: expected a field that records have a truth for, got another", form_.form.name(),
                       field.name);
    if (!cot_) {
      SLIP_TRY(cot_, cot_of(labels_));
    }
    const std::string* own = cot_->find(field.name);
    const std::string text(own ? *own : std::string(sim::kCotNone));
    if (text == sim::kCotNone && form_.form.may_be_absent(static_cast<int32_t>(f))) return FieldValue(NoValue{});
    // A shorter enumeration would leave instances without a name: it has no place to be cut.
    const std::string_view stop = field.separators.empty() ? ", " : "\n";
    SLIP_TRY(std::string fitting, fitting_text(text, stop, 0, form_, f, tokenizer_));
    return FieldValue(std::move(fitting));
  }

  const sim::Labels& labels_;
  const CompiledForm& form_;
  const Tokenizer& tokenizer_;
  double step_;
  int number_ = 0;
  std::optional<sim::CotLabels> cot_;
};

}  // namespace

Result<std::vector<FieldValue>> truth_values(const sim::Labels& labels, const CompiledForm& form, const Tokenizer& tokenizer,
                                             double waypoint_step_m) {
  Truth truth(labels, form, tokenizer, waypoint_step_m);
  std::vector<FieldValue> out;
  for (size_t f = 0; f < form.form.fields().size(); ++f) {
    SLIP_TRY(FieldValue value, truth.value(f));
    out.push_back(std::move(value));
  }
  return out;
}

namespace {

std::string trajectory_text(const sim::Labels& labels, double waypoint_step_m) {
  const NumberFormat format{.space = true, .sign = true, .integer_digits = 3, .decimals = 2, .spelled = {}};
  std::string out = "[";
  for (int t = 1; t <= 5; ++t) {
    const sim::Vec2 p = sim::future_at(labels, t);
    out += fmt::format("{}[{},{}]", t > 1 ? ", " : "", format.render(to_step(p.x, waypoint_step_m)),
                       format.render(to_step(p.y, waypoint_step_m)));
  }
  return out + "]";
}

std::string wod_text(const sim::Labels& labels, double waypoint_step_m) {
  std::string out = "{\"critical_objects\": {";
  for (size_t i = 0; i < sim::kObjectClasses.size(); ++i)
    out += fmt::format("{}\"{}\": \"{}\"", i ? ", " : "", sim::kObjectClasses[i], labels.critical[i] ? "yes" : "no");
  out += fmt::format(
      "}}, \"explanation\": \"{}\", \"future_meta_behavior\": {{\"longitudinal\": \"{}\", \"lateral\": \"{}\"}}, \"trajectory\": "
      "\"",
      labels.explanation, words(labels.longitudinal), words(labels.lateral));
  return out + trajectory_text(labels, waypoint_step_m) + "\"}";
}

// The form's lines: "label: content", the label being the field's name in words.
Result<std::string> cot_text(const sim::Labels& labels, double waypoint_step_m) {
  SLIP_TRY(const sim::CotLabels cot, cot_of(labels));
  std::string out;
  const auto line = [&](const std::string& name) {
    std::string label = name;
    std::replace_if(
        label.begin(), label.end(), [](char c) { return c == '_' || c == '.'; }, ' ');
    const std::string* text = cot.find(name);
    const std::string_view word = behaviour_truth(labels, name);
    out += fmt::format("{}: {}\n", label,
                       text            ? *text
                       : !word.empty() ? std::string(word)
                                       : trajectory_text(labels, waypoint_step_m));
  };
  const json::value schema = drive_cot_schema();
  for (const auto& member : schema.at("properties").as_object()) {
    const std::string name(member.key());
    const json::value* inner = member.value().as_object().if_contains("properties");
    if (!inner) {
      line(name);
      continue;
    }
    for (const auto& part : inner->as_object()) line(name + "." + std::string(part.key()));
  }
  return out;
}

}  // namespace

Result<std::string> truth_text(TaskForm form, const sim::Labels& labels, double waypoint_step_m) {
  if (form == TaskForm::kDriveCot) return cot_text(labels, waypoint_step_m);
  return wod_text(labels, waypoint_step_m);
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

std::vector<int32_t> plan_fields(const Form& form) {
  std::vector<int32_t> out;
  for (size_t f = 0; f < form.fields().size(); ++f)
    if (section_name(form, form.fields()[f]) == "trajectory") out.push_back(static_cast<int32_t>(f));
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
