// SPDX-License-Identifier: Apache-2.0
// A draft head: a small network that reads a target's hidden states and proposes a block of tokens in one pass [DFlash;
// docs/notes/speculation.md#dflash]. decode/ knows this interface; models/ loads one from its folder.
//
// Its context keys live in an arena with the target's slot numbers: what the target's row at slot s said is stored at slot s, and a
// draft sees the same spans as the target's newest row. So the head obeys every visibility that the target does (chain, graph,
// rollouts), and rolling back is overwriting. Rows of a block under draft need slots of their own: context_slots() and above.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lm/lm.h"

namespace slip {

struct DraftHeadInfo {
  std::string name;                 // folder, for messages
  int32_t block = 16;               // rows of a block: the anchor and block - 1 masks
  std::vector<int32_t> tap_layers;  // of the target
  int32_t taps_width = 0;           // E: numbers that store() takes per row
  int32_t vocab = 0;                // ids of the target; rows of a short draft vocabulary come back as target ids
  TokenId mask;
  int32_t context_slots = 0, block_slots = 0;
  bool image_context = true;  // false: rows of images were never context in training and are left out
};

class DraftHead {
 public:
  virtual ~DraftHead() = default;
  virtual const DraftHeadInfo& info() const = 0;
  /// Stores the context of rows: fused, normalised, projected to keys and values, rotated. A slot may be stored again.
  /// taps_NE: one line per slot. kResource for a slot outside the context.
  virtual Status store(std::span<const int32_t> slots_N, std::span<const int32_t> positions_N, std::span<const float> taps_NE) = 0;
  /// Blocks of [anchor, mask, ...]: rows see stored context and the rows of their own block (spans with slots from context_slots
  /// on). Outputs as Lm::forward's, at the row's own place: no shift. Logits of ids without a row in the draft vocabulary: -inf.
  virtual Status forward(const Pass& pass, PassOutput& out) = 0;
};

}  // namespace slip
