// SPDX-License-Identifier: Apache-2.0
// The draft length that a classifier sets once per request (lm/block_pilot.h).
#include "lm/block_pilot.h"

#include <algorithm>

#include "decode/draft_length/methods.h"
#include "lm/draft_head.h"

namespace slip {
namespace {

class BlockPilotDraftLength : public DraftLengthPolicy {
 public:
  BlockPilotDraftLength(const BlockPilot& pilot, int32_t block, bool by_positions)
      : pilot_(pilot), block_(block), by_positions_(by_positions) {}
  bool wants_prompt_logits() const override { return true; }
  void prompt_logits(std::span<const float> logits_V) override { block_ = std::clamp(pilot_.block(logits_V, block_), 2, 64); }
  void open(DraftView s) override {
    if (by_positions_)
      s.set_window(kNoEnd, s.position() + (s.rows() == 0 ? 0 : block_ - 1));
    else
      s.set_window(block_ - 1, kNoEnd);
  }
  void lay_masks(DraftViews strands) override {
    for (DraftView s : strands) s.set_masks(block_ - 1);
  }

 private:
  const BlockPilot& pilot_;
  int32_t block_;
  bool by_positions_;
};

}  // namespace

// The block that the classifier was trained around: a head's own, else the method's.
std::unique_ptr<DraftLengthPolicy> make_pilot_draft_length(const Method& m, const BlockPilot& pilot, const DraftHead* head) {
  const bool blocks = m.diffusion() != nullptr;  // windows of positions
  const bool of_head = head && std::holds_alternative<DFlashSpec>(m.drafter);
  const int32_t own = of_head ? head->info().block : m.draft_length.tokens + !blocks;
  return std::make_unique<BlockPilotDraftLength>(pilot, own, blocks);
}

}  // namespace slip
