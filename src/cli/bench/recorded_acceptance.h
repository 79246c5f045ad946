// SPDX-License-Identifier: Apache-2.0
// `bench answer --acceptance FOLDER`: drafts of a recorded answer hold as often as calibration saw it of a real model, by field, place in the
// field, draws ahead and how sure the draft looks. One that has a calibration can also be chosen for, so that `auto` is among the decoders, and
// draft from an earlier answer.
#pragma once
#include <filesystem>

#include "cli/bench/replay.h"
#include "decode/decoder.h"
#include "decode/draft_length/model.h"

namespace slip::cli {

struct RecordedAcceptance {
  std::filesystem::path file;
  RecordedForm answer;
  Visibility visibility = Visibility::kChain;
  DraftLengthModel model;  // survival by the recorded answer's fields, its contents as lengths, and what passes cost
};

/// From width.json, or a model's folder that holds it. kBadInput where its fields are not those of a recorded answer: models/demo-cot has
/// FastDriveCoT's, models/demo Fast-dDrive's.
Result<RecordedAcceptance> recorded_acceptance(const std::filesystem::path& file_or_folder, CostTable costs = {});

/// What `auto` takes for it: the method, its name and how it compares.
struct QuickestMethod {
  Method method;
  std::string name, why;
};
Result<QuickestMethod> quickest_method(const RecordedAcceptance& of, const LmInfo& info, const DecodeOptions& options,
                                       int32_t prompt_rows, bool earlier, CancelToken cancel);

}  // namespace slip::cli
