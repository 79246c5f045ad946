// SPDX-License-Identifier: Apache-2.0
// How many rows the key/value cache must hold, told before the model is loaded.
#pragma once
#include <string>

#include "base/result.h"
#include "slipstream/request.h"

namespace slip::api {

inline constexpr int kMostSlots = 1 << 24;

/// What a request needs: its images' tokens, its text at one token a byte, and room for the answers of its rollouts with the slots
/// that their drafter takes.
Result<int> slots_for(const slipstream::Request& request, const std::string& folder);
/// kDefaultSlots, and what the drafter takes beside an answer in the model's own form: for records, one answer at a time.
int slots_for(const slipstream::DecoderChoice& decoder, const std::string& folder);

}  // namespace slip::api
