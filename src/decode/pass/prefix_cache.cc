// SPDX-License-Identifier: Apache-2.0
// What an arena's first slots hold of a prompt (prefix_cache.h). A prompt's row depends on nothing behind it, so a common prefix of two
// prompts has equal keys, bit for bit. Features are compared as bits and kept as a copy: 6 MB for three cameras of 240 rows, 1 ms. Rows that lie
// on a device are known by what they were made from.
#include <algorithm>
#include <cstring>

#include "decode/pass/prefix_cache.h"

namespace slip {
namespace {

bool same_bits(std::span<const float> a, std::span<const float> b) { return std::memcmp(a.data(), b.data(), a.size_bytes()) == 0; }

}  // namespace

void PrefixCache::crop(size_t rows) {
  known_rows_ = std::min(known_rows_, static_cast<int32_t>(rows));
  inputs_.resize(std::min(rows, inputs_.size()));
  positions_.resize(inputs_.size());
}

int32_t PrefixCache::crop_to(const Lm& lm, const Prompt& prompt, const DraftHead* head) {
  if (known_) return known_ == &prompt ? known_rows_ : 0;
  if (passes_ != lm.passes() || (head && head_ != head)) crop(0);  // without a head, whose taps were kept does not matter
  const int32_t width = lm.info().hidden_size;
  const FeatureView kept(features_ND_), given(prompt.features);
  const size_t most = std::min(inputs_.size(), prompt.inputs.size());
  size_t same = 0;
  for (; same < most && positions_[same] == prompt.positions[same]; ++same) {
    const RowInput &mine = inputs_[same], &its = prompt.inputs[same];
    if (mine.index() != its.index()) break;
    if (const auto* token = std::get_if<TokenId>(&its)) {
      if (*token != std::get<TokenId>(mine)) break;
    } else {
      const auto place = given.place_of(std::get<Feature>(its).index, width);
      if (!place) break;  // the pass will refuse it
      const int32_t k = std::get<Feature>(mine).index;
      if ((place->block < 0) != (k >= 0)) break;
      if (k < 0 && contents_[static_cast<size_t>(-1 - k)] != content_of(given, *place, width)) break;
      if (k >= 0 && !same_bits(kept.numbers_of({-1, k}, width), given.numbers_of(*place, width))) break;
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
  const FeatureView given(prompt.features);
  inputs_ = prompt.inputs;
  positions_ = prompt.positions;
  features_ND_.clear();
  contents_.clear();
  for (size_t i = 0; i < inputs_.size(); ++i) {
    auto* feature = std::get_if<Feature>(&inputs_[i]);
    if (!feature) continue;
    const auto place = given.place_of(feature->index, width);
    if (!place) {  // an Lm that reads no features let it pass: nothing to compare from here on
      crop(i);
      break;
    }
    if (place->block >= 0) {
      contents_.push_back(content_of(given, *place, width));
      feature->index = -static_cast<int32_t>(contents_.size());
      continue;
    }
    feature->index = static_cast<int32_t>(FeatureView(features_ND_).rows(width));
    const auto from = given.numbers_of(*place, width);
    features_ND_.insert(features_ND_.end(), from.begin(), from.end());
  }
  head_ = head;
}

void PrefixCache::ran(const Lm& lm) { passes_ = lm.passes(); }

}  // namespace slip
