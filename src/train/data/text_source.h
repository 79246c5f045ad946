// SPDX-License-Identifier: Apache-2.0
// Training samples of free text: questions about a scene's record and their answers (task/scene_text.h). Config object "data":
//   {"kind": "texts", "first_seed": S, "count": N, "tokenizer_vocab": V}
// Sample i is text S + i mod N. Answers end with <|im_end|>, which is always masked. "tokenizer_vocab" makes the tokenizer from the first
// 3,000 texts of seed 0 where its folder has none yet.
#pragma once
#include <memory>
#include <string>

#include "base/json.h"
#include "train/data/source.h"

namespace slip {

Result<std::unique_ptr<SampleSource>> make_text_source(const json::object& data, const std::string& tokenizer_folder);

}  // namespace slip
