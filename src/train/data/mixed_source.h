// SPDX-License-Identifier: Apache-2.0
// Training samples of several sources in fixed shares. Config object "data":
//   {"kind": "mixed", "parts": [{"share": 1, "kind": "simulated", ...}, {"share": 1, "kind": "records", ...}]}
// Each part is a "data" object of its own with a whole number "share" beside its keys (1 to 1000; left out: 1). Out of every S
// samples, S the sum of the shares, the first share_0 are the first part's next ones, then share_1 of the second part, and so on.
// "model" beside "parts" is no part's: the files beside it go into every checkpoint (checkpoint.cc).
// So sample i is the same whatever came before it, and each part goes through its own records in its own order.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "train/data/source.h"

namespace slip {

/// Parts are made by make_source. An error of a part begins with its place: "data: parts: 1: ...".
Result<std::unique_ptr<SampleSource>> make_mixed_source(const json::object& data, const std::string& tokenizer_folder);

}  // namespace slip
