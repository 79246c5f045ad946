// SPDX-License-Identifier: Apache-2.0
// A row's answer once its logits are there; for the decoder on the processor and on a device.
#pragma once
#include "lm/lm.h"

namespace slip {

/// The id that argmax() (kernels.h) found. Where no logit was a number, the lowest, which lm/lm.h fixes; PassOutput::nan_rows tells.
TokenId id_or_lowest(int64_t argmax);

/// For row t, which wants its logits: fills its argmax over the ids that it allows. Whether the largest logit of all is finite.
bool answer_logits(const Pass& pass, size_t t, std::span<const float> logits_V, PassOutput& out);

}  // namespace slip
