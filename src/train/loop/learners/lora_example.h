// SPDX-License-Identifier: Apache-2.0
// One answer as an example for the draft adapter: the deployed decoder (scaffold-spec over a form, fields-spec along a graph, self-spec over
// free text, greedy) runs on the model under training, and every round of it is one example.
//
//   draft pass     adapter on: [newest rows, fixed tokens in place, masks], behind the verified prefix's keys; along a graph one such
//                  block for every field that is being decoded
//   verify pass    adapter off, causal: the frozen model's logits for the same draws
//   active set     draws that were tested: the accepted ones and the first miss; what is behind it is counterfactual and teaches
//                  nothing. Draws that the rules decide alone are no examples.
//
// The verified prefix is the frozen model's own greedy answer, whatever the adapter says: the verifier is exact. Differs from
// Nemotron-Labs-Diffusion in two points: answers have forms, and LoraRule::sampled says how many of the
// blocks draw their drafts (there nine in ten); the others take the drafter's greedy choices, as in deployment.
#pragma once
#include <memory>

#include "decode/decoder.h"
#include "train/data/source.h"
#include "train/objective/lora_lm.h"

namespace slip {

/// What is answered. The prompt's rows are in the RowBatch that comes with it.
struct LoraTask {
  std::shared_ptr<const Form> form;  // null: free text
  Visibility visibility = Visibility::kChain;
  int32_t next_position = 0;        // of the first token behind the prompt
  int32_t limit = 0;                // free text: most tokens
  std::vector<TokenId> end_tokens;  // free text
  uint64_t noise = 0;               // key of the sampled drafts
};

/// Sums over examples. Losses are sums over units: blocks or positions (LoraRule::by_blocks).
struct LoraSums {
  double lk = 0, ce = 0;
  int64_t blocks = 0, positions = 0;  // with a loss
  int64_t agreed = 0;                 // positions where drafter and model choose the same; of greedy drafts as many as are accepted
  int64_t proposed = 0, tested = 0, accepted = 0, forwards = 0, tokens = 0;
  void add(const LoraSums& more);
};

/// The prompt of a sample, its rows causal, as a batch of one sequence; and its task. kUnsupported where the loop cannot teach it:
/// fields with an END along a chain.
Result<LoraTask> lora_task(const Sample& sample);
RowBatch prompt_batch(const Sample& sample, const VisionShape& vision);

class LoraExample {
 public:
  /// `lm` outlives it.
  LoraExample(LoraLm& lm, const LoraRule& rule);
  ~LoraExample();
  /// Decodes one answer; adds the gradient of the summed loss (1 per unit) to lm's.
  Result<LoraSums> run(const RowBatch& prompt, const LoraTask& task);
  /// The same without gradients, with or without the adapter: what a draft is worth.
  Result<LoraSums> measure(const RowBatch& prompt, const LoraTask& task, bool adapter);
  /// The last answer's tokens.
  std::span<const TokenId> tokens() const;

 private:
  class Loop;
  std::unique_ptr<Loop> loop_;
};

}  // namespace slip
