// SPDX-License-Identifier: Apache-2.0
// Tokens, image and video grids -> the rows of a prompt: each placeholder becomes one row per merged cell, and positions follow
// Qwen2.5-VL's rule (text/chat.h: rope_positions).
#pragma once
#include <span>
#include <vector>

#include "base/ids.h"
#include "base/result.h"
#include "lm/lm.h"
#include "text/chat.h"

namespace slip {

/// `tokens` holds each placeholder once, or already repeated once per cell (images and videos alike). Rows of images take features
/// 0, 1, ... in order, those of videos the ones behind; features stay empty for the caller. kBadInput when placeholders and grids
/// differ in number.
Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, std::span<const Video> videos,
                           const VisionRules& rules);
/// The same without videos.
Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, const VisionRules& rules);
/// The same without images: positions 0, 1, ...
Prompt prompt_rows(std::span<const TokenId> tokens);

}  // namespace slip
