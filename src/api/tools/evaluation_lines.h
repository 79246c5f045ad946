// SPDX-License-Identifier: Apache-2.0
// Lines of an evaluation, one a record and decoder: what they say, how they are kept, how those of a run before are told from others'.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "api/tools/asked.h"
#include "base/file.h"
#include "base/files/line_file.h"
#include "eval/evaluate.h"
#include "slipstream/engine.h"

namespace slip::api {

/// What all lines of a table have in common, and what those of a decoder have.
struct AskedOfAll {
  json::object common;
  std::map<std::string, std::string> choice_of;  // by the name that lines give their decoder
  static AskedOfAll of(const slipstream::EvaluateOptions& o, const slipstream::EngineOptions& how, const std::string& folder);
  json::object of(const std::string& decoder) const;
};

json::object record_line(const Evaluated& e, json::object asked);

/// A record under a decoder: what lines are told apart by. Of a set, whose seeds may stand for several states, its number in it; else -1.
using LineKey = std::tuple<std::string, uint64_t, double, int64_t>;

/// A line per record. A disk that fills costs the lines, not the evaluation: the first failure is kept for its end. Of a run that can be resumed it
/// is the end: what follows would have to be answered again.
class EvaluationLines {
 public:
  AskedOfAll asked;
  Status open(const std::string& file);
  /// What is there stays and is known; new lines go behind it at once, so that the next interruption loses none.
  Status resume(const std::string& file);
  /// The record's measures where its line is there already; null elsewhere.
  const RecordMeasures* known(const LineKey& key) const;
  /// An error where each line was to be kept as it is done.
  Status add(const json::object& record);
  Status commit() { return file_ && status_ ? file_->commit() : status_; }

 private:
  std::map<LineKey, RecordMeasures> known_;
  std::optional<LineFile> behind_;
  std::optional<AtomicFile> file_;
  Status status_;
};

/// Several evaluations as one report.
slipstream::Report comparison(const Evaluations& all, json::object result);

}  // namespace slip::api
