// SPDX-License-Identifier: Apache-2.0
// A classifier that sets the draft length once per request [AMAP-ML, BlockPilot, arXiv 2606.31315; docs/notes/speculation.md#blockpilot]:
// it reads the raw logits behind the prompt's last row and picks the block for the whole answer. decode/ knows this interface; models/
// loads one.
//
// It is here to compare with. The paper's gain of 4 % is what an oracle over the same five sizes gets, and what picking the best of
// five equal ones "gains" from noise is 2.5 to 3 %; the structure that is left is worth at most 1 %, and the logits cost a pass of their
// own where the prefill would have travelled with the first round. Prefer --width measured.
#pragma once
#include <cstdint>
#include <span>

namespace slip {

class BlockPilot {
 public:
  virtual ~BlockPilot() = default;
  /// Logits that it reads.
  virtual int32_t vocab() const = 0;
  virtual int32_t classes() const = 0;
  /// The class with the largest output, the first of equal ones. `logits_V` as long as vocab(), or longer (a padded head).
  virtual int32_t pick(std::span<const float> logits_V) const = 0;
  /// The block for a drafter whose own is `block`: the middle class is that.
  int32_t block(std::span<const float> logits_V, int32_t own) const { return own - classes() / 2 + pick(logits_V); }
};

}  // namespace slip
