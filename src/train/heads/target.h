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

/// What a further field would see whose ancestors are all fields of a form: rows of the arena by position, the prompt's first; and how many of
/// them belong to the prompt and the sections up to each one's end.
struct GraphKeys {
  std::vector<int32_t> slots;
  std::vector<int32_t> ends;  // by section
};

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
  /// A sample of a graph: its prompt, and what the quickest exact decoder makes of its fields, greedily.
  Result<Prompt> graph_prompt(const Sample& sample);
  Result<std::vector<std::vector<TokenId>>> graph_contents(const Sample& sample, const Prompt& prompt);
  /// A pass over prompt and fields of these contents, each row seeing what it sees when the graph is decoded; a row's slot is its number.
  Result<GraphKeys> run_graph(const Sample& sample, const Prompt& prompt, const std::vector<std::vector<TokenId>>& contents);
  /// The logits behind the prompt's last row.
  Result<std::vector<float>> last_logits(const Prompt& prompt);

 private:
  explicit Target(std::unique_ptr<Model> model) : model_(std::move(model)) {}
  Result<Prompt> rows_before(const Sample& sample, size_t rows, int32_t next_position);
  Status forward(const Prompt& prompt, std::span<const TokenId> answer, bool taps, Want last);
  std::unique_ptr<Model> model_;
  PassOutput out_;
};

}  // namespace slip
