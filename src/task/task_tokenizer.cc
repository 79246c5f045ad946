// SPDX-License-Identifier: Apache-2.0
// See task_tokenizer.h.
#include "task/task_tokenizer.h"

#include "base/interrupt.h"
#include "task/wod.h"
#include "text/train_bpe.h"

namespace slip {

Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& o) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < o.records; ++i) {
    SLIP_TRY_(check_interrupt());
    SLIP_TRY(const sim::Record r, sim::make_record(o.first_seed + static_cast<uint64_t>(i), {}, false));
    const PromptText prompt = prompt_text(o.prompt, ego_of(r.labels));
    texts.push_back(prompt.before_images + prompt.after_images);
    texts.push_back(truth_text(r.labels, o.waypoint_step_m));
    texts.push_back(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  }
  TrainBpeOptions bpe;
  bpe.vocab_size = o.vocab;
  bpe.special_tokens.emplace_back("|<MASK>|");
  bpe.special_tokens.emplace_back("<|NULL|>");
  bpe.whole = {"yes", "no",        "keep", "speed",   " speed", " up",   "slow",   " down",  "come", " to", " stop",
               "go",  " straight", "lane", " follow", "turn",   " left", " right", "change", " +",   " -",  "],"};
  SLIP_TRY(const TrainedBpe trained, train_bpe(texts, bpe));
  return write_tokenizer(trained, folder);
}

}  // namespace slip
