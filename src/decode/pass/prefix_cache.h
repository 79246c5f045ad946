// SPDX-License-Identifier: Apache-2.0
// The rows of a prompt that an arena still holds from the request before: a later prompt runs only what differs.
#pragma once
#include <cstdint>
#include <vector>

#include "lm/lm.h"

namespace slip {

class DraftHead;

/// Rows of a prompt whose keys are in an arena's first slots, so that a later prompt runs only what differs. Holds for one Lm; whoever
/// calls decoders one after another on it keeps one.
class PrefixCache {
 public:
  /// Forgets what an Lm that ran other passes in between may have overwritten, and all but the longest common prefix with `prompt`:
  /// equal tokens, equal positions, and for image rows equal feature bits (rows on a device: equal contents). How many rows are left.
  int32_t crop_to(const Lm& lm, const Prompt& prompt, const DraftHead* head);
  /// Forgets all but the first `rows`.
  void crop(size_t rows);
  /// The prompt's rows are all there.
  void assign(const Prompt& prompt, int32_t width, const DraftHead* head);
  /// Passes of the Lm after which this holds.
  void ran(const Lm& lm);
  int32_t rows() const { return static_cast<int32_t>(inputs_.size()); }
  /// For an arena that this prompt's requests alone write to: `rows` of it are there, and nothing is compared or copied from now on. The
  /// prompt stays where it is while this is used, and is the only one.
  void know(const Prompt& prompt, int32_t rows) {
    known_ = &prompt;
    known_rows_ = rows;
  }

 private:
  std::vector<RowInput> inputs_;  // feature k >= 0: row k of features_ND_; below: contents_[-1 - k]
  std::vector<Position> positions_;
  std::vector<float> features_ND_;
  std::vector<ContentHash> contents_;  // of rows on a device
  const DraftHead* head_ = nullptr;    // that was given the rows' taps
  uint64_t passes_ = 0;
  const Prompt* known_ = nullptr;
  int32_t known_rows_ = 0;
};

}  // namespace slip
