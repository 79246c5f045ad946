// SPDX-License-Identifier: Apache-2.0
// The prompt's way into the arena, whose first slots it lies in. It is deferred until a pass begins, so that it travels with the first
// round; rows that an earlier prompt had too are there already and do not run again (prefix_cache.h).
#pragma once
#include <span>

#include "decode/pass/pass_builder.h"
#include "decode/pass/prefix_cache.h"
#include "decode/pass/request.h"

namespace slip {

class Prefill {
 public:
  /// A new answer: nothing is cached but, with DecodeOptions::reuse_prompt, what the prompts have in common.
  void start(const DecodeRequest& request);
  /// The prompt's rows travel with the next pass, behind them those of a graph's scaffold: ids and form positions, which outlive the
  /// answer. With `last` the prompt's last row can be asked for (free text). `sees`: per scaffold row, where the form's shape depends on
  /// values, the stretches of scaffold rows that it sees; empty: all before it.
  void defer(bool last, std::span<const TokenId> scaffold = {}, std::span<const int32_t> scaffold_positions = {},
             std::span<const std::vector<SlotSpan>> sees = {});
  bool deferred() const { return deferred_; }
  /// A pass begins: adds what was deferred, once.
  void lay_out(PassBuilder& pass);
  /// Do deferred rows travel with the pass, and rows of the prompt among them?
  bool travels() const { return travels_; }
  bool prompt_travels() const { return prompt_travels_; }
  /// The pass has run.
  void ran();

  /// Rows of the prompt that need not run: they are in the arena, and what their taps said in the draft head's.
  int32_t cached_rows() const { return cached_rows_; }
  bool cached() const { return cached_rows_ == request_->prompt_rows(); }
  /// Of the pass that the prompt travelled with: its last row.
  size_t last_row() const { return last_row_; }
  /// A graph's scaffold rows, behind the prompt's in the arena, and their form positions.
  std::span<const TokenId> scaffold() const { return scaffold_; }
  std::span<const int32_t> scaffold_positions() const { return scaffold_positions_; }
  /// What another model's arena holds of its prompt (DecodeContext::draft_model).
  PrefixCache& cache_of_draft_model();

 private:
  /// The rows of the prompt that are not cached, causal; the last one wants `last`, and runs again where it wants something. How many.
  size_t add_prompt(PassBuilder& pass, Want last);
  /// What scaffold row k sees, its own slot given.
  PassBuilder::Sees sees_of(PassBuilder& pass, size_t k, int32_t slot) const;

  const DecodeRequest* request_ = nullptr;
  std::span<const TokenId> scaffold_;
  std::span<const int32_t> scaffold_positions_;
  std::span<const std::vector<SlotSpan>> scaffold_sees_;
  bool deferred_ = false, asks_last_ = false, travels_ = false, prompt_travels_ = false;
  size_t last_row_ = 0;
  int32_t cached_rows_ = 0;
  PrefixCache* cache_ = nullptr;
  PrefixCache own_cache_, own_draft_cache_;
  const Lm* draft_cache_of_ = nullptr;
};

}  // namespace slip
