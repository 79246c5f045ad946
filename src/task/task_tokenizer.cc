// SPDX-License-Identifier: Apache-2.0
// See task_tokenizer.h.
#include "task/task_tokenizer.h"

#include "sim/record/make.h"
#include "task/wod.h"
#include "text/train_bpe.h"

namespace slip {

Status make_task_tokenizer(const std::filesystem::path& folder, const TaskTokenizerOptions& o) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < o.records; ++i) {
    SLIP_TRY_(o.cancel.check("tokenizer", i, "records"));
    SLIP_TRY(const sim::Record r, sim::make_record(o.first_seed + static_cast<uint64_t>(i), {}, false));
    const PromptText prompt = prompt_text(o.prompt, ego_of(r.labels), o.form);
    texts.push_back(prompt.before_images + prompt.after_images);
    for (const TaskForm form : {TaskForm::kWodE2e, TaskForm::kDriveCot}) {
      if (form != TaskForm::kWodE2e && form != o.form) continue;
      SLIP_TRY(texts.emplace_back(), truth_text(form, r.labels, o.waypoint_step_m));
      if (texts.back().back() == '\n') texts.back().pop_back();  // behind "]]": a line break never merges with what is before it
    }
    texts.push_back(
        "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n<|im_end|>\n<|im_start|>assistant\n");
  }
  TrainBpeOptions bpe;
  bpe.vocab_size = o.vocab;
  bpe.special_tokens.emplace_back("|<MASK>|");
  bpe.special_tokens.emplace_back("<|NULL|>");
  bpe.whole = {"yes", "no",        "keep", "speed",   " speed", " up",   "slow",   " down",  "come", " to", " stop",
               "go",  " straight", "lane", " follow", "turn",   " left", " right", "change", " +",   " -",  "],"};
  if (o.form ==
      TaskForm::kDriveCot)  // the words of a training run's grounding targets (train/data/grounding.h) are single tokens too
    bpe.whole.insert(bpe.whole.end(), {" N", "/A", "\n", " vehicle", "pedestrian", "cyclist", "construction", "traffic", "road",
                                       "emergency", "animal", "special", "door"});
  SLIP_TRY(const TrainedBpe trained, train_bpe(texts, bpe));
  return write_tokenizer(trained, folder);
}

}  // namespace slip
