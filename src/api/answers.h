// SPDX-License-Identifier: Apache-2.0
// An answer of the engine as callers get it, and what its methods go by.
#pragma once
#include <string>
#include <string_view>

#include "base/json.h"
#include "engine/engine.h"
#include "plot/paper.h"
#include "slipstream/answer.h"
#include "slipstream/model.h"
#include "slipstream/request.h"

namespace slipstream {

struct [[gnu::visibility("hidden")]] Answer::Impl {
  Request asked;          // its pictures left out: they may be the caller's memory
  slip::Request request;  // as it ran, with copies of them
  slip::Answer answer;
  ModelInfo model;
  std::vector<std::string> remarks;
};

}  // namespace slipstream

namespace slip::api {

slipstream::Answer answer_from(Answer answer, Request request, slipstream::Request asked, const slipstream::ModelInfo& model);
slipstream::Trajectory trajectory_from(const Plan& plan);
slipstream::FieldValue field_value(const std::string& name, const FieldValue& value);

/// A file's bytes: cameras with the plan, the form, the plan from above (answer_picture.cc).
Result<std::string> draw_answer(const slipstream::Answer::Impl& answer, FigureFormat format);
/// Chrome trace JSON of an answer's stages and rounds; under graph visibility one lane per field (trace.cc).
json::value trace_of(const Answer& answer);

}  // namespace slip::api
