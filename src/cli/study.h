// SPDX-License-Identifier: Apache-2.0
// A study: arms trained on the same samples with several seeds, evaluated in the same modes, compared. Document:
//   {"name": "alpha",
//    "base": "configs/x.json" or a training configuration,        what all arms share
//    "seeds": [1, 2, 3],
//    "arms": [{"name": "joint", "set": {"objective.alpha": 0.3}},                       dotted paths into the configuration
//             {"name": "two stages", "stages": [{"steps": 500, "objective.alpha": 0}, {"steps": 500}]},   each starts from the one before
//             {"name": "with a head", "stages": [{}, {"config": "configs/head.json", "steps": 300}]},      a stage of its own configuration in
//                                         place of the base; one that trains a head stands on the stage before as its target
//             {"name": "as shipped", "checkpoint": "models/demo"}],                     evaluated, not trained
//    "modes": [{"name": "ar", "decoder": "ar", "count": 50, "seed": 900000000}, ...],   what eval takes: decoder, schedule, drafter,
//                   verifier, width, records, count, seed, temperature; "{checkpoint}" stands for the arm's folder; "trajectory_head": true takes the plans of
//                   an arm's head, where it has one; "on": a model's folder that
//                   the arm's adapter is laid into; "texts": true asks `bench text`'s questions in eval's place, "seed" the first scene's
//    "columns": ["ar:all.model.ade_5s", "train:loss"],           MODE:PATH into eval's JSON; train:loss|noisy|ar, means of the last twentieth
//    "against": "joint",                                         differences are told to this arm; default: the first
//    "out": "out/alpha"}
#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/files/kept.h"
#include "base/json.h"
#include "slipstream/engine.h"

namespace slip::cli {

struct StudyArm {
  std::string name, checkpoint;
  std::vector<json::object> stages;  // what each sets; none where a checkpoint is given
};
struct StudyMode {
  std::string name, on;
  bool head = false;   // plans are those of the arm's trajectory head, where it has one
  bool texts = false;  // questions about scenes, whose answers are compared exactly; else driving scenes
  slipstream::EvaluateOptions options;
};
struct StudyColumn {
  std::string mode, path;
  std::string title() const { return mode + ":" + path; }
};
struct Study {
  std::string name, out, against;
  json::object base;
  std::vector<int64_t> seeds;
  std::vector<StudyArm> arms;
  std::vector<StudyMode> modes;
  std::vector<StudyColumn> columns;
  FilesByOption reads;  // the document itself, and what it names by the key that does
};
/// What `train:` columns name: means over the end of the loss log.
inline constexpr std::array<std::string_view, 3> kLosses = {"loss", "noisy", "ar"};
/// kBadInput names the key that is wrong; unknown keys are errors.
Result<Study> read_study(const std::string& file);

/// kUsage where what the study writes into `out` would take the place of what it reads.
Status check_kept(const Study& study);

/// A training configuration at a key, as it stands there or as a file that is named there; empty where there is none.
Result<json::object> read_configuration(const json::object& o, std::string_view key, const std::string& where);
/// A copy of `config` with `value` at a dotted path. kBadInput where the path leads through something that is no object.
Status set_at(json::object& config, std::string_view path, const json::value& value, std::string_view where);
/// The number at a dotted path; nothing where there is none.
std::optional<double> number_at(const json::value& v, std::string_view path);
/// Of a mode's first result: has it what the study's columns of this mode name? kBadInput for a name that no result has. Returns remarks, a line
/// each, on what this result lacks and another arm's may have: what goes by the model's form, and measures that no answer gave.
Result<std::string> check_columns(const Study& study, std::string_view mode, const json::value& result);

/// Before anything is trained: kBadInput for a column of measures whose name is none of `known` (slipstream::evaluation_measures).
Status check_measures(const Study& study, const std::vector<std::string>& known);

/// Mean and the half width of its 95 % interval, t(n - 1) s / sqrt(n) (Student); no width below two values.
struct Interval {
  double mean = 0;
  std::optional<double> half;
  int64_t n = 0;
};
Interval interval_of(const std::vector<double>& values);

/// What `bench text` says of one decoder over mode.options.count texts: right, tokens_per_forward, ms. Defined in bench/text.cc.
Result<json::value> text_answers(const std::string& model, const StudyMode& mode);

/// values[arm][column][seed], the numbers of a study; an empty optional: not measured.
using StudyValues = std::vector<std::vector<std::vector<std::optional<double>>>>;
/// A Markdown table: a row an arm, mean +- half width; and below it each arm's paired differences to study.against over the seeds.
std::string study_table(const Study& study, const StudyValues& values);
json::object study_json(const Study& study, const StudyValues& values);

}  // namespace slip::cli
