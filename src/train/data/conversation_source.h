// SPDX-License-Identifier: Apache-2.0
// Training samples from conversations. Config object "data":
//   {"kind": "records", "records": DIR of a conversation set, "first": 0, "count": N, "block_size": 32, "longest": 4096,
//    "model": "config.json"}        model: needed where there are pictures; preprocessor_config.json stands beside it
// Every answer of the assistant counts, with the <|im_end|> behind it, and its tokens are cut into blocks; the rest is prompt. Texts are
// tokenised as the engine would see them: the prompt up to an answer, then the answer. A template must only append as messages come.
#pragma once
#include <memory>
#include <string>

#include "train/data/source.h"

namespace slip {

Result<std::unique_ptr<SampleSource>> make_conversation_source(const json::object& data, const std::string& tokenizer_folder);

}  // namespace slip
