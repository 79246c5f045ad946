// SPDX-License-Identifier: Apache-2.0
// Several processes train one configuration.
#pragma once
#include <filesystem>
#include <optional>

#include "train/loop/config.h"

namespace slip {

/// kBadInput, in all processes, where one of them has another configuration than the first, with the keys that differ; also where it goes on
/// from another step. What may differ: "out", "device", "threads", "data_threads", "recompute", "save_every", "keep" and "log_every", none of
/// which changes what is computed together (of "out" and the last three the first process's count). `resume`: a step folder.
Status check_same_config(const TrainConfig& config, const std::optional<std::filesystem::path>& resume);

}  // namespace slip
