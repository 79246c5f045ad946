// SPDX-License-Identifier: Apache-2.0
// See action.h.
#include "task/action.h"

#include "base/check.h"
#include "sim/record/make.h"
#include "task/arm_prompt.h"
#include "text/train_bpe.h"

namespace slip {

namespace {

std::string bin_token(const ActionOptions& o, int i) { return fmt::format("<|{}_{}|>", o.tokens, i); }

Result<std::string> question(const ActionTokenizerOptions& o, uint64_t seed) {
  if (o.body == Body::kArm) return arm_prompt(sim::arm_state(seed));
  SLIP_TRY(const sim::Record r, sim::make_record(seed, {}, false));
  const PromptText prompt = prompt_text(o.prompt, ego_of(r.labels), TaskForm::kAction);
  return prompt.before_images + prompt.after_images;
}

}  // namespace

json::value action_schema(const ActionOptions& o) {
  const json::object bins{{"first", bin_token(o, 0)},
                          {"last", bin_token(o, o.bins - 1)},
                          {"count", o.bins},
                          {"descending", o.descending},
                          {"low", o.low},
                          {"high", o.high}};
  const json::object action{{"type", "array"},
                            {"minItems", o.dimensions},
                            {"maxItems", o.dimensions},
                            {"x-before", {"\u010a"}},
                            {"items", json::object{{"type", "number"}, {"x-bins", bins}}}};
  return json::object{{"title", "action"},
                      {"type", "object"},
                      {"x-layout", "tokens"},
                      {"x-block-size", o.dimensions},
                      {"properties", json::object{{"action", action}}}};
}

std::vector<double> action_of(const sim::Labels& labels, int n) {
  SLIP_CHECK(n >= 1 && n <= kMostActionSteps, "records know 6.4 s");
  constexpr size_t kSamples = 5;  // of 10 Hz in a step
  std::vector<double> out;
  double before = labels.v0_mps;
  for (int k = 1; k <= n; ++k) {
    const double now = labels.future[static_cast<size_t>(k) * kSamples - 1].v;
    out.push_back((now - before) / kActionStepS);
    before = now;
  }
  return out;
}

Status make_action_tokenizer(const std::filesystem::path& folder, const ActionTokenizerOptions& o) {
  std::vector<std::string> texts;
  for (int64_t i = 0; i < o.records; ++i) {
    SLIP_TRY_(o.cancel.check("tokenizer", i, "records"));
    SLIP_TRY(const std::string asked, question(o, o.first_seed + static_cast<uint64_t>(i)));
    texts.push_back("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n" + asked +
                    "<|im_end|>\n<|im_start|>assistant\n");
  }
  std::vector<std::string> bins;
  bins.reserve(static_cast<size_t>(std::max(0, o.action.bins)));
  for (int i = 0; i < o.action.bins; ++i) bins.push_back(bin_token(o.action, i));
  TrainBpeOptions bpe;
  bpe.vocab_size = o.vocab;
  bpe.special_tokens.emplace_back("|<MASK>|");
  if (o.bins_last)
    bpe.added_tokens = std::move(bins);
  else
    bpe.special_tokens.insert(bpe.special_tokens.begin(), bins.begin(), bins.end());
  SLIP_TRY(const TrainedBpe trained, train_bpe(texts, bpe));
  return write_tokenizer(trained, folder);
}

}  // namespace slip
