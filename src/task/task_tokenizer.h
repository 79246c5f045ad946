// SPDX-License-Identifier: Apache-2.0
// A small model's own tokenizer: byte-level BPE trained on the prompts and answers of simulated records.
#pragma once
#include <cstdint>
#include <filesystem>

#include "base/result.h"
#include "task/prompt.h"

namespace slip {

struct TaskTokenizerOptions {
  PromptStyle prompt = PromptStyle::kCompact;
  int32_t vocab = 768;      // everything counted: 256 bytes, merges, special tokens
  uint64_t first_seed = 0;  // records whose texts are learned from
  int64_t records = 2000;
  double waypoint_step_m = 0.01;
};

/// Writes tokenizer.json and tokenizer_config.json. Words of the form (yes, no, behaviours, class names) are single tokens;
/// |<MASK>| and <|NULL|> are added tokens. A function of the options alone.
Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& options);

}  // namespace slip
