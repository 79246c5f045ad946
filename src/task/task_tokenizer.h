// SPDX-License-Identifier: Apache-2.0
// A small model's own tokenizer: byte-level BPE trained on the prompts and answers of simulated records.
#pragma once
#include <cstdint>
#include <filesystem>

#include "base/cancel.h"
#include "base/result.h"
#include "task/prompt.h"

namespace slip {

struct TaskTokenizerOptions {
  TaskForm form = TaskForm::kWodE2e;
  PromptStyle prompt = PromptStyle::kCompact;
  int32_t vocab = 768;      // everything counted: 256 bytes, merges, special tokens
  uint64_t first_seed = 0;  // records whose texts are learned from
  int64_t records = 2000;
  double waypoint_step_m = 0.01;
  DriveCotOptions codes = {};  // its code tokens become the vocabulary's last ids; everything before them is as without
  CancelToken cancel = {};
};

/// Writes tokenizer.json and tokenizer_config.json. Words of the form (yes, no, behaviours, class names) are single tokens;
/// |<MASK>| and <|NULL|> are added tokens. For drive-cot the answers of both forms are learned from, so that one vocabulary speaks
/// either: its words are single tokens, and so are line break, colon, semicolon and digits. A function of the options alone.
Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& options);

/// tokenizer.json of the folder `from`, and its tokenizer_config.json where it has one, written to the folder `to` with <|NAME_0|>, <|NAME_1|>, ..
/// as added tokens behind all that is there; `form` says their name and number. kBadInput where one of them is there already, kUnsupported
/// for a folder without tokenizer.json.
Status add_code_tokens(const std::filesystem::path& from, const std::filesystem::path& to, const DriveCotOptions& form);

}  // namespace slip
