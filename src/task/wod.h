// SPDX-License-Identifier: Apache-2.0
// The driving task as a form: a record's truth as field values, an answer's values as waypoints.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "form/builtin/builtin.h"
#include "form/schema/values.h"
#include "plan/trajectory.h"
#include "sim/record.h"
#include "task/codes.h"
#include "task/prompt.h"

namespace slip {

/// The built-in form that a model was trained for, with its budgets: its schema, and compiled. Without its codebook (load_codebook) a form
/// of codes has neither truth nor plan.
json::value task_schema(const TaskOptions& options);
Result<CompiledForm> task_form(const TaskOptions& options, const FormTokens& tokens, const CodebookPtr& codebook = {});

/// Truth of a record in the order of form.fields(). wod-e2e: the twelve objects, the explanation (sentences dropped from its end
/// until it fits the field's budget), behaviour. drive-cot: sim::cot_labels of the record's scene and frame (clauses dropped from
/// the end of a text that is too long), behaviour. Both: the expert's positions at 1 .. n s rounded to multiples of `waypoint_step_m`, or
/// the codes of the expert's path.
/// kBadInput for a form with a field that records know nothing of, and for an enumeration beyond its budget.
Result<std::vector<FieldValue>> truth_values(const sim::Labels& labels, const CompiledForm& form, const Tokenizer& tokenizer,
                                             double waypoint_step_m = 0.01);

/// The answer that a record calls for, as canonical text without NULL padding: what a tokenizer is trained on.
Result<std::string> truth_text(TaskForm form, const sim::Labels& labels, double waypoint_step_m = 0.01);

/// What a record says of a field of behaviour, "future_meta_behavior.longitudinal" or "meta_action.lateral"; empty for other fields.
std::string_view behaviour_truth(const sim::Labels& labels, std::string_view field);

/// The numbers of section `trajectory`, two by two: x forward, y to the left, metres. Empty where the form has none.
std::vector<Waypoint> waypoints_of(const Form& form, std::span<const FieldValue> values);
/// Fields of section `trajectory`, in the form's order.
std::vector<int32_t> plan_fields(const Form& form);
/// yes/no of the twelve classes as an answer gives them; nothing for a class that the form lacks.
std::array<std::optional<bool>, 12> objects_of(const Form& form, std::span<const FieldValue> values);

}  // namespace slip
