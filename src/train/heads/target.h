// SPDX-License-Identifier: Apache-2.0
// The frozen model that a head stands on, run by the engine's own passes in f32: what it answers, what its layers say, what its key/value
// cache holds. So a head is taught by the rows that it will read when it is deployed.
#pragma once
#include <memory>
#include <string>

#include "decode/decoder.h"
#include "models/model.h"
#include "train/data/source.h"

namespace slip {

class Target {
 public:
  /// `threads` 0: all.
  static Result<std::unique_ptr<Target>> load(const std::string& folder, int threads);
  Model& model() { return *model_; }
  Lm& lm() { return model_->lm(); }

  /// The sample's rows before its answer, images by the model's tower. kUnsupported for samples of a graph.
  Result<Prompt> prompt(const Sample& sample);
  /// What `method` makes of the sample's form, or of free text with the sample's length as limit where it has none.
  Result<Decoded> decode(const Sample& sample, const Prompt& prompt, Method method, const DecodeContext& context = {});
  /// The greedy answer, by the quickest exact decoder that needs no other model. Free text: the end token included.
  Result<std::vector<TokenId>> answer(const Sample& sample, const Prompt& prompt);
  /// A causal pass over prompt and answer from slot 0 on, with the taps of `layers`: rows x (layers D). No layers: for its keys alone.
  Result<std::vector<float>> run(const Prompt& prompt, std::span<const TokenId> answer, std::span<const int32_t> layers);
  /// The logits behind the prompt's last row.
  Result<std::vector<float>> last_logits(const Prompt& prompt);

 private:
  explicit Target(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  Status forward(const Prompt& prompt, std::span<const TokenId> answer, bool taps, Want last);
  std::unique_ptr<Model> model_;
  PassOutput out_;
};

}  // namespace slip
