// SPDX-License-Identifier: Apache-2.0
// Every decoder's milliseconds on a machine, from what passes cost and what is known of acceptance: the tables "decoders", "answers" and
// "left_out" of slipstream::limits.
#pragma once
#include <optional>
#include <string>

#include "api/tools/limits/measure.h"

namespace slip::api {

/// What the stages before decoding take.
struct AnswerStages {
  double tower_ms = 0, prompt_ms = 0;
  std::optional<double> measured_prompt_ms;  // filled by predict_decoders, of answers here
};

/// Rows of the form that run in the prompt's pass: its scaffold under graph visibility, none along a chain.
Result<int32_t> scaffold_rows_of(const LimitsWork& w);

/// Exact decoders run over a stand-in for the model (forecast/forecast.h). draft-model is the closed form for an answer of n tokens,
///   rounds(n - 1, alpha, 4) pass(5) + steps(n - 1, alpha, 4) step        [limits/speculation_algebra.h: finite_run],
/// since no calibration says how a second model's drafts hold. Lossy presets commit by confidences that no calibration holds either, and of a
/// model without a calibration nobody knows how its own drafts hold: where answers are run here, their passes are counted and priced. What is not forecast stands in "left_out" with the reason. `measured`: what was run
/// on this machine; null where nothing is. Returns where acceptance comes from.
Result<std::string> predict_decoders(LimitsWork& w, const Measured* measured, AnswerStages& stages);

}  // namespace slip::api
