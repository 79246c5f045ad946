// SPDX-License-Identifier: Apache-2.0
// What a configuration names and a checkpoint does not hold: record sets, frozen models, tokenizers. A checkpoint keeps a mark of each, so that a
// run does not go on with others of the same name in silence.
#pragma once
#include <filesystem>

#include "train/loop/config.h"

namespace slip {

/// A mark for each of them that is there, by its part in the run and the name that the configuration gives it. Of large files sizes and pieces
/// count.
json::object marks_of_inputs(const TrainConfig& config);
/// kBadInput where an input of the checkpoint's run has another mark now. Another name is another input, which a configuration may ask for; a
/// checkpoint without marks tells nothing.
Status check_inputs(const json::object& now, const std::filesystem::path& step_folder);

}  // namespace slip
