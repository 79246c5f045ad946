// SPDX-License-Identifier: Apache-2.0
// What the parts of slipstream::limits share: the case, the machine, the engine where something is run, and the tables so far.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/tools/limits/case.h"
#include "api/tools/limits_tables.h"
#include "decode/draft_length/costs.h"
#include "engine/engine.h"
#include "engine/resources.h"
#include "limits/machine.h"

namespace slip::api {

inline constexpr int32_t kMostMeasuredRows = 128;
inline constexpr std::string_view kPredictedOverMeasured = "predicted_over_measured";

struct LimitsWork {
  const slipstream::LimitsOptions& options;
  const slipstream::Progress& progress;
  const slipstream::CancelToken& cancel;
  LimitsCase model;
  Machine machine;
  std::unique_ptr<Engine> engine = nullptr;  // null where nothing is run
  std::optional<ThreadPool> own_pool = {};   // to measure with, where there is no engine
  std::vector<Request> scenes = {};          // to be answered here
  std::vector<Table> tables = {};
  int32_t scaffold_rows = 0;    // of the form, that run in the prompt's pass
  int32_t measured_tokens = 0;  // of free answers here, in the mean

  void tell(std::string_view stage, int64_t done, int64_t total) const {
    if (progress) progress(stage, done, total);
  }
  /// That a pass stands behind: those asked for, or the prompt's and what a row sees half-way through an answer.
  int32_t keys() const {
    return options.keys > 0 ? options.keys : model.prompt_rows + (model.form ? kAnswerKeys : text_tokens() / 2);
  }
  /// Of free text, as long as it was asked for, or as it was here.
  int32_t text_tokens() const { return measured_tokens > 0 ? measured_tokens : options.answer_tokens; }
  /// That kernels are measured with; null where another machine is asked for.
  ThreadPool* pool() {
    if (!options.machine.empty()) return nullptr;
    return engine ? &engine->model().pool() : own_pool ? &*own_pool : nullptr;
  }
  /// Numbers of activations and keys as this engine keeps them, where the machine is this one; else as the weights.
  double activation_bytes() const { return machine.measured ? 4 : 0; }
  PassShape pass_of(const LimitsCase& c, int64_t rows, int64_t keys, int64_t answers) const {
    return {.rows = rows,
            .keys = keys,
            .answers = answers,
            .type = c.type,
            .head_type = c.head_type,
            .activation_bytes = activation_bytes(),
            .key_bytes = !machine.measured ? 0
                         : c.type == "f32" ? 4.0
                                           : 2.0};
  }
};

/// Milliseconds of the vision towers of a case over its pictures, and of its prompt's pass (with rows of a form behind the prompt), by operation.
Result<PassTime> tower_of(const LimitsWork& w, const LimitsCase& c, const Machine& machine);
Result<PassTime> prompt_of(const LimitsWork& w, const LimitsCase& c, const Machine& machine, int32_t scaffold_rows);
/// Passes behind keys() keys, all rows asked; `machine`: with the rates of this case.
Result<CostTable> roofline_costs(const LimitsWork& w, const LimitsCase& c, const Machine& machine);
/// The machine as another model meets it: its own rates where this machine is measured, and as many hand-overs a pass as it has layers.
Result<Machine> machine_for(LimitsWork& w, const LimitsCase& c);
/// Notes where another machine's kernels were measured with weights of another type, or at other sizes than this case's.
void note_foreign_rates(LimitsWork& w, const LimitsCase& c);

}  // namespace slip::api
