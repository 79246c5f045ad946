// SPDX-License-Identifier: Apache-2.0
// An answer replayed: passes run for real, for their time, and what they say is replaced by a recorded answer. A model of random weights
// never accepts a draft; so which drafts hold is decided by dice with given odds, keyed by place and attempt, or by a stand-in that knows a
// calibration (recorded_acceptance.h). Rows, spans, passes and rounds are those of the engine's decoders, which do not know.
#pragma once
#include <vector>

#include "form/form.h"
#include "lm/lm.h"

namespace slip::cli {

/// By form position: the token that the target draws there (END where a field has ended), another token that the field allows, and the
/// odds of a draft. Positions where nothing is drawn hold anything.
struct Recording {
  std::vector<TokenId> target, other;
  std::vector<float> odds;
  int32_t first_position = 0;  // of form position 0
  uint64_t seed = 1;
};

/// A form with the recorded contents of its fields; under graph visibility END follows a content that is shorter than its budget.
struct RecordedForm {
  Form form;
  std::vector<std::vector<TokenId>> contents;
};
Recording record(const RecordedForm& answer, float odds);

/// Ids below 280 that forms, masks and prompts are made of: the shapes matter, not the words.
struct ReplayIds {
  static constexpr TokenId kNull{5}, kMask{6}, kEnd{7};
  static constexpr int32_t kFixed = 16, kYes = 64, kWords = 100, kWordCount = 180, kAll = 280;
};
/// Fast-dDrive's answer, chain visibility: 12 yes/no values, an explanation of 192, two behaviours of 3, ten numbers of 7 tokens; 280 values
/// and 124 fixed tokens, 404 in all, 11 blocks [docs/notes/block-diffusion.md#scaffold-and-blocks].
Result<RecordedForm> fast_ddrive_answer();
/// FastDriveCoT's template, graph visibility, with the budgets of the built-in form `drive-cot` and contents of about seven tenths of them.
Result<RecordedForm> drive_cot_answer();

enum class ReplayKind : uint8_t { kPrefill, kDraft, kVerify };
struct ReplayPass {
  ReplayKind kind;
  int64_t rows = 0;
  double ms = 0;
  bool ran = true;  // false: taken at the time of the last pass of as many rows that ran
};

class ReplayLm final : public Lm {
 public:
  /// `inner` may be null: nothing runs, for counting passes. `every` > 1: of passes of one row only each every-th runs.
  ReplayLm(Lm* inner, LmInfo info, Recording recording, int every = 1);
  const LmInfo& info() const override { return info_; }
  /// `stand_in` says what passes say, in place of the recording; it outlives this.
  void say_by(Lm& stand_in) { stand_in_ = &stand_in; }
  Status forward(const Pass& pass, PassOutput& out) override;
  uint64_t passes() const override { return count_; }
  const std::vector<ReplayPass>& log() const { return log_; }
  void clear_log() { log_.clear(); }
  /// All that forward() took, the replacing included.
  double spent_ms() const { return spent_ms_; }

 private:
  /// Logits that the inner model keeps, but what is said is sure.
  class SaidLogits final : public KeptLogits {
   public:
    void begin(KeptLogits* inner) { inner_ = inner, said_.clear(); }
    void say(int32_t line, TokenId id);
    std::span<const Likely> likeliest(int32_t line) const override { return {&said_.at(static_cast<size_t>(line)), 1}; }
    float log_sum_exp(int32_t line) const override { return likeliest(line).front().logit; }
    Result<std::span<const float>> all(int32_t line) override;
    Result<std::optional<TokenId>> draw(int32_t line, std::span<const uint64_t> bits, double temperature, double u) override;

   private:
    KeptLogits* inner_ = nullptr;
    std::vector<Likely> said_;  // by line
    std::vector<float> logits_V_;
  };
  Status run(const Pass& pass, ReplayPass& entry, PassOutput& out);
  void say_recorded(const Pass& pass, bool drafts, PassOutput& out);
  TokenId next_said(int32_t u, bool draft);
  Lm* inner_;
  Lm* stand_in_ = nullptr;
  LmInfo info_;
  Recording recording_;
  int every_;
  uint64_t count_ = 0, ones_ = 0;
  double spent_ms_ = 0, last_one_ms_ = 0;
  std::vector<uint32_t> attempts_;  // by form position
  SaidLogits said_;
  std::vector<ReplayPass> log_;
};

}  // namespace slip::cli
