// SPDX-License-Identifier: Apache-2.0
// Everything that one answer to one record is measured by, as a line of JSON: sums over lines are an evaluation, whoever made them
// (shards, an interrupted run that goes on). Distances in metres against the expert's future.
#pragma once
#include <array>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "plan/metrics.h"
#include "sim/record.h"

namespace slip {

struct RecordMeasures {
  std::string decoder;
  std::string chosen;  // by decoder auto; empty for others
  uint64_t seed = 0;
  std::string family;
  double frame_s = 0;
  bool pre_onset = false, valid = false;
  struct YesNo {
    bool said = false, truth = false;
  };
  std::array<std::optional<YesNo>, 12> objects;
  struct Text {
    std::string field;
    bool equal = false;
    std::string truth;
  };
  std::vector<Text> texts;
  bool judged = true;  // is the behaviour known? Imported records may not know it
  bool longitudinal_right = false, lateral_right = false;
  std::map<std::string, double> numbers;  // "ade_5s", "rfs", "ms_total", ...

  void set(const std::string& name, double value) { numbers[name] = value; }
  std::optional<double> get(const std::string& name) const;
  json::object to_json() const;
};
/// Every name that a number of `numbers` may have.
std::vector<std::string> measure_names();
/// kBadInput names what a line lacks.
Result<RecordMeasures> measures_from(const json::object& line, std::string_view where);

/// All but `decoder` and times that the answer does not know.
Result<RecordMeasures> measure_record(const sim::Labels& labels, const Answer& answer, const Tokenizer& tokenizer);
/// What a plan is measured by: displacement beside constant velocity and standing still, both conventions of nuScenes, misses,
/// meta-actions, feasibility; the rated frame's score where there is one. `rollouts`: several answers' plans.
void measure_plan(const sim::Labels& labels, const Trajectory& plan, std::span<const std::vector<Waypoint>> rollouts,
                  const std::optional<RatedFrame>& rated, RecordMeasures& out);
/// The mean displacement of a plan's 25 points within 6.4 s, beside constant velocity; nothing of a plan that ends before, or of a record
/// that knows less (sim::known_future_steps).
void measure_far(const sim::Labels& labels, const Trajectory& plan, RecordMeasures& out);
/// Errors of an action of the driving task (task/action.h), in its units.
void measure_action(std::span<const double> said, std::span<const double> truth, RecordMeasures& out);

/// The expert's future at 4 Hz, at most 25 points.
std::vector<Waypoint> truth_points(const sim::Labels& labels, size_t points = 20);

/// Three trajectories of a simulated scene with the simulator's own ratings: the expert's, his way at four fifths of his pace, constant
/// velocity. A rating is 10 NC DAC TLC (5 EP + 5 TTC + 2 C) / 12 over 5 s among actors that do not react (drive/score/score.h).
/// Nothing for a record that is no scene's first frame.
std::optional<RatedFrame> rate_scene(const sim::Labels& labels);

}  // namespace slip
