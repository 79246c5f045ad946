// SPDX-License-Identifier: Apache-2.0
// Are the samples of a validation held out?
#pragma once
#include <string>

#include "base/result.h"
#include "train/data/source.h"
#include "train/loop/config.h"

namespace slip {

/// kBadInput where one of the validation's samples lies behind the end of all data, or at an index that the run trains on. A part of the data that
/// comes round has no sample that stays unseen for good, and a run with a limit of minutes may end before: where a sample of the validation is
/// one of those that may be trained on for such a reason, this is a warning in words. Empty: none is. The work grows with the validation's samples alone.
Result<std::string> check_held_out(const SampleSource& source, const TrainConfig& config);

}  // namespace slip
