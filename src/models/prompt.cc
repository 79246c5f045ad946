// SPDX-License-Identifier: Apache-2.0
// Prompt rows; see prompt.h.
#include "models/prompt.h"

#include <algorithm>

namespace slip {

Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, const VisionRules& rules) {
  const auto placeholders = static_cast<size_t>(std::count(tokens.begin(), tokens.end(), rules.image_pad));
  std::vector<TokenId> expanded(tokens.begin(), tokens.end());
  // As many placeholders as images: one each. Else they must be repeated already, and rope_positions checks that they fit.
  if (placeholders == images.size()) {
    SLIP_TRY(expanded, expand_placeholders(tokens, images, {}, rules));
  }
  SLIP_TRY(const RopePositions positions, rope_positions(expanded, images, {}, rules));
  Prompt prompt;
  prompt.positions = positions.rows;
  prompt.next_position = static_cast<int32_t>(expanded.size()) + positions.rope_delta;
  int32_t feature = 0;
  for (const TokenId token : expanded)
    prompt.inputs.push_back(token == rules.image_pad ? RowInput{Feature{feature++}} : RowInput{token});
  return prompt;
}

Prompt prompt_rows(std::span<const TokenId> tokens) {
  Prompt prompt;
  for (const TokenId token : tokens) {
    prompt.positions.push_back(Position::text(prompt.next_position++));
    prompt.inputs.push_back(token);
  }
  return prompt;
}

}  // namespace slip
