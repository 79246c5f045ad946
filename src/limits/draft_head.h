// SPDX-License-Identifier: Apache-2.0
// Times of a draft head's operations by the roofline [DFlash; models/draft/dflash.h]: the context of target rows (taps through W_fc, then
// keys and values of every layer), and a block's rows through the head's own layers and the target's head.
#pragma once
#include <cstdint>

#include "limits/roofline.h"

namespace slip {

struct DraftHeadShape {
  DecoderShape decoder;  // vocab: rows of the head that are asked
  int64_t taps = 0;      // numbers of a target row: tapped layers x D
};

/// What `rows` target rows cost as context: 2 rows (taps D + 2 L G K D) multiplications and additions.
Result<PassTime> draft_head_context(const DraftHeadShape& shape, const Machine& machine, const PassShape& rows);
/// A round as draft lengths price it: the context of `rows` rows and a block of as many, all of which are asked.
Result<PassTime> draft_head_round(const DraftHeadShape& shape, const Machine& machine, const PassShape& rows);

}  // namespace slip
