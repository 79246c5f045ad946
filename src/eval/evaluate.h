// SPDX-License-Identifier: Apache-2.0
// Metrics of a decoder over records: critical objects (F1 per class beside the prior), texts of drive-cot (agreement per field
// beside the share of the most frequent truth), behaviour, displacement against the expert's future beside constant velocity and
// standing still, on all records and on those whose manoeuvre starts after t0; validity and passes. The reference of every
// displacement is the logged (expert's) future, 20 points at 4 Hz.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "engine/engine.h"
#include "eval/measures.h"
#include "plan/label_scores.h"
#include "sim/record.h"

namespace slip {

struct EvalSettings {
  Method method;
  std::string label;  // of the decoder in lines and tables; empty: the method's preset
  int rollouts = 1;
  std::vector<std::pair<std::string, float>> section_temperatures;
  float temperature = 0;
  uint64_t seed = 0;
  DecodeContext context;             // an earlier answer, an observer of drafts, cancellation
  bool blank_images = false;         // grey images in place of the real ones: how much the cameras matter
  bool reuse_prompt = true;          // Request::reuse_prompt
  std::string trajectory_head = {};  // Request::trajectory_head
};

/// Sums over records; means come out of `json`.
class DisplacementSums {
 public:
  void add(double ade_3s, double ade_5s, double fde_5s);
  int64_t count() const { return count_; }
  double ade_3s() const { return mean(ade_3s_); }
  double ade_5s() const { return mean(ade_5s_); }
  double fde_5s() const { return mean(fde_5s_); }
  json::object to_json() const;

 private:
  double mean(double sum) const { return count_ ? sum / static_cast<double>(count_) : 0; }
  double ade_3s_ = 0, ade_5s_ = 0, fde_5s_ = 0;
  int64_t count_ = 0;
};

struct Subset {
  DisplacementSums model, constant_velocity, standing;
};

/// Exact agreement of one field's text with the truth. An answer without values agrees nowhere.
class TextAgreement {
 public:
  void add(const std::string* answer, const std::string& truth);
  int64_t count() const { return count_; }
  double agreement() const;
  /// What the most frequent truth as a constant answer would reach.
  double prior() const;

 private:
  int64_t count_ = 0, equal_ = 0;
  std::map<std::string, int64_t> truths_;
};

struct Evaluation {
  int64_t records = 0, valid = 0, judged = 0;  // judged: records whose behaviour is known; imported ones may not know it
  std::array<YesNoCounts, 12> objects;         // empty counts where the form has no yes/no classes
  std::vector<std::pair<std::string, TextAgreement>> texts;  // fields of drive-cot, in their order; empty for other forms
  double text_agreement() const;                             // mean over the fields
  double text_prior() const;
  int64_t longitudinal_right = 0, lateral_right = 0;
  Subset all, pre_onset;
  int64_t infeasible = 0;  // plans that a car could not follow (plan/feasibility.h)
  int64_t forwards = 0, tokens = 0, proposed = 0, tested = 0, accepted = 0;
  double decode_ms = 0, total_ms = 0;  // decode: prefill, draft, verify and what is between
  double encode_ms = 0, prefill_ms = 0, draft_ms = 0, verify_ms = 0;
  std::map<std::string, int64_t> chosen;  // decoder auto: answers by what it took
  /// Means of everything else that records were measured by (eval/measures.h), over the records that have it.
  struct Mean {
    double sum = 0;
    int64_t count = 0;
    double value() const { return count ? sum / static_cast<double>(count) : 0; }
  };
  std::map<std::string, Mean> measures;
  /// One record more, as it was measured or as its line says.
  void add(const RecordMeasures& m);
  /// The mean of a measure; nothing where no record has it.
  std::optional<double> measure(const std::string& name) const;
  json::object to_json() const;
};

/// One record through the engine, added to `sums`. The answer comes back for whoever wants it.
struct Evaluated {
  Answer answer;
  RecordMeasures measures;
};
Result<Evaluated> evaluate_record(Engine& engine, const sim::Labels& labels, std::span<const uint8_t> images,
                                  const EvalSettings& settings, Evaluation& sums);

/// The record as a request: ego history, three images.
Request request_of(const sim::Labels& labels, std::span<const uint8_t> images, const EvalSettings& settings);

/// {"macro_f1": {"min": 0.7}, "pre_onset.model.ade_5s": {"max": 3}}: what can be said of limits before there is a result.
Status check_limit_shapes(const json::value& limits, std::string_view where);
/// And of their names: a number that every result may have, or one of a decoder's, with several of them.
Status check_limit_names(const json::object& limits, bool several, std::string_view where);
/// Such limits' dotted paths lead into to_json(). kCheckFailed lists what is missed, and what no record knows.
Status check_limits(const json::object& result, const json::object& limits, std::string_view where);

/// Several evaluations of the same records, a line each: Markdown (which people read as it is), or CSV.
using Evaluations = std::vector<std::pair<std::string, Evaluation>>;
std::string comparison_table(const Evaluations& all);
std::string comparison_csv(const Evaluations& all);

/// A table for people, headed by the decoder where it is given, and "lossy" where that is.
std::string evaluation_table(const Evaluation& e, const Method* method = nullptr);

}  // namespace slip
