// SPDX-License-Identifier: Apache-2.0
// Training samples of the driving task answered by one action (task/action.h). Config object "data":
//   {"kind": "simulated", "first_seed": S, "count": N, "model": "config.json", "action_step": 0.1}
// for a model whose config says "form": "action" and "cameras": false: text alone, so that nothing is drawn and a sample costs
// a fifth of a millisecond. Sample i is a frame of scene S + i mod N, a keyed one of 0, 0.5, 1 and 1.5 s after its start: the
// first frames alone would be cars that have not begun to do anything. Accelerations are rounded to multiples of `action_step`.
// "tokenizer_vocab": V makes the tokenizer where its folder has none (seeds from "tokenizer_seed"); "bins_last": false numbers the
// bins before the special tokens.
// Its one section is called "action".
// Of a model whose config says "body": "arm" sample i is state S + i mod N of sim/reach/reach.h with what its expert does there.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "base/result.h"
#include "task/prompt.h"
#include "train/data/source.h"

namespace slip {

/// `task`: what the model's config, which `data` names, says.
Result<std::unique_ptr<SampleSource>> make_action_source(const json::object& data, const TaskOptions& task,
                                                         const std::string& tokenizer_folder);

}  // namespace slip
