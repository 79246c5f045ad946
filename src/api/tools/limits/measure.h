// SPDX-License-Identifier: Apache-2.0
// What slipstream::limits runs on this machine: its ceilings, passes, the stages of answers, and decoders over held-out scenes.
#pragma once
#include <string>
#include <vector>

#include "api/tools/limits/work.h"

namespace slip::api {

/// The ceilings of this machine for weights of this type and size.
Machine measured_machine(const LimitsCase& model, ThreadPool& pool);
/// Requests of a set of records, of held-out scenes, or of free text for models of text.
Result<std::vector<Request>> limits_scenes(LimitsWork& w, int64_t count, const std::string& records);
/// How long free answers to the scenes are in the mean: what is foreseen is foreseen for these.
Result<int32_t> measured_text_tokens(LimitsWork& w);

struct MeasuredDecoder {
  double ms = 0, forwards = 0, rows = 0, tokens = 0;  // ms behind the prompt; passes, rows and tokens of all; means over scenes
  double prompt_ms = 0;                               // the quickest prompt's pass
};
/// The scenes answered by one decoder here, each twice, of which the quicker counts.
Result<MeasuredDecoder> measure_decoder(LimitsWork& w, const Method& method, const DraftLengthModel& model);
/// The towers over the pictures of the first scene, the quickest of some; nothing where a scene has none.
Result<std::optional<double>> measure_tower(LimitsWork& w);
/// A round of the model's own draft head behind --keys rows of context, and a step of a second model behind as many keys.
Result<CostTable> measure_head(LimitsWork& w);
Result<CostTable> measure_draft_model(LimitsWork& w);

}  // namespace slip::api
