// SPDX-License-Identifier: Apache-2.0
// What an arena's first slots hold of a prompt (prefix_cache.h). A prompt's row depends on nothing behind it, so a common prefix of two
// prompts has equal keys, bit for bit. Features are compared as bits and kept as a copy: 6 MB for three cameras of 240 rows, 1 ms.
#include <algorithm>
#include <cstring>

#include "decode/pass/prefix_cache.h"

namespace slip {

void PrefixCache::crop(size_t rows) {
  known_rows_ = std::min(known_rows_, static_cast<int32_t>(rows));
  inputs_.resize(std::min(rows, inputs_.size()));
  positions_.resize(inputs_.size());
}

int32_t PrefixCache::crop_to(const Lm& lm, const Prompt& prompt, const DraftHead* head) {
  if (known_) return known_ == &prompt ? known_rows_ : 0;
  if (passes_ != lm.passes() || head_ != head) crop(0);
  const auto width = static_cast<size_t>(lm.info().hidden_size);
  const size_t most = std::min(inputs_.size(), prompt.inputs.size());
  size_t same = 0;
  for (; same < most && positions_[same] == prompt.positions[same]; ++same) {
    const RowInput &mine = inputs_[same], &its = prompt.inputs[same];
    if (mine.index() != its.index()) break;
    if (const auto* token = std::get_if<TokenId>(&its)) {
      if (*token != std::get<TokenId>(mine)) break;
    } else {
      const float* a = features_ND_.data() + static_cast<size_t>(std::get<Feature>(mine).index) * width;
      const auto index = static_cast<size_t>(std::get<Feature>(its).index);
      if ((index + 1) * width > prompt.features_ND.size()) break;  // the pass will refuse it
      if (std::memcmp(a, prompt.features_ND.data() + index * width, width * sizeof(float)) != 0) break;
    }
  }
  crop(same);
  return static_cast<int32_t>(same);
}

void PrefixCache::assign(const Prompt& prompt, int32_t width, const DraftHead* head) {
  if (known_) {
    if (known_ == &prompt) known_rows_ = static_cast<int32_t>(prompt.inputs.size());
    return;
  }
  const auto d = static_cast<size_t>(width);
  inputs_ = prompt.inputs;
  positions_ = prompt.positions;
  features_ND_.clear();
  int32_t features = 0;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto* feature = std::get_if<Feature>(&inputs_[i]);
    if (!feature) continue;
    const size_t first = static_cast<size_t>(feature->index) * d;
    if (first + d > prompt.features_ND.size()) {  // an Lm that reads no features let it pass: nothing to compare from here on
      crop(i);
      break;
    }
    const auto from = prompt.features_ND.begin() + static_cast<ptrdiff_t>(first);
    features_ND_.insert(features_ND_.end(), from, from + static_cast<ptrdiff_t>(d));
    feature->index = features++;
  }
  head_ = head;
}

void PrefixCache::ran(const Lm& lm) { passes_ = lm.passes(); }

}  // namespace slip
