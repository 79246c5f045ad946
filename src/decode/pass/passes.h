// SPDX-License-Identifier: Apache-2.0
// Inside of decoder.h: rows in, choices out. Every pass of a decoder goes through `Passes::run`, which polls for cancellation,
// counts and times. The prompt of the last answer stays known, so that its rows can be reused. The prompt lies in the arena's
// first slots; where strands' rows go is the schedule's business.
#pragma once
#include <chrono>
#include <map>
#include <span>
#include <vector>

#include "decode/pass/allowed_lists.h"
#include "decode/pass/choice.h"
#include "decode/pass/prefix_cache.h"
#include "decode/sequence/strand.h"
#include "decode/types/context.h"
#include "decode/types/options.h"

namespace slip {

enum class PassKind { kPrefill, kDraft, kVerify };

class Passes {
 public:
  /// Starts a new answer: nothing cached but, with `reuse_prompt`, the prompt; statistics at zero.
  void start(Lm& lm, const Prompt& prompt, const Form* form, const DecodeOptions& options, const DecodeContext& context,
             Statistics& statistics);
  int32_t prompt_rows() const { return static_cast<int32_t>(prompt_->inputs.size()); }
  /// kResource unless `answer_rows` fit behind the prompt; makes room for passes of that many rows.
  Status reserve(int64_t answer_rows);

  void clear();
  /// The prompt's rows travel with the next pass (begin), behind them those of a graph's scaffold: ids and form positions. With
  /// `last` the prompt's last row can be asked for (free text).
  void defer_prefill(bool last, std::span<const TokenId> scaffold = {}, std::span<const int32_t> scaffold_positions = {});
  bool prefill_deferred() const { return deferred_; }
  /// A graph's scaffold rows, behind the prompt's in the arena, and their form positions.
  std::span<const TokenId> scaffold() const { return scaffold_; }
  std::span<const int32_t> scaffold_positions() const { return scaffold_positions_; }
  /// What another model's arena holds of its prompt.
  PrefixCache& draft_prefix_cache() {
    const DraftModel& m = *context_->draft_model;
    if (m.memory) return *m.memory;
    if (draft_prefix_cache_of_ != m.lm) own_draft_prefix_cache_ = {};
    draft_prefix_cache_of_ = m.lm;
    return own_draft_prefix_cache_;
  }
  /// Clears, adds the deferred prefill if there is one, and what a schedule's hook adds. The pass must then be run. `provisional`: its
  /// keys are not final (a pass with the draft adapter); what the hook adds must come again.
  void begin(bool provisional = false);
  bool provisional() const { return provisional_; }
  void on_begin(std::function<void()> hook) { hook_ = std::move(hook); }
  /// Runs the deferred prefill in a pass of its own.
  Status run_prefill();
  size_t prompt_last_row() const { return prompt_last_row_; }
  /// The rows of the prompt that are not cached, causal; the last one wants `last`, and runs again where it wants something.
  /// Returns how many were added.
  size_t add_prompt(Want last);
  /// A pass over the prompt alone; none where add_prompt adds nothing.
  Status prefill(Want last);
  /// Row of answer index `i` in slot prompt_rows() + i, which sees prompt and answer rows before `sees_end` (i + 1: causal).
  void add(TokenId token, int32_t i, int32_t sees_end, Want want);
  /// Spans for rows that follow; joined where they touch. `own` may be empty.
  struct Sees {
    uint32_t first = 0, count = 0;
  };
  Sees add_spans(std::span<const SlotSpan> context, SlotSpan own);
  size_t add_row(TokenId token, int32_t position, int32_t slot, Sees sees, Want want);
  const Row& row(size_t i) const { return rows_[i]; }
  size_t rows() const { return rows_.size(); }
  void want(size_t row, Want w) { rows_[row].want = w; }
  /// A row shall say what comes at a place, besides what it is asked already; kArgmax: among what the place allows.
  void ask(size_t row, Want w, const Place& place);
  /// Taps and the draft adapter for the pass that is being laid out.
  void want_taps() { taps_ = true; }
  /// DecodeOptions::log_forced: what the row says is next, beside the token that the form forces at a position. Rows that turn out not
  /// to hold run again; the last word on a position counts.
  void compare(size_t row, int32_t position, TokenId forced);
  ForcedLog forced_log() const;
  void use_adapter() { adapter_ = true; }
  /// kCancelled if the answer is no longer wanted: before every pass, another model's too.
  Status poll() const;
  Status run(PassKind kind);
  /// Rows of the prompt that need not run: they are in the arena, and what their taps said in the draft head's.
  int32_t cached_rows() const { return cached_rows_; }
  bool prompt_cached() const { return cached_rows_ == prompt_rows(); }
  const PassOutput& output() const { return out_; }
  int32_t vocab() const { return lm_->info().vocab; }
  std::span<const float> logits_V(size_t row) const { return out_.logits_V(row); }

  // ---- choices from the last pass's rows
  ChoiceBuffers& choice_buffers() { return choice_; }

  float temperature_of(int32_t section) const;
  /// At a place: the section's temperature, or the text's.
  float temperature_at(const Place& place) const {
    return place.field < 0 ? options_->temperature : temperature_of(field(place.field).section);
  }
  /// The sampling settings at a place.
  Sampling sampling_at(const Place& place) const;
  Allowed allowed_at(const Place& place);
  /// What a row must deliver so that the target's token at a place can be picked from it; and that token.
  Want want_at(const Place& place);
  TokenId pick_at(size_t row, uint32_t request, const Place& place, std::span<const TokenId> history);
  /// What a row must deliver for a draft, greedy under the field's rules.
  Want draft_want_at(const Place& place) const;
  /// A drafter's proposal for a draw from a row of the last pass, with its facts where somebody wants them (want_facts).
  TokenId draft_from(size_t row, const Strand& strand, DraftToken& draw);
  /// The same from any logits over the target's vocabulary (another model's, a head's). Greedy under the field's rules; where the
  /// verifier samples drafts (want_sampled_drafts) drawn with purpose kDraft from the settings' distribution, which is kept as line
  /// DraftToken::q of q_of until the next round's clear_q. The strand's path must end where the draw is made (propose_along).
  TokenId propose_from(std::span<const float> logits_V, const Strand& strand, DraftToken& draw);
  void want_sampled_drafts(bool wanted) { sampled_drafts_ = wanted; }
  bool samples_drafts() const { return sampled_drafts_; }
  void clear_q();
  /// Keeps a drafter's distribution; its line.
  int32_t keep_q(const Distribution& q);
  Distribution q_of(int32_t line) const;
  /// Mask 1 of every group must deliver logits, and draws be told of it (DraftToken::group_row).
  void want_group_rows(bool wanted) { group_rows_ = wanted; }
  bool wants_group_rows() const { return group_rows_; }
  void want_facts(bool wanted) { facts_ = wanted; }
  bool wants_draft_logits() const { return facts_ || sampled_drafts_ || options_->sampling.repetition != 1; }
  double uniform(uint32_t request, const Place& place, Purpose purpose) const;
  const Field& field(int32_t f) const { return form_->fields()[static_cast<size_t>(f)]; }
  const Form* form() const { return form_; }
  void forget_form() { form_ = nullptr; }  // free text that is read against a form afterwards
  const Prompt& prompt() const { return *prompt_; }
  Statistics& statistics() { return *statistics_; }
  const DecodeOptions& options() const { return *options_; }
  const DecodeContext& context() const { return *context_; }
  void progress(std::span<const TokenId> tokens) const;
  void progress(std::span<const std::vector<TokenId>> fields) const;
  /// A field of answer 0 is final.
  void field_done(int32_t field, std::span<const TokenId> content) const {
    if (context_->on_field) context_->on_field(field, content);
  }

 private:
  Lm* lm_ = nullptr;
  const Prompt* prompt_ = nullptr;
  const Form* form_ = nullptr;
  const DecodeOptions* options_ = nullptr;
  const DecodeContext* context_ = nullptr;
  Statistics* statistics_ = nullptr;
  std::vector<Row> rows_;
  std::vector<SlotSpan> spans_;
  std::vector<TokenId> listed_;
  AllowedLists lists_;
  PassOutput out_;
  ChoiceBuffers choice_;
  std::function<void()> hook_;
  std::span<const TokenId> scaffold_;
  std::span<const int32_t> scaffold_positions_;
  size_t prompt_last_row_ = 0;
  bool deferred_ = false, deferred_last_ = false, carries_prefill_ = false, provisional_ = false;
  bool with_features_ = false, prompt_runs_ = false, taps_ = false, adapter_ = false, facts_ = false, sampled_drafts_ = false,
       group_rows_ = false;
  struct Comparison {
    size_t row;
    int32_t position;
    TokenId forced;
  };
  void read_comparisons();
  std::vector<Comparison> comparisons_;
  std::map<int32_t, ForcedLog::Miss> compared_;  // by position; own == forced where the model agrees
  std::vector<TokenId> q_ids_;
  std::vector<double> q_weights_;
  std::vector<size_t> q_ends_;
  PrefixCache own_memory_, own_draft_prefix_cache_;
  const Lm* draft_prefix_cache_of_ = nullptr;
  PrefixCache* memory_ = nullptr;
  int32_t cached_rows_ = 0;
};

}  // namespace slip
