// SPDX-License-Identifier: Apache-2.0
// For tests of second models that draft: one that names tokens as the target does.
#pragma once
#include "decode/types/context.h"

namespace slip::test {

inline VocabularyMap same_ids(int32_t vocab) {
  VocabularyMap map(vocab);
  for (int32_t id = 0; id < vocab; ++id) map.set({id}, TokenId{id});
  return map;
}

inline DraftModel draft_model_of_same_ids(Lm& lm, Prompt prompt) {
  const VocabularyMap map = same_ids(lm.info().vocab);
  return {.lm = &lm, .prompt = std::move(prompt), .to_draft = map, .to_target = map};
}

}  // namespace slip::test
