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
  CancelToken cancel = {};
};

/// Writes tokenizer.json and tokenizer_config.json. Words of the form (yes, no, behaviours, class names) are single tokens;
/// |<MASK>| and <|NULL|> are added tokens. For drive-cot the answers of both forms are learned from, so that one vocabulary speaks
/// either: its words are single tokens, and so are line break, colon, semicolon and digits. A function of the options alone.
Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& options);

}  // namespace slip
