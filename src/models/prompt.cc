// SPDX-License-Identifier: Apache-2.0
// Prompt rows; see prompt.h.
#include "models/prompt.h"

#include <algorithm>

namespace slip {

Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, std::span<const Video> videos,
                           const VisionRules& rules) {
  const auto number_of = [&](TokenId id) { return static_cast<size_t>(std::count(tokens.begin(), tokens.end(), id)); };
  std::vector<TokenId> expanded(tokens.begin(), tokens.end());
  // As many placeholders as grids: one each. Else they must be repeated already, and rope_positions checks that they fit.
  if (number_of(rules.image_pad) == images.size() && number_of(rules.video_pad) == videos.size()) {
    SLIP_TRY(expanded, expand_placeholders(tokens, images, videos, rules));
  }
  SLIP_TRY(const RopePositions positions, rope_positions(expanded, images, videos, rules));
  Prompt prompt;
  prompt.positions = positions.rows;
  prompt.next_position = static_cast<int32_t>(expanded.size()) + positions.rope_delta;
  int32_t image = 0, video = static_cast<int32_t>(std::count(expanded.begin(), expanded.end(), rules.image_pad));
  for (const TokenId token : expanded)
    prompt.inputs.push_back(token == rules.image_pad   ? RowInput{Feature{image++}}
                            : token == rules.video_pad ? RowInput{Feature{video++}}
                                                       : RowInput{token});
  return prompt;
}

Result<Prompt> prompt_rows(std::span<const TokenId> tokens, std::span<const VisionGrid> images, const VisionRules& rules) {
  return prompt_rows(tokens, images, {}, rules);
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
