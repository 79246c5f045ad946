// SPDX-License-Identifier: Apache-2.0
// Tokens and image grids -> the rows of a prompt: each image placeholder becomes one row per merged cell, and positions follow
// Qwen2.5-VL's rule (text/chat.h: rope_positions).
#pragma once
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "nn/lm.h"
#include "text/chat.h"

namespace slip {

/// `tokens` holds each image's placeholder once, or already repeated once per cell. Rows of images take features 0, 1, ... in
/// order; features_ND stays empty for the caller. kBadInput when placeholders and images differ in number.
Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, const VisionRules& rules);
/// The same without images: positions 0, 1, ...
Prompt prompt_rows(std::span<const TokenId> tokens);

}  // namespace slip
