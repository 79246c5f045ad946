// SPDX-License-Identifier: Apache-2.0
#include "models/vision/feature_cache.h"

#include <algorithm>

namespace slip {

const Features* FeatureCache::get(const PatchGrid& image) {
  if (!enabled() || image.content.empty()) return nullptr;
  ++queries_;
  const auto at = std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.is(image); });
  if (at == entries_.end()) return nullptr;
  ++hits_;
  entries_.splice(entries_.end(), entries_, at);
  return &entries_.back().features;
}

void FeatureCache::put(const PatchGrid& image, Features features) {
  const size_t bytes = features.bytes();
  if (!enabled() || image.content.empty() || bytes > most_bytes_) return;
  if (std::any_of(entries_.begin(), entries_.end(), [&](const Entry& e) { return e.is(image); }))
    return;  // shown twice in one request
  for (; bytes_ + bytes > most_bytes_; entries_.pop_front()) bytes_ -= entries_.front().features.bytes();
  entries_.push_back({image.content, image.t, image.h, image.w, std::move(features)});
  bytes_ += bytes;
}

}  // namespace slip
