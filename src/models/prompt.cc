// SPDX-License-Identifier: Apache-2.0
// Prompt rows; the position rule stands in prompt.h.
#include "models/prompt.h"

#include <algorithm>

namespace slip {

Result<Prompt> build_prompt(std::span<const TokenId> tokens, std::span<const CellGrid> images, TokenId image_token) {
  const auto placeholders = static_cast<size_t>(std::count(tokens.begin(), tokens.end(), image_token));
  size_t cells = 0;
  for (const CellGrid& g : images) cells += static_cast<size_t>(g.cells());
  const bool repeated = placeholders == cells && placeholders != images.size();
  if (!repeated && placeholders != images.size())
    return bad_input("prompt: expected {} image placeholders (or {}, one per feature), got {}", images.size(), cells, placeholders);

  Prompt prompt;
  size_t image = 0;
  int32_t feature = 0, next = 0;
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != image_token) {
      prompt.inputs.push_back(tokens[i]);
      prompt.positions.push_back(Position::text(next++));
      continue;
    }
    const CellGrid& g = images[image++];
    for (int32_t t = 0; t < g.t; ++t)
      for (int32_t row = 0; row < g.rows; ++row)
        for (int32_t column = 0; column < g.columns; ++column) {
          prompt.inputs.push_back(Feature{feature++});
          prompt.positions.push_back({next, next + row, next + column});
        }
    next += std::max({1, g.rows, g.columns});
    if (!repeated) continue;
    const size_t last = i + static_cast<size_t>(g.cells());
    for (; i + 1 < last; ++i)
      if (tokens[i + 1] != image_token)
        return bad_input("prompt: image {}: expected {} placeholders in a row, got fewer", image - 1, g.cells());
  }
  prompt.next_position = next;
  return prompt;
}

Prompt build_prompt(std::span<const TokenId> tokens) {
  Prompt prompt;
  for (const TokenId token : tokens) {
    prompt.positions.push_back(Position::text(prompt.next_position++));
    prompt.inputs.push_back(token);
  }
  return prompt;
}

}  // namespace slip
