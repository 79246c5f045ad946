// SPDX-License-Identifier: Apache-2.0
// Training a DFlash head [DFlash; docs/notes/speculation.md#dflash]: models/draft/dflash.h with gradients, over a frozen target's taps.
//
//   block of anchor a: rows [token a, mask x (B-1)] at positions[a] + 0 .. B-1
//   row sees: context rows c < a with context[c], and its own block both ways; no other block
//   row k predicts token a + k; L = sum w CE / sum w, w = exp(-(k-1) / gamma), over slots k >= 1 with a + k < n and loss_mask[a + k]
//   ours: where a form's fixed tokens are known, their rows hold them in a mask's place, as the drafter's blocks do, and k counts masks
//   draft_vocab: the head's rows are these ids; a label that is not among them leaves both sums
// The public trainer's anchors: positions with loss_mask, at most n - B, at most so many as asked for.
#pragma once
#include "base/philox.h"
#include "train/heads/network.h"

namespace slip {

struct DFlashShape {
  Qwen3Shape layers;
  int32_t block = 16, taps = 1, mask_token = 0;  // taps: tapped layers of the target
  double gamma = 7;                              // <= 0: every slot weighs 1
  std::vector<int32_t> draft_vocab;              // ascending; empty: all
};

struct DFlashSequence {
  std::vector<int32_t> tokens, positions;   // n
  std::vector<float> taps;                  // n x (taps D)
  std::vector<uint8_t> context, loss_mask;  // n
  std::vector<int32_t> anchors;
  std::vector<uint8_t> fixed;  // n, or none: scaffold, which a block holds in a mask's place and which is no label
  bool given(int32_t token) const { return static_cast<size_t>(token) < fixed.size() && fixed[static_cast<size_t>(token)] != 0; }
};

/// What row `row` of a sequence's packed blocks is taught. label: a row of the head.
struct DFlashSlot {
  int32_t row = 0, token = 0, label = 0;  // token: index in the sequence
  double weight = 0;
};
std::vector<DFlashSlot> dflash_slots(const DFlashSequence& s, const DFlashShape& shape);
/// Dense: rows of packed blocks x (n context rows, then the blocks' rows); 1: seen.
std::vector<uint8_t> dflash_mask(const DFlashSequence& s, int32_t block);
/// At most `most` anchors, drawn without repetition, ascending. Empty where no position is one.
std::vector<int32_t> draw_anchors(const std::vector<uint8_t>& loss_mask, int32_t block, int32_t most, PhiloxStream& stream);

class DFlashNetwork final : public HeadNetwork {
 public:
  /// `embedding`, `head`: the target's, V x D, frozen.
  DFlashNetwork(DFlashShape shape, const Constant& embedding, const Constant& head, Precision precision);
  ~DFlashNetwork() override;
  /// Sum of w CE over the slots; with `scale` > 0 also adds scale times its gradient.
  double loss(const DFlashSequence& s, std::span<const DFlashSlot> slots, double scale);
  /// Of all rows, rows x head rows.
  std::vector<double> logits(const DFlashSequence& s);
  const DFlashShape& shape() const { return shape_; }

 private:
  struct Frozen;
  DFlashShape shape_;
  std::unique_ptr<Frozen> frozen_;
};

}  // namespace slip
