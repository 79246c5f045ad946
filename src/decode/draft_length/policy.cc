// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/policy.h"

#include "decode/draft_length/methods.h"
#include "decode/draft_length/model.h"

namespace slip {
namespace {

class NoDraftLength : public DraftLengthPolicy {
 public:
  void open(DraftView s) override { s.set_window(0, kNoEnd); }
};

/// A block of `tokens` rows, the newest known one included: the window ends tokens - 1 positions ahead.
class BlocksDraftLength : public DraftLengthPolicy {
 public:
  explicit BlocksDraftLength(int32_t tokens) : tokens_(tokens) {}
  void open(DraftView s) override { s.set_window(kNoEnd, s.position() + (s.rows() == 0 ? 0 : tokens_ - 1)); }
  void lay_masks(DraftViews strands) override {
    for (DraftView s : strands) s.set_masks(tokens_ - 1);
  }

 private:
  int32_t tokens_;
};

class TokensDraftLength : public DraftLengthPolicy {
 public:
  explicit TokensDraftLength(int32_t draws) : draws_(draws) {}
  void open(DraftView s) override { s.set_window(draws_, kNoEnd); }

 private:
  int32_t draws_;
};

/// To the end of the form's block that the next draw is in.
class FormBlocks : public DraftLengthPolicy {
 public:
  explicit FormBlocks(const Form& form) : form_(form) {}
  void open(DraftView s) override {
    s.set_window(kNoEnd, kNoEnd);
    if (!s.done()) s.set_block(form_.blocks()[static_cast<size_t>(form_.block_at(s.position()))]);
  }

 private:
  const Form& form_;
};

DraftLengthBasis basis_of(const Method& m, const DecodeOptions& o, const DecodeContext& context) {
  return {context.draft_length_tracker, o.most_rows, o.visibility == Visibility::kGraph || m.schedule == Schedule::kFields,
          context.company};
}

}  // namespace

Result<std::unique_ptr<DraftLengthPolicy>> make_draft_length(const Method& m, const Form* form, const DecodeOptions& o,
                                                             const DecodeContext& context) {
  if (!m.drafts()) return std::unique_ptr<DraftLengthPolicy>(std::make_unique<NoDraftLength>());
  switch (m.draft_length.kind) {
    case DraftLengthSpec::Kind::kBlocks:
      if (!form) return usage_error("--width: expected fixed:N for free text, got blocks");
      return std::unique_ptr<DraftLengthPolicy>(std::make_unique<FormBlocks>(*form));
    case DraftLengthSpec::Kind::kMeasured:
      if (!context.draft_length_model)
        return usage_error(
            "--width measured: expected a calibration (eval --calibrate FILE, or of free text bench text --calibrate FILE, makes "
            "one), got none");
      SLIP_TRY_(check_draft_length_model(*context.draft_length_model, form));
      if (form && m.diffusion() && m.diffusion()->ahead)
        return make_levels_draft_length(m, *form, *context.draft_length_model, basis_of(m, o, context));
      return make_measured_draft_length(m, form, *context.draft_length_model, basis_of(m, o, context));
    case DraftLengthSpec::Kind::kBlockPilot:
      if (!context.block_pilot) return usage_error("--width blockpilot: expected a classifier (blockpilot:FILE), got none");
      if (std::holds_alternative<QuadraticSpec>(m.drafter))
        return unsupported("--width blockpilot: expected a drafter of blocks, got {}", words_of(m).drafter);
      return make_pilot_draft_length(m, *context.block_pilot, context.draft_head);
    case DraftLengthSpec::Kind::kFixed:
      break;
  }
  if (m.diffusion()) return std::unique_ptr<DraftLengthPolicy>(std::make_unique<BlocksDraftLength>(m.draft_length.tokens));
  return std::unique_ptr<DraftLengthPolicy>(std::make_unique<TokensDraftLength>(m.draft_length.tokens));
}

}  // namespace slip
