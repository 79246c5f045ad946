// SPDX-License-Identifier: Apache-2.0
// Feature rows of images that were encoded before, by the images' content (PatchGrid::content): up to so many bytes, the longest unused go
// first. Those that lie on a device stay there, and count as much. A tower gives an image the same bits in any company, so a row from here is the row that it would compute.
#pragma once
#include <cstdint>
#include <list>
#include <vector>

#include "image/qwen_preprocess.h"
#include "lm/features.h"

namespace slip {

class FeatureCache {
 public:
  explicit FeatureCache(size_t bytes = 0) : most_bytes_(bytes) {}
  bool enabled() const { return most_bytes_ > 0; }
  /// Null where it is not there. Holds until the next put.
  const Features* get(const PatchGrid& image);
  void put(const PatchGrid& image, Features features);
  /// Lets go of all; what it counted stays counted.
  void drop() {
    entries_.clear();
    bytes_ = 0;
  }
  size_t bytes() const { return bytes_; }
  int64_t hits() const { return hits_; }
  int64_t queries() const { return queries_; }

 private:
  struct Entry {
    ContentHash content;
    int t, h, w;
    Features features;
    bool is(const PatchGrid& g) const { return content == g.content && t == g.t && h == g.h && w == g.w; }
  };
  std::list<Entry> entries_;  // longest unused first
  size_t most_bytes_, bytes_ = 0;
  int64_t hits_ = 0, queries_ = 0;
};

}  // namespace slip
