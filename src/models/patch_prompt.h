// SPDX-License-Identifier: Apache-2.0
// The rows of a prompt for models whose image positions count on as text's (plain ViTs; no multimodal RoPE), and the row of an ego
// history.
#pragma once
#include <optional>
#include <span>

#include "base/ids.h"
#include "base/result.h"
#include "lm/lm.h"

namespace slip {

struct PatchRules {
  std::optional<TokenId> image;    // its placeholder; nothing: all images behind the first token (OpenVLA)
  std::optional<TokenId> history;  // placeholder of the ego history's row
};
/// `image_rows[k]`: rows of image k; placeholders stand once per image. The history's feature comes behind those of all images;
/// features stay empty for the caller. kBadInput when placeholders do not fit what is given.
Result<Prompt> patch_prompt_rows(std::span<const TokenId> tokens, std::span<const int32_t> image_rows, bool history,
                                 const PatchRules& rules);

}  // namespace slip
