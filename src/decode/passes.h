// SPDX-License-Identifier: Apache-2.0
// Inside of decode.h: rows in, choices out. Every pass of a decoder goes through `Passes::run`, which polls for cancellation,
// counts and times. The prompt of the last answer stays known, so that its rows can be reused. On a chain, slot i of the arena holds token i of prompt and answer, so whatever a row sees is [0, end).
#pragma once
#include <chrono>
#include <span>
#include <vector>

#include "decode/choice.h"
#include "decode/decode.h"

namespace slip {

enum class PassKind { kPrefill, kDraft, kVerify };

class Passes {
 public:
  /// Starts a new answer: nothing cached but, with `reuse_prompt`, the prompt; statistics at zero.
  void start(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& options, Statistics& statistics);
  int32_t prompt_rows() const { return static_cast<int32_t>(prompt_->inputs.size()); }
  /// kResource unless `answer_rows` fit behind the prompt; makes room for passes of that many rows.
  Status reserve(int32_t answer_rows);

  void clear();
  /// All rows of the prompt, causal; the last one wants `last`. Of a prompt that is cached, the last row where it wants something.
  /// Returns how many were added.
  size_t add_prompt(Want last);
  /// A pass over the prompt alone; none where add_prompt adds nothing.
  Status prefill(Want last);
  /// Row of answer index `i`, which sees prompt and answer rows before `sees_end` (i + 1: causal).
  void add(TokenId token, int32_t i, int32_t sees_end, Want want);
  size_t rows() const { return rows_.size(); }
  void want(size_t row, Want w) { rows_[row].want = w; }
  Status run(PassKind kind);
  std::span<const float> logits_V(size_t row) const { return out_.logits_V(row); }

  // ---- choices from the last pass's rows

  float temperature_of(int32_t section) const;
  /// What a row must deliver so that field `f`'s token can be picked from it.
  Want want_for(int32_t f) const;
  Want want_for_text() const;
  /// The law's token number `index` of field `f`, whose content so far led to `state`.
  TokenId pick(size_t row, int32_t f, int32_t index, int32_t state);
  TokenId pick_from(std::span<const float> logits_V, int32_t f, int32_t index, int32_t state);
  /// Greedy, under the field's rules: what a drafter proposes.
  Want draft_want(int32_t f) const;
  TokenId draft(size_t row, int32_t f, int32_t state);
  TokenId pick_text(size_t row, int32_t index);
  TokenId draft_text(size_t row) const { return out_.argmax[row]; }
  const Field& field(int32_t f) const { return form_->fields()[static_cast<size_t>(f)]; }
  const DecodeOptions& options() const { return *options_; }
  void progress(std::span<const TokenId> tokens) const;

 private:
  /// What the arena's first slots hold after a whole prompt has run.
  struct Cached {
    bool valid = false;
    std::vector<RowInput> inputs;
    std::vector<Position> positions;
    uint64_t features_hash = 0;
    bool holds(const Prompt& prompt) const;
    void assign(const Prompt& prompt);
  };
  Lm* lm_ = nullptr;
  const Prompt* prompt_ = nullptr;
  const Form* form_ = nullptr;
  const DecodeOptions* options_ = nullptr;
  Statistics* statistics_ = nullptr;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  std::vector<TokenId> listed_;
  PassOutput out_;
  bool with_features_ = false, whole_prompt_ = false;
  Cached cached_;
};

}  // namespace slip
