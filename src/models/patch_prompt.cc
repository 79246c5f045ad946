// SPDX-License-Identifier: Apache-2.0
// See patch_prompt.h.
#include "models/patch_prompt.h"

#include <algorithm>

namespace slip {

Result<Prompt> patch_prompt_rows(std::span<const TokenId> tokens, std::span<const int32_t> image_rows, bool history,
                                 const PatchRules& rules) {
  if (tokens.empty()) return bad_input("prompt: expected at least one token, got none");
  const auto placeholders = [&](const std::optional<TokenId>& id) {
    return id ? static_cast<size_t>(std::count(tokens.begin(), tokens.end(), *id)) : 0;
  };
  if (rules.image && placeholders(rules.image) != image_rows.size())
    return bad_input("prompt: expected a placeholder for each of {} images, got {}", image_rows.size(), placeholders(rules.image));
  if (placeholders(rules.history) != (history ? 1 : 0))
    return bad_input("prompt: expected {} placeholders of the ego history, got {}", history ? 1 : 0, placeholders(rules.history));
  Prompt prompt;
  const auto append = [&](RowInput input) {
    prompt.positions.push_back(Position::text(prompt.next_position++));
    prompt.inputs.push_back(input);
  };
  int32_t feature = 0, images_end = 0;
  for (const int32_t n : image_rows) images_end += n;
  size_t image = 0;
  const auto append_images = [&](size_t count) {
    for (; count > 0; --count, ++image)
      for (int32_t i = 0; i < image_rows[image]; ++i) append(Feature{feature++});
  };
  for (size_t t = 0; t < tokens.size(); ++t) {
    if (rules.image && tokens[t] == *rules.image) {
      append_images(1);
    } else if (rules.history && tokens[t] == *rules.history) {
      append(Feature{images_end});
    } else {
      append(tokens[t]);
    }
    if (!rules.image && t == 0) append_images(image_rows.size());
  }
  return prompt;
}

}  // namespace slip
