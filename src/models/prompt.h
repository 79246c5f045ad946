// SPDX-License-Identifier: Apache-2.0
// Tokens and image grids -> the rows of a prompt. Each image placeholder becomes one row per merged cell; positions follow
// Qwen2.5-VL's rule of transformers 4.x: text counts up in all three rows; an image that starts at s has t = s, h = s + row,
// w = s + column; the next text stands at the largest position so far + 1.
#pragma once
#include <span>
#include <vector>

#include "base/result.h"
#include "core/ids.h"
#include "nn/lm.h"

namespace slip {

/// Merged cells of one image: what the decoder sees of it.
struct CellGrid {
  int32_t t = 1, rows = 0, columns = 0;
  int32_t cells() const { return t * rows * columns; }
};

/// `tokens` holds each image's placeholder once, or already repeated once per cell. Rows take features 0, 1, ... in order;
/// features_ND stays empty for the caller. kBadInput when placeholders and images differ in number.
Result<Prompt> build_prompt(std::span<const TokenId> tokens, std::span<const CellGrid> images, TokenId image_token);
/// The same without images: positions 0, 1, ...
Prompt build_prompt(std::span<const TokenId> tokens);

}  // namespace slip
