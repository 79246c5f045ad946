// SPDX-License-Identifier: Apache-2.0
#include "decode/draft_length/policy.h"

#include "decode/draft_length/methods.h"
#include "decode/draft_length/model.h"

namespace slip {
namespace {

class NoWidth : public WidthPolicy {
 public:
  void open(WidthView s) override { s.set_window(0, kNoEnd); }
};

/// A block of `tokens` rows, the newest known one included: the window ends tokens - 1 positions ahead.
class BlockWidth : public WidthPolicy {
 public:
  explicit BlockWidth(int32_t tokens) : tokens_(tokens) {}
  void open(WidthView s) override { s.set_window(kNoEnd, s.position() + (s.rows() == 0 ? 0 : tokens_ - 1)); }
  void lay_masks(WidthViews strands) override {
    for (WidthView s : strands) s.set_masks(tokens_ - 1);
  }

 private:
  int32_t tokens_;
};

class DrawsWidth : public WidthPolicy {
 public:
  explicit DrawsWidth(int32_t draws) : draws_(draws) {}
  void open(WidthView s) override { s.set_window(draws_, kNoEnd); }

 private:
  int32_t draws_;
};

/// To the end of the form's block that the next draw is in.
class FormBlocks : public WidthPolicy {
 public:
  explicit FormBlocks(const Form& form) : form_(form) {}
  void open(WidthView s) override {
    s.set_window(kNoEnd, kNoEnd);
    if (!s.done()) s.set_block(form_.blocks()[static_cast<size_t>(form_.block_at(s.position()))]);
  }

 private:
  const Form& form_;
};

/// Do masks travel with the verifying passes?
bool drafts_ahead(const Method& m) {
  const auto* previous = std::get_if<PreviousDrafter>(&m.drafter);
  const auto* diffusion = std::get_if<DiffusionDrafter>(&m.drafter);
  return (diffusion && diffusion->ahead) || (previous && previous->then && previous->then->ahead);
}

WidthBasis basis_of(const Method& m, const DecodeOptions& o) {
  return {o.width_tracker, o.most_rows, o.law == Law::kGraph || m.schedule == Schedule::kFields};
}

}  // namespace

Result<std::unique_ptr<WidthPolicy>> make_width(const Method& m, const Form* form, const DecodeOptions& o) {
  if (std::holds_alternative<NoDrafter>(m.drafter)) return std::unique_ptr<WidthPolicy>(std::make_unique<NoWidth>());
  switch (m.width.kind) {
    case Width::Kind::kBlocks:
      if (!form) return usage_error("--width: expected fixed:N for free text, got blocks");
      return std::unique_ptr<WidthPolicy>(std::make_unique<FormBlocks>(*form));
    case Width::Kind::kMeasured:
      if (!o.width_model)
        return usage_error("--width measured: expected a width.json beside the model (eval --calibrate FILE makes one), got none");
      SLIP_TRY_(check_width_model(*o.width_model, form));
      if (form && drafts_ahead(m)) return make_levels_width(m, *form, *o.width_model, basis_of(m, o));
      return make_measured_width(m, form, *o.width_model, basis_of(m, o));
    case Width::Kind::kBlockPilot:
      if (!o.block_pilot) return usage_error("--width blockpilot: expected a classifier (blockpilot:FILE), got none");
      if (std::holds_alternative<QuadraticDrafter>(m.drafter))
        return unsupported("--width blockpilot: expected a drafter of blocks, got {}", words_of(m).drafter);
      return make_pilot_width(m, *o.block_pilot);
    case Width::Kind::kFixed:
      break;
  }
  if (lays_blocks(m)) return std::unique_ptr<WidthPolicy>(std::make_unique<BlockWidth>(m.width.tokens));
  return std::unique_ptr<WidthPolicy>(std::make_unique<DrawsWidth>(m.width.tokens));
}

bool lays_blocks(const Method& m) {
  const auto* previous = std::get_if<PreviousDrafter>(&m.drafter);
  return std::holds_alternative<DiffusionDrafter>(m.drafter) || (previous && previous->then);
}

}  // namespace slip
