// SPDX-License-Identifier: Apache-2.0
// Trajectories as codes (plan/codebook.h) in the driving task: which codebook a model's folder names, a record's future as codes, an answer's
// codes as a path.
#pragma once
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "form/schema/values.h"
#include "plan/codebook.h"
#include "sim/record.h"
#include "task/prompt.h"

namespace slip {

using CodebookPtr = std::shared_ptr<const TrajectoryCodebook>;

/// The file that task.codebook names in the folder; null where the model answers with waypoints. kBadInput for a missing file, for one with
/// another number of codes than the model has tokens, and for pieces that together are shorter than 5 s or of which one begins behind
/// the 6.4 s that records know.
Result<CodebookPtr> load_codebook(const TaskOptions& task, const std::filesystem::path& folder);

/// Lends the book to a form whose section `trajectory` holds a run of these codes, the model's own or one that a request brings.
void lend_codebook(CompiledForm& form, const CodebookPtr& book, const TaskOptions& task, const Tokenizer& tokenizer);

/// The expert's 64 poses at 0.1 s, 0.2 s, ... 6.4 s.
std::vector<Pose> future_poses(const sim::Labels& labels);

/// The path that an answer's codes spell, 10 Hz, at most 6.4 s: behind that a code was never compared with anything. Empty for a form
/// without a codebook and for an answer without its codes.
std::vector<Pose> path_of(const CompiledForm& form, std::span<const FieldValue> values);
/// The codes themselves, of FieldValue's numbers. Callers have numbers that the form's bins gave.
std::vector<int32_t> codes_of(std::span<const double> numbers);

/// How far paths lie from themselves once they went through the book.
struct CodebookError {
  int64_t paths = 0;
  struct At {
    double mean_m = 0, p99_m = 0;          // of the distance at this time
    double ade_mean_m = 0, ade_p99_m = 0;  // of the mean distance up to it
  };
  At at_3s, at_6_4s;
};
/// Over futures of 64 poses, as `count` codes each; at least one.
CodebookError codebook_error(const TrajectoryCodebook& book, std::span<const std::vector<Pose>> futures, int32_t count);

}  // namespace slip
