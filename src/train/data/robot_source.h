// SPDX-License-Identifier: Apache-2.0
// Training samples from a robot's episodes, for OpenVLA and MiniVLA. Config object "data":
//   {"kind": "actions", "records": FILE of steps (import/json_records.h), "model": ".../config.json", "unnorm_key": "bridge_orig",
//    "first": 0, "count": N}
// The prompt is the engine's: the instruction in the checkpoint's frame, patches behind its first token, the blank behind "Out:". The answer is
// the action's tokens, normalised by the model's statistics of `unnorm_key` (needed where there are several) and binned as the engine reads
// them back, and the end token; nothing else counts. Differs from the published fine-tuning: pictures are not augmented.
#pragma once
#include <memory>
#include <string>

#include "train/data/source.h"

namespace slip {

Result<std::unique_ptr<SampleSource>> make_robot_source(const json::object& data, const std::string& tokenizer_folder);

}  // namespace slip
